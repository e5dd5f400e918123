//! What `courtesy run` says while its command runs, what it lists as not retrieved, and what
//! `courtesy runs` knows of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::run::{courtesy, end};
use crate::testkit::parties::{Origin, Script, answer, until};

const FLAGS: [&str; 3] = ["run", "--allow-private", "--proxy-loopback"];

/// A shell's script under `courtesy run` with these flags.
fn run(state_dir: &Path, flags: &[&str], script: &str) -> Command {
    courtesy(state_dir, &[&FLAGS, flags, &["--", "sh", "-c", script]].concat())
}

fn get(url: &str) -> String {
    format!("curl -s -o /dev/null -A ExampleBot '{url}';")
}

/// The directory of the only run.
fn run_dir(state_dir: &Path) -> PathBuf {
    let mut runs = fs::read_dir(state_dir.join("runs")).expect("runs");
    runs.next().expect("a run").expect("it can be read").path()
}

fn missing(state_dir: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(run_dir(state_dir).join("missing.tsv")).unwrap_or_default();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// A site that is slow, disallows a part, and asks to be left alone at `/tired`.
fn site(delay: &str) -> Origin {
    let tired = Script::default().send(answer(429, "Retry-After: 1\r\n", ""));
    let robots = format!("User-agent: *\nCrawl-delay: {delay}\nDisallow: /private/\n");
    Origin::with_robots(&robots).on("/tired", tired)
}

#[test]
fn in_a_pipe_what_is_new_is_said_once_and_nothing_else() {
    let origin = site("0.4");
    let other = Origin::with_robots("User-agent: *\nDisallow:\n")
        .on("/tired", Script::default().send(answer(429, "Retry-After: 1\r\n", "")));
    let paths = ["/a", "/b", "/c", "/private/1", "/private/2"];
    let mut script: String = paths.iter().map(|path| get(&origin.url(path))).collect();
    script += &get(&other.url("/tired"));
    let dir = tempfile::tempdir().unwrap();
    let ended = end(&mut run(dir.path(), &["--summary", "none"], &script));
    let mut lines: Vec<_> = ended.stderr.lines().collect();
    lines.sort_unstable();
    let [host, tired] = [&origin, &other].map(Origin::authority);
    let mut expected = [
        format!(
            "courtesy: {host} asks for 0.4 s between requests (Crawl-delay: 0.4, line 2 of its robots.txt)"
        ),
        format!(
            "courtesy: {host}/private/1 denied to ExampleBot: line 3, \"Disallow: /private/\" (courtesy audit show "
        ),
        format!("courtesy: {tired} asks to be left alone for 1 s (429, Retry-After: 1)"),
    ];
    expected.sort_unstable();
    assert_eq!(lines.len(), expected.len(), "{}", ended.stderr);
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
    assert!(!ended.stderr.contains('\x1b'), "no colours");

    let quiet = end(&mut run(dir.path(), &["--summary", "none", "--quiet"], &script));
    assert_eq!(quiet.stderr, "");
}

#[test]
fn with_json_each_fact_is_an_object_and_the_last_is_the_summary() {
    let origin = site("0.4");
    let script: String =
        ["/a", "/b", "/private/1"].iter().map(|path| get(&origin.url(path))).collect();
    let dir = tempfile::tempdir().unwrap();
    let ended = end(&mut run(dir.path(), &["--summary", "json"], &script));
    let events: Vec<Value> =
        ended.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |word: &str| events.iter().find(|event| event["event"] == word).expect("it is said");
    let slow = find("slow_down");
    assert_eq!(
        (&slow["host"], &slow["delay_ms"], &slow["line"]),
        (&origin.authority().into(), &400.into(), &2.into())
    );
    let denied = find("denied");
    assert_eq!(
        (&denied["rule"], &denied["agent"]),
        (&"Disallow: /private/".into(), &"ExampleBot".into())
    );
    let summary = events.last().expect("a summary");
    assert_eq!(
        (&summary["event"], &summary["forwarded"], &summary["denied"]),
        (&"summary".into(), &2.into(), &1.into())
    );
    let host = &summary["by_host"][0];
    assert_eq!(
        (&host["host"], &host["pace"]["by"]),
        (&origin.authority().into(), &"crawl_delay".into())
    );
}

#[test]
fn each_decision_has_a_line_if_it_is_asked_for() {
    let origin = site("0.2");
    let script: String =
        ["/a", "/b?q=secret", "/private/1"].iter().map(|path| get(&origin.url(path))).collect();
    let dir = tempfile::tempdir().unwrap();
    let ended = end(&mut run(dir.path(), &["--summary", "none", "-v"], &script));
    let host = origin.authority();
    let has = |begin: String| ended.stderr.lines().filter(|line| line.starts_with(&begin)).count();
    assert_eq!(
        has(format!("courtesy: GET {host}/a allowed (no rule): 200")),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        has(format!("courtesy: GET {host}/b allowed (no rule), held ")),
        1,
        "{}",
        ended.stderr
    );
    let denied =
        format!("courtesy: GET {host}/private/1 denied (line 3, \"Disallow: /private/\"): 403");
    assert_eq!(has(denied), 1, "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("denied").count(), 1, "it is said once: {}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
}

/// On a terminal of `script` (util-linux): the first line in colour, and the line of progress after
/// ten seconds in which something waits.
#[test]
fn a_terminal_shows_how_many_wait_and_for_how_long() {
    let origin = site("3600");
    let script = format!("{} {} echo", get(&origin.url("/a")), get(&origin.url("/b")));
    let dir = tempfile::tempdir().unwrap();
    let flags = FLAGS.join(" ");
    let program = env!("CARGO_BIN_EXE_courtesy");
    let inner = format!("{program} {flags} -- sh -c \"{script}\"");
    let mut command = Command::new("script");
    command.args(["-qefc", &inner, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.env("COURTESY__STATE_DIR", dir.path()).env("HOME", dir.path()).process_group(0);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut child = Group(command.spawn().expect("script (bsdutils)"));
    let output = child.0.stdout.take().expect("piped");
    let mut said = BufReader::new(output).lines().map_while(Result::ok);
    let first = said.next().expect("a line");
    let host = origin.authority();
    let expected = format!(
        "\x1b[33mcourtesy:\x1b[0m {host} asks for 1 h between requests (Crawl-delay: 3600, line 2 of its robots.txt); 1 waits"
    );
    assert_eq!(first.trim_end(), expected);
    let progress = said.next().expect("a line");
    let expected = format!("\x1b[2mcourtesy:\x1b[0m 1 done · 1 waits for {host}, the last about ");
    assert!(progress.starts_with(&expected), "{progress:?}");
}

/// A process group that is killed at the end of its test.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_that_leave_while_they_wait_are_listed_and_cost_no_turn() {
    let origin = site("3600");
    let wget = |path: &str| format!("wget -q -t1 -T1 -O/dev/null '{}';", origin.url(path));
    let python = format!(
        "python3 -c 'import urllib.request as r; r.urlopen(\"{}\", timeout=1)' 2>/dev/null;",
        origin.url("/python")
    );
    let curl = format!("curl -s -m1 -u jane:s3cret '{}'; true", origin.url("/curl?q=1"));
    let script = [get(&origin.url("/first")), wget("/wget"), python, curl].concat();
    let dir = tempfile::tempdir().unwrap();
    let ended = end(&mut run(dir.path(), &[], &script));
    assert_eq!(origin.arrivals().len(), 1, "{}", ended.stderr);
    let lines = missing(dir.path());
    let mut named: Vec<_> = lines.iter().map(|line| (line[0].as_str(), line[2].as_str())).collect();
    // Those that have closed their end without a word are known when the run ends.
    named.sort_unstable();
    let expected = ["/curl?q=1", "/python", "/wget"].map(|path| origin.url(path));
    let expected: Vec<_> =
        expected.iter().map(|url| (url.as_str(), "left while waiting")).collect();
    assert_eq!(named, expected);
    let file = run_dir(dir.path()).join("missing.tsv");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains("s3cret"));
    let host = origin.authority();
    for line in [
        format!(
            "    3 left while waiting their own timeout was shorter than the wait ({host}, up to "
        ),
        format!("    3 not retrieved      listed in {}", file.display()),
    ] {
        assert!(ended.stderr.lines().any(|it| it.starts_with(&line)), "{line}\n{}", ended.stderr);
    }
    let runs = fs::read_to_string(run_dir(dir.path()).join("run.json")).unwrap();
    assert!(!runs.contains("s3cret") && runs.contains("curl"), "{runs}");
}

/// What is refused at once, and what fails, is listed while it happens: a run that is killed has it.
#[test]
fn a_killed_run_has_its_list_and_is_known_as_killed() {
    let origin = site("3600");
    let pages: String = ["/a", "/b"].iter().map(|path| get(&origin.url(path))).collect();
    let script = format!("{pages} echo ready; sleep 600");
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &["--max-wait", "0s"], &script);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Group(command.spawn().expect("it starts"));
    let output = child.0.stdout.take().expect("piped");
    assert_eq!(BufReader::new(output).lines().next().expect("a line").unwrap(), "ready");
    let state = |what: &str| -> Value {
        let ended = end(&mut courtesy(dir.path(), &["runs", "--json"]));
        serde_json::from_str::<Value>(&ended.stdout).expect("one run")[what].clone()
    };
    assert_eq!(state("state"), "under_way");
    drop(child);
    until("it is known as killed", || state("state") == "killed");
    let lines = missing(dir.path());
    assert_eq!((lines[0][0].as_str(), lines[0][2].as_str()), (&*origin.url("/b"), "too early"));
    let after: u64 = lines[0][3].parse().expect("seconds");
    assert!((3000..=3600).contains(&after), "{after}");
    assert_eq!(state("command")[0], "sh");
}

#[test]
fn runs_are_listed_with_how_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let none = end(&mut courtesy(dir.path(), &["runs"]));
    assert_eq!((none.code, &*none.stdout), (Some(0), ""));
    assert!(none.stderr.starts_with("there are no runs in "), "{}", none.stderr);
    let origin = Origin::with_robots("User-agent: *\nDisallow: /private/\n");
    let script = format!("{}{}exit 7", get(&origin.url("/a")), get(&origin.url("/private/")));
    end(&mut run(dir.path(), &["--summary", "none"], &script));
    end(&mut courtesy(dir.path(), &["run", "no-such-command", "--password", "s3cret"]));
    let text = end(&mut courtesy(dir.path(), &["runs"])).stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].contains("  exit 7 ")
            && lines[0].ends_with("  (2 requests, 1 forwarded, 1 denied)"),
        "{text}"
    );
    assert!(
        lines[1].contains("  exit 127 ") && lines[1].contains("no-such-command --password"),
        "{text}"
    );
    assert!(!text.contains("s3cret"), "{text}");
    let json = end(&mut courtesy(dir.path(), &["runs", "--json", "--last", "1"])).stdout;
    let run: Value = serde_json::from_str(&json).expect("the last alone");
    assert_eq!((&run["state"], &run["code"]), (&"ended".into(), &127.into()));
}
