//! `courtesy run` and `courtesy env` as a shell sees them: the command has the last word, and its
//! requests come by.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::testkit::parties::Origin;

/// The program with a state directory of its own and a plain environment. What ignores signals around
/// the tests (nohup, a shell's background) is not to be taken for the user's wish.
pub fn courtesy(state_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_courtesy")])
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null());
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("COURTESY__STATE_DIR", state_dir)
        .env("HOME", state_dir);
    command
}

pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn end(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: status.code(), stdout, stderr }
}

fn run(arguments: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    end(&mut courtesy(dir.path(), &[&["run"], arguments].concat()))
}

/// A site that disallows /private/ and has every other page.
fn site() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut request = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let line = request.next().unwrap_or_default();
    request.find(String::is_empty);
    let body = if line.contains(" /robots.txt ") {
        "User-agent: *\nDisallow: /private/\n"
    } else {
        "a page\n"
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.read(&mut [0]);
}

#[test]
fn run_exits_as_its_command_does() {
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        assert_eq!(run(&["--", "sh", "-c", script]).code, Some(code), "{script}");
    }
}

#[test]
fn a_program_that_becomes_another_user_reads_the_certificate_not_the_key() {
    use std::os::unix::fs::PermissionsExt;

    // As a home directory is: closed to others.
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let script = r#"cat "$SSL_CERT_FILE" "$CURL_CA_BUNDLE" "$NODE_EXTRA_CA_CERTS" "$WGETRC" >/dev/null && echo read
        ls "${PHP_INI_SCAN_DIR##*:}" && cat "$STATE/ca/ca.key""#;
    let mut arguments = vec!["run", "--"];
    if rustix::process::geteuid().is_root() {
        arguments.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    arguments.extend(["sh", "-c", script]);
    let ended = end(courtesy(&state, &arguments).env("STATE", &state));
    assert!(ended.stdout.starts_with("read\n"), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("courtesy.ini"), "{}", ended.stdout);
    assert_eq!(ended.stdout.contains("PRIVATE KEY"), !rustix::process::geteuid().is_root());
    let mode = |path: &str| state.join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("ca/ca.key"), mode("ca")), (0o600, 0o700));
    let trusted =
        end(&mut courtesy(&state, &["run", "--", "sh", "-c", r#"echo "$SSL_CERT_FILE""#]));
    let trusted = Path::new(trusted.stdout.trim_end());
    assert!(!trusted.exists() && !trusted.parent().unwrap().exists(), "{}", trusted.display());
    let closed =
        trusted.ancestors().skip(2).find(|it| it.metadata().unwrap().permissions().mode() & 1 == 0);
    assert_eq!(closed, None, "everybody passes to it");
}

#[test]
fn a_home_that_cannot_be_written_ends_no_run() {
    let ended = end(&mut courtesy(
        Path::new("/proc/none"),
        &["run", "--", "sh", "-c", r#"cat "$SSL_CERT_FILE" | grep -c BEGIN"#],
    ));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_ne!(ended.stdout, "0\n");
    let expected = "cannot make /proc/none/runs/";
    assert!(
        ended.stderr.contains(expected) && ended.stderr.contains("are not kept"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_command_that_cannot_be_run_ends_as_in_a_shell() {
    let missing = run(&["no-such-command"]);
    assert_eq!(missing.code, Some(127));
    assert!(
        missing.stderr.starts_with("error: cannot run no-such-command: "),
        "{}",
        missing.stderr
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    assert_eq!(run(&[file.to_str().unwrap()]).code, Some(126));
}

#[test]
fn the_command_has_the_terminal_and_every_variable() {
    let ended = run(&["--", "sh", "-c", "cat; echo oops >&2; env"]);
    assert!(ended.stderr.starts_with("oops\n"), "{}", ended.stderr);
    assert!(ended.stdout.contains("\nhttp_proxy=http://127.0.0.1:"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("\nNO_PROXY=localhost,.localhost,127.0.0.1,127.0.0.0/8\n"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("no request came this way"), "{}", ended.stderr);
}

#[test]
fn the_commands_own_options_are_its_own() {
    assert_eq!(run(&["--summary", "none", "sh", "-c", "exit 3", "--config"]).code, Some(3));
    assert_eq!(run(&["--nonsense", "sh"]).code, Some(2));
    assert_eq!(run(&[]).code, Some(2));
}

/// The state directory is open to others, and the user's umask is not.
#[test]
fn a_program_that_becomes_another_user_reads_what_a_umask_has_closed() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root becomes another user");
    }
    let state = tempfile::tempdir().unwrap();
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "umask 077; exec \"$0\" run -- setpriv --reuid=65534 --regid=65534 --clear-groups \
                  sh -c 'cat \"$SSL_CERT_FILE\" \"$CURL_CA_BUNDLE\" \"$WGETRC\" >/dev/null && echo read'";
    for _ in 0..2 {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_courtesy")]);
        let ended = end(command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("COURTESY__STATE_DIR", state.path()));
        assert_eq!(ended.stdout, "read\n", "{}", ended.stderr);
    }
    let key = state.path().join("ca/ca.key").metadata().unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

/// A home in which nothing can be written, not even by root, and none.
#[test]
fn without_a_place_for_state_nothing_ends() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", site());
    let robots = dir.path().join("robots.txt");
    std::fs::write(&robots, "User-agent: *\nDisallow: /private/\n").unwrap();
    let robots = robots.to_str().unwrap();
    // The directory of temporary files may be as bad.
    for (home, temporary) in
        [(Some("/proc/home"), None), (Some("/dev/null"), Some("/proc/none")), (None, None)]
    {
        let ended = |arguments: &[&str]| {
            let mut command = courtesy(dir.path(), arguments);
            command.env_remove("COURTESY__STATE_DIR").env_remove("HOME").current_dir(dir.path());
            command.envs(temporary.map(|dir| ("TMPDIR", dir)));
            end(command.envs(home.map(|home| ("HOME", home))))
        };
        let run = ["run", "--allow-private", "--proxy-loopback", "--"];
        let script = format!("curl -sS {url} && cat \"$SSL_CERT_FILE\" >/dev/null && echo read");
        let done = ended(&[&run[..], &["sh", "-c", &script]].concat());
        assert_eq!((done.code, &*done.stdout), (Some(0), "a page\nread\n"), "{}", done.stderr);
        assert!(done.stderr.contains("are not kept"), "{home:?}: {}", done.stderr);
        assert_eq!(ended(&["run", "--allow-private", "--", "false"]).code, Some(1));

        let done = ended(&["check", "--robots", robots, "/private/a"]);
        assert_eq!((done.code, &*done.stderr), (Some(1), ""), "{}", done.stdout);
        let done = ended(&["check", "--allow-private", &url]);
        assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{}", done.stdout);

        let done = ended(&["env"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stdout.starts_with("export http_proxy="), "{}", done.stdout);
        assert!(!done.stdout.contains("SSL_CERT_FILE"), "{}", done.stdout);
        assert!(done.stderr.contains("for HTTPS are left out"), "{}", done.stderr);

        let done = ended(&["doctor", "--set", "listen.proxy=0", "wget"]);
        assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("✗ state directory"), "{}", done.stdout);
        assert!(done.stdout.contains("✓ wget"), "{}", done.stdout);
        assert_eq!(done.stdout.matches('✗').count(), 1, "{}", done.stdout);

        // A proxy that stays keeps records, and says where they could be.
        let done = ended(&["serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
        assert!(matches!(done.code, Some(74 | 77 | 78)), "{}", done.stderr);
    }
    let done =
        end(courtesy(dir.path(), &["demo"]).env_remove("COURTESY__STATE_DIR").env_remove("HOME"));
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "nothing is written where the command is: {left:?}");
}

#[test]
fn a_signal_is_passed_on_and_the_command_decides() {
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        let dir = tempfile::tempdir().unwrap();
        let script =
            format!("trap 'echo {name}; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let mut command =
            courtesy(dir.path(), &["run", "--summary", "none", "--", "sh", "-c", &script]);
        // In a group of its own: a terminal that tests run in has its signals reach the command itself.
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "ready");
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
        assert_eq!(said.next().unwrap().unwrap(), name);
        assert_eq!(child.wait().unwrap().code(), Some(5), "{name}");
    }
}

#[test]
fn what_was_ignored_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_courtesy");
    let script = format!("trap '' HUP; exec {program} run -- sh -c 'kill -HUP $$; exit 4'");
    let mut shell = Command::new("sh");
    let status =
        shell.args(["-c", &script]).env("COURTESY__STATE_DIR", dir.path()).status().unwrap();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn requests_go_through_the_proxy_and_are_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let (site, file) = (site(), dir.path().join("summary.json"));
    let script = format!(
        "for page in / /a /private/b; do wget -q -t1 -O- --content-on-error http://{site}$page; done; exit 0"
    );
    let arguments =
        ["run", "--allow-private", "--proxy-loopback", "--summary", "json", "--summary-file"];
    let arguments = [&arguments[..], &[file.to_str().unwrap(), "--", "sh", "-c", &script]].concat();
    let ended = end(&mut courtesy(dir.path(), &arguments));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("a page\na page\n{\n  \"type\":"), "{}", ended.stdout);

    let summary: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let of = |names: &[&str]| names.iter().map(|name| summary[name].clone()).collect::<Vec<_>>();
    let numbers = of(&["requests", "hosts", "forwarded", "denied", "failed", "code"]);
    assert_eq!(numbers, [3, 1, 2, 1, 0, 0], "{summary}");
    assert_eq!(summary["reasons"], json!({ "disallow_rule": 1 }));
    let records = summary["records"]["file"].as_str().unwrap();
    let run = summary["run"].as_str().unwrap();
    assert_eq!(Path::new(records), dir.path().join("runs").join(run).join("audit/denials.jsonl"));
    let lines = std::fs::read_to_string(records).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["event"] == event).collect()
    };
    assert_eq!(of("denied")[0]["reason"], "disallow_rule");
    let paths: Vec<_> = of("allowed").iter().map(|line| line["url"].clone()).collect();
    assert_eq!(paths, ["/", "/a"].map(|path| json!(format!("http://{site}{path}"))));
    assert_eq!((&lines[0]["event"], &lines[0]["how"]), (&json!("started"), &json!("run")));
    let [.., counts, totals, checkpoint, stopped] = &lines[..] else { panic!("{lines:?}") };
    let counted = ["event", "allowed", "denied"].map(|name| counts[name].clone());
    assert_eq!(counted, [json!("counts"), json!(2), json!(1)]);
    let totals =
        ["event", "allowed", "denied", "by_path", "by_host"].map(|name| totals[name].clone());
    assert_eq!(totals, [json!("totals"), json!(2), json!(1), json!(3), json!(0)]);
    assert_eq!(checkpoint["event"], "checkpoint");
    assert_eq!(
        (&stopped["event"], &stopped["why"]),
        (&json!("stopped"), &json!("the command has ended"))
    );
}

#[test]
fn the_summary_has_a_line_for_each_fact_and_the_way_to_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let (site, agent) = (site(), "ExampleBot");
    let url = format!("http://{site}/private/");
    let client = ["wget", "-q", "-t1", "-O", "/dev/null", "-U", agent, &url];
    let arguments = [&["run", "--allow-private", "--proxy-loopback"], &client[..]].concat();
    let ended = end(&mut courtesy(dir.path(), &arguments));
    assert_eq!(ended.code, Some(8), "wget says 8 for an error of the server");
    let mut lines = ended.stderr.lines();
    let said = lines.next().unwrap();
    let expected = format!(
        "courtesy: {site}/private/ denied to {agent}: line 2, \"Disallow: /private/\" (courtesy audit show "
    );
    let id = said.strip_prefix(&expected).unwrap_or_else(|| panic!("{}", ended.stderr));
    let id = id.strip_suffix("); more of this rule are counted").unwrap();
    let title = lines.next().unwrap();
    assert!(title.starts_with("courtesy: 1 request to 1 host in "), "{title}");
    assert_eq!(lines.next(), Some("    0 forwarded"));
    let denied = format!("    1 denied             {site}: 1 by line 2 \"Disallow: /private/\"");
    assert_eq!(lines.next(), Some(&*denied));
    let hint = "    1 record             courtesy audit query --run ";
    let run = lines.next().unwrap().strip_prefix(hint).unwrap();
    assert!(dir.path().join("runs").join(run).join("audit/denials.jsonl").is_file(), "{run}");

    // The record is found whatever run it is of, and what it says of an exemption can be used.
    let shown = end(&mut courtesy(dir.path(), &["audit", "show", id])).stdout;
    let (_, table) = shown.split_once("[[exemptions]]").expect("it ends with an exemption");
    let filled = format!("[[exemptions]]{table}")
        .replace("by = \"\"", "by = \"Jane Doe\"")
        .replace("reason = \"\"", "reason = \"agreed\"")
        .replace("until = \"\"", "until = \"2999-12-31\"");
    let config = dir.path().join("courtesy.toml");
    std::fs::write(&config, &filled).unwrap();
    let config = config.to_str().unwrap();
    let checked = end(&mut courtesy(dir.path(), &["config", "check", config]));
    assert_eq!(checked.code, Some(0), "{filled}{}{}", checked.stdout, checked.stderr);
    let flags = ["run", "--config", config, "--allow-private", "--proxy-loopback"];
    let ended = end(&mut courtesy(dir.path(), &[&flags, &client[..]].concat()));
    let exempted = format!("    1 by exemption of Jane Doe until 2999-12-31 ({site})");
    assert!(ended.stderr.contains(&exempted), "{}", ended.stderr);
}

/// A service of the command's own, such as the driver of a browser: it is no crawl.
#[test]
fn loopback_is_outside_the_proxy_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let [url, by_name] =
        ["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{}/a", site().port()));
    let script = format!("wget -q -t1 -O- {url} && curl -sS {by_name}");
    let ended =
        end(&mut courtesy(dir.path(), &["run", "--summary", "json", "--", "sh", "-c", &script]));
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "a page\na page\n"), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!([&summary["requests"], &summary["proxy_loopback"]], [&json!(0), &json!(false)]);
    assert_eq!(summary["no_proxy"], "localhost,.localhost,127.0.0.1,127.0.0.0/8");

    let both = [
        "run",
        "--allow-private",
        "--proxy-loopback",
        "--summary",
        "json",
        "--",
        "curl",
        "-sS",
        &url,
    ];
    let ended = end(&mut courtesy(dir.path(), &both));
    let summary: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((&*ended.stdout, &summary["forwarded"]), ("a page\n", &json!(1)));
    assert_eq!(
        [&summary["proxy_loopback"], &summary["no_proxy"]],
        [&json!(true), &json!("<-loopback>")]
    );
}

#[test]
fn a_request_under_run_waits_as_long_as_its_client_stays() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 3600\n");
    let page = |path: &str| format!("-s -o /dev/null -w '%{{http_code}} ' {}", origin.url(path));
    let script = format!("curl {}; curl -m 2 {}", page("/a"), page("/b"));
    let arguments = ["run", "--allow-private", "--proxy-loopback", "--", "sh", "-c", &script];
    for (max_wait, codes) in [(None, "200 000 "), (Some("5m"), "200 429 ")] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = courtesy(dir.path(), &arguments);
        command.envs(max_wait.map(|time| ("COURTESY__PACE__MAX_WAIT", time)));
        let ended = end(&mut command);
        assert_eq!(ended.stdout, codes, "{}", ended.stderr);
    }
    assert_eq!(origin.arrivals().len(), 2);
}

/// A client that does not heed NO_PROXY is told which flags lead where.
#[test]
fn the_refusal_of_loopback_under_run_names_the_right_flags() {
    let url = format!("http://{}/a", site());
    let refused = run(&["--proxy-loopback", "--", "curl", "-sS", &url]).stdout;
    let refused: Value = serde_json::from_str(&refused).unwrap();
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("loopback") && detail.contains("NO_PROXY"), "{detail}");
    assert!(detail.contains("start with both --proxy-loopback and --allow-private"), "{detail}");
}

#[test]
fn env_says_the_same_to_each_reader() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    let env = |arguments: &[&str]| {
        let arguments = [&["env", "--listen", &address], arguments].concat();
        let ended = end(&mut courtesy(dir.path(), &arguments));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        ended.stdout
    };
    assert!(env(&[]).starts_with(&format!("export http_proxy='http://{address}';\n")));
    assert!(
        env(&["--shell", "fish"]).starts_with(&format!("set -gx http_proxy 'http://{address}';\n"))
    );
    let docker = env(&["--shell", "docker"]);
    assert!(docker.starts_with("--network host "), "{docker}");
    assert!(docker.contains(&format!("--env 'http_proxy=http://{address}' ")), "{docker}");
    let json: Vec<Value> =
        serde_json::from_str(&env(&["--shell", "json", "--no-proxy", "a.b"])).unwrap();
    assert_eq!(json.len(), env(&["--no-proxy", "a.b"]).lines().count());
    let of = |name: &str| {
        json.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(
        [of("HTTPS_PROXY"), of("no_proxy")],
        [format!("http://{address}"), "localhost,.localhost,127.0.0.1,127.0.0.0/8,a.b".to_owned()]
    );
}

/// A shell and python-dotenv read the same values as those of JSON.
#[test]
fn env_writes_a_file_that_readers_of_dotenv_understand() {
    let dir = tempfile::Builder::new().prefix("a $b ").tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let env = |shell: &str| {
        end(&mut courtesy(dir.path(), &["env", "--listen", &address, "--shell", shell])).stdout
    };
    let json: Vec<Value> = serde_json::from_str(&env("json")).unwrap();
    let file = dir.path().join(".env");
    std::fs::write(&file, env("dotenv")).unwrap();
    let script = "set -a; . \"$0\"; for name; do eval \"printf '%s\\0' \\\"\\$$name\\\"\"; done";
    let names: Vec<&str> = json.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    let read =
        Command::new("sh").args(["-c", script]).arg(&file).args(&names).output().unwrap().stdout;
    let values: Vec<&str> =
        json.iter().map(|variable| variable["value"].as_str().unwrap()).collect();
    assert_eq!(String::from_utf8(read).unwrap().split_terminator('\0').collect::<Vec<_>>(), values);

    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-python/bin/python");
    let script = "import dotenv, json, sys; print(json.dumps(dotenv.dotenv_values(sys.argv[1])))";
    let read = Command::new(python).args(["-c", script]).arg(&file).output().unwrap();
    let read: Value = serde_json::from_slice(&read.stdout)
        .unwrap_or_else(|_| panic!("{read:?}; tests/setup-python.sh"));
    for (name, value) in names.iter().zip(&values) {
        assert_eq!(read[name], *value, "{name}");
    }
}

/// Standard output is for `eval`, and has nothing of it.
#[test]
fn env_notes_that_no_proxy_listens() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let ended = end(&mut courtesy(dir.path(), &["env", "--listen", &free]));
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stderr.starts_with(&format!("note: no proxy listens at {free} (")),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.starts_with("export ") && !ended.stdout.contains("note"),
        "{}",
        ended.stdout
    );
}

/// Runs of old go, one that is still going and what is no run stay.
#[test]
fn old_runs_are_removed_and_one_that_is_going_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    // Of 2024, and of January 2025.
    let (older, going, younger) =
        ("01HK0000000000000000000000", "01HM0000000000000000000000", "01JG0000000000000000000000");
    for id in [older, going, younger, "notes"] {
        std::fs::create_dir_all(runs.join(id).join("audit")).unwrap();
        std::fs::write(runs.join(id).join("audit/lock"), "").unwrap();
    }
    let lock = std::fs::File::open(runs.join(going).join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&runs)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let last = |keep: &[&str]| {
        let arguments = [&["run", "--summary", "json"], keep, &["true"]].concat();
        let ended = end(&mut courtesy(dir.path(), &arguments));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str::<Value>(&ended.stderr).unwrap()["run"].as_str().unwrap().to_owned()
    };
    let first = last(&["--keep", "3"]);
    assert_eq!(names(), [going, younger, &first, "notes"]);
    let second = last(&[]);
    assert_eq!(names(), [going, &first, &second, "notes"]);
    drop(lock);
    let third = last(&[]);
    assert_eq!(names(), [&*first, &second, &third, "notes"]);
}

#[test]
fn env_wants_to_know_a_port_that_is_chosen_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let ended = end(&mut courtesy(dir.path(), &["env", "--listen", "127.0.0.1:0"]));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--listen"), "{}", ended.stderr);
}

/// The proxy takes more descriptors for itself and leaves no core file; its command does as ever.
#[test]
fn the_command_has_the_limits_of_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -Sn 200; ulimit -Sc; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_courtesy");
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", program, "run", "--summary", "none", "--", "sh", "-c"]);
    // The proxy takes them again once the command has begun, which may be sooner.
    shell.arg(
        "ulimit -Sc; ulimit -Sn; tries=0
        until awk '/open files/ { exit $4 != $5 }' /proc/$PPID/limits || [ $tries -eq 500 ]; do
            tries=$((tries + 1))
        done
        grep -E 'core file|open files' /proc/$PPID/limits",
    );
    let ended = end(shell.env("COURTESY__STATE_DIR", dir.path()));
    let lines: Vec<Vec<&str>> =
        ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((&lines[0], &*lines[2]), (&lines[1], &["200"][..]), "{}", ended.stdout);
    assert_eq!(lines[3][4], "0", "{}", ended.stdout);
    assert_eq!(lines[4][3], lines[4][4], "all that may be had: {}", ended.stdout);
}
