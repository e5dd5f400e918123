//! The program as a shell sees it: what it prints, where, and the code it ends in.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with these arguments, in an environment of its own.
fn courtesy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command.args(arguments).env_clear().env("HOME", "/home/somebody").stdin(Stdio::null());
    command
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: status.code(), stdout, stderr }
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let ended = run(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    ended.stdout
}

/// The text on standard error, where nothing was printed to standard output.
#[track_caller]
fn fails(command: &mut Command, code: i32) -> String {
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
    ended.stderr
}

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("courtesy.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_default_file_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &succeeds(&mut courtesy(&["config", "default"])));
    assert_eq!(succeeds(&mut courtesy(&["config", "check", &path])), format!("{path}: ok\n"));
}

#[test]
fn a_file_that_cannot_be_used_ends_in_78() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "[robots]\nprofil = \"google\"\n");
    let expected = format!(
        "error: the configuration cannot be used\n  \
         {path}:2: robots.profil: there is no such setting; did you mean robots.profile?\n"
    );
    assert_eq!(fails(&mut courtesy(&["config", "check", &path]), 78), expected);
    assert_eq!(fails(&mut courtesy(&["config", "show", "--config", &path]), 78), expected);
    assert_eq!(fails(courtesy(&["config", "check"]).env("COURTESY_CONFIG", &path), 78), expected);
    assert!(
        fails(&mut courtesy(&["config", "check", "/nowhere.toml"]), 78).contains("/nowhere.toml")
    );
}

#[test]
fn an_address_in_use_is_said_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = fails(&mut courtesy(&["serve", "--listen", &address]), 69);
    assert!(said.contains(&format!("cannot listen on {address}: ")), "{said}");
    assert_eq!(said.matches("in use").count(), 1, "{said}");
}

#[test]
fn a_mistaken_variable_ends_in_78() {
    let said = fails(courtesy(&["config", "check"]).env("COURTESY_ROBOTS_PROFILE", "google"), 78);
    assert!(said.contains("$COURTESY_ROBOTS_PROFILE: "), "{said}");
    assert!(said.contains("did you mean COURTESY__ROBOTS__PROFILE?"), "{said}");
}

#[test]
fn show_says_where_each_value_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "[robots]\nmode = \"observe\"\n");
    let shown = succeeds(
        courtesy(&[
            "config",
            "show",
            "--config",
            &path,
            "--allow-private",
            "--listen",
            "127.0.0.1:0",
        ])
        .env("COURTESY__ROBOTS__PROFILE", "google"),
    );
    let from = |setting: &str| {
        let line = shown.lines().find(|line| line.starts_with(setting)).unwrap();
        line.rsplit_once("# ").unwrap().1
    };
    assert_eq!(from("robots.mode = \"observe\" "), format!("{path}:2"));
    assert_eq!(from("robots.profile = \"google\" "), "$COURTESY__ROBOTS__PROFILE");
    assert_eq!(from("listen.proxy = [\"127.0.0.1:0\"] "), "--listen");
    assert_eq!(from("egress.allow = "), "--allow-private");
    assert_eq!(from("robots.fetch_timeout = \"10s\" "), "default");
    assert_eq!(from("state_dir = "), "$HOME");
}

#[test]
fn a_flag_changes_any_setting_and_show_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "[pace]\ndelay = \"1s\"\nconcurrency = 3\n");
    let show = |flags: &[&str]| {
        let flags = [&["config", "show", "--config", &path], flags].concat();
        succeeds(&mut courtesy(&flags))
    };
    let shown = show(&["--set", "pace.concurrency=5", "--set", "pace.delay=9s", "--delay", "2s"]);
    assert!(shown.starts_with(&format!("# read from {path}\n")), "{shown}");
    let has = |shown: &str, setting: &str, from: &str| {
        let line = shown.lines().find(|line| line.starts_with(setting)).unwrap();
        assert!(line.ends_with(&format!(" # {from}")), "{line}");
    };
    has(&shown, "pace.concurrency = 5 ", "--set");
    has(&shown, "pace.delay = \"2s\" ", "--delay");
    let shown = show(&["--observe", "--max-wait", "5m", "--profile", "google"]);
    has(&shown, "robots.mode = \"observe\" ", "--observe");
    has(&shown, "pace.max_wait = \"5m\" ", "--max-wait");
    has(&shown, "robots.profile = \"google\" ", "--profile");
    has(&shown, "pace.delay = \"1s\" ", &format!("{path}:2"));
    let wrong = fails(&mut courtesy(&["config", "check", &path, "--set", "pace.dely=1s"]), 78);
    assert!(wrong.contains("--set: pace.dely: there is no such setting; did you mean"), "{wrong}");
    let wrong = fails(&mut courtesy(&["run", "--delay", "2", "true"]), 78);
    assert!(wrong.contains("--delay: pace.delay: "), "{wrong}");
    for command in ["run", "check", "env", "serve"] {
        let said = fails(&mut courtesy(&[command, "--set", "pace.delay"]), 2);
        assert!(said.contains("as in pace.delay=2s"), "{said}");
    }
}

#[test]
fn a_file_in_the_home_is_found_and_named() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join(".config/courtesy");
    std::fs::create_dir_all(&own).unwrap();
    let path = file(&own, "[robots]\nmode = \"observe\"\n");
    std::fs::rename(path, own.join("config.toml")).unwrap();
    let path = own.join("config.toml").display().to_string();
    let with_home = |arguments: &[&str]| {
        let mut command = courtesy(arguments);
        command.env("HOME", home.path());
        command
    };
    assert!(succeeds(&mut with_home(&["config", "show"])).contains(&format!(" # {path}:2\n")));
    assert_eq!(succeeds(&mut with_home(&["config", "check"])), format!("{path}: ok\n"));
    std::fs::write(own.join("config.toml"), "nonsense = 1\n").unwrap();
    for command in [&["run", "true"][..], &["check", "http://a.test/"], &["env"], &["serve"]] {
        let said = fails(&mut with_home(command), 78);
        assert!(said.contains(&format!("{path}:1: nonsense: ")), "{command:?}: {said}");
    }
}

#[test]
fn show_speaks_json() {
    let shown = succeeds(&mut courtesy(&["config", "show", "--format", "json", "--workers", "3"]));
    let settings: Vec<serde_json::Value> = serde_json::from_str(&shown).unwrap();
    let workers = settings.iter().find(|setting| setting["key"] == "workers").unwrap();
    assert_eq!(workers, &serde_json::json!({ "key": "workers", "value": 3, "from": "--workers" }));
}

#[test]
fn an_exemption_that_has_ended_is_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let exemption = "[[exemptions]]\norigin = \"http://a.example\"\nby = \"b\"\nreason = \"c\"\nuntil = 2020-01-01\n";
    let said = succeeds(&mut courtesy(&["config", "check", &file(dir.path(), exemption)]));
    assert!(
        said.starts_with("note: the exemption for http://a.example by b ended at 2020-01-02"),
        "{said}"
    );
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(succeeds(&mut courtesy(&["completions", shell])).contains("courtesy"), "{shell}");
    }
}

/// As a person has them in bash who sources the script and presses the tabulator; the state is below
/// `home`.
fn completed(home: &Path, words: &[&str]) -> Vec<String> {
    let script = home.join("courtesy.bash");
    std::fs::write(&script, succeeds(&mut courtesy(&["completions", "bash"]))).unwrap();
    let typed = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                 _courtesy courtesy \"${@: -1}\" \"${@: -2:1}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", typed, "bash", script.to_str().unwrap(), "courtesy"])
        .args(words)
        .env_remove("XDG_STATE_HOME")
        .env("HOME", home);
    succeeds(&mut bash).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_what_only_the_machine_knows() {
    let home = tempfile::tempdir().unwrap();
    let runs = home.path().join(".local/state/courtesy/runs");
    std::fs::create_dir_all(runs.join("20261125-120000-ab12")).unwrap();
    let completed = |words: &[&str]| completed(home.path(), words);
    for command in ["query", "show", "verify", "report", "head"] {
        let ids = completed(&["audit", command, "--run", ""]);
        assert_eq!(ids, ["last", "20261125-120000-ab12"], "{command}");
        assert_eq!(completed(&["audit", command, "--run", "=", "la"]), ["last"]);
    }
    // The commands that `run` can start, behind its flags and their values.
    for before in [
        &[][..],
        &["--sealed"],
        &["--sealed", "--"],
        &["--summary", "json"],
        &["--summary", "=", "json"],
        &["--summary-file", "run.json", "-v", "--"],
    ] {
        let found = completed(&[&["run"], before, &["printen"]].concat());
        assert!(found.contains(&"printenv".into()), "{before:?}: {found:?}");
        let more = completed(&[&["run"], before, &["printenv", "--he"]].concat());
        assert!(!more.contains(&"--help".into()), "these are flags of courtesy: {more:?}");
    }
    assert!(completed(&["run", "--sum"]).contains(&"--summary".into()));
    assert_eq!(completed(&["run", "--summary", "js"]), ["json"]);
    // A command that the program calls itself by is for no person.
    for words in [&[""][..], &["se"], &["help", ""]] {
        let commands = completed(words);
        assert!(commands.contains(&"serve".into()) && !commands.contains(&"seal".into()));
    }
}

#[test]
fn no_script_has_a_command_that_is_internal() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeeds(&mut courtesy(&["completions", shell]));
        assert!(
            !script.contains("seal)") && !script.contains("command of a sealed run"),
            "{shell}"
        );
    }
    let zsh = succeeds(&mut courtesy(&["completions", "zsh"]));
    assert!(zsh.contains(":last|ID:_courtesy_runs") && !zsh.contains("last|ID:_default"));
    assert!(zsh.contains(":_cmdambivalent"));
    let fish = succeeds(&mut courtesy(&["completions", "fish"]));
    assert!(fish.contains("(__fish_complete_subcommand --fcs-skip=2 - --summary"));
    assert!(fish.contains("-x -a \"(__fish_courtesy_runs)\""));
}

#[test]
fn bash_completes_the_words_that_a_flag_takes() {
    let home = tempfile::tempdir().unwrap();
    let completed = |words: &[&str]| completed(home.path(), words);
    let reasons = completed(&["audit", "query", "--reason", ""]);
    assert!(reasons.contains(&"disallow_rule".into()) && reasons.len() >= 9, "{reasons:?}");
    assert_eq!(completed(&["audit", "query", "--reason", "robots_u"]), ["robots_unreachable"]);
    for word in ["denied", "would_deny", "exempted", "tunnelled", "totals", "started"] {
        assert!(completed(&["audit", "query", "--event", ""]).contains(&word.into()), "{word}");
    }
    for command in [&["audit", "query"][..], &["audit", "replay"], &["audit", "export"], &["check"]]
    {
        let profiles = completed(&[command, &["--profile", ""]].concat());
        assert!(
            profiles.contains(&"rfc9309".into()) && profiles.contains(&"google".into()),
            "{command:?}: {profiles:?}"
        );
    }
}

#[test]
fn the_manual_is_one_page_or_one_for_each_subcommand() {
    assert!(succeeds(&mut courtesy(&["man"])).contains(".TH courtesy 1"));
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    succeeds(&mut courtesy(&["man", "--dir", pages.to_str().unwrap()]));
    for page in ["courtesy.1", "courtesy-config.1", "courtesy-config-show.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
}

#[test]
fn what_is_no_command_line_ends_in_2() {
    for arguments in [
        &["--nonsense"][..],
        &["config", "chek"],
        &["completions", "tcsh"],
        &["config", "show", "--listen", "x"],
    ] {
        let said = fails(&mut courtesy(arguments), 2);
        assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    }
    // Without any argument, the help.
    assert!(fails(&mut courtesy(&[]), 2).contains("Usage: courtesy"));
}

#[test]
fn help_teaches_by_example_and_tells_the_exit_codes() {
    let help = succeeds(&mut courtesy(&["--help"]));
    assert!(help.contains("Exit codes:") && help.contains("78"), "{help}");
    assert!(succeeds(&mut courtesy(&["completions", "--help"])).contains("Examples:"));
    assert!(succeeds(&mut courtesy(&["--version"])).starts_with("courtesy "));
}

#[test]
fn a_page_that_cannot_be_written_ends_in_74() {
    let said = fails(&mut courtesy(&["man", "--dir", "/dev/null/man1"]), 74);
    assert!(said.starts_with("error: "), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = courtesy(&["config", "default"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn no_file_that_is_named_is_read_without_bound() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    // Without content on the disk, and longer than anything that is meant.
    let long = dir.path().join("long");
    let opened = std::fs::File::create(&long).unwrap();
    opened.set_len(1 << 30).unwrap();
    opened.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    let long = long.to_str().unwrap();
    for named in [long, "/dev/zero"] {
        let said = fails(&mut courtesy(&["config", "check", named]), 78);
        assert!(said.contains(named) && said.contains("longer than 1048576 bytes"), "{said}");
    }
    let state = dir.path().join("state");
    for (key, most) in [
        ("clients.users_file", 16 << 20),
        ("admin.token_file", 1 << 20),
        ("tls.extra_roots", 1 << 20),
        ("https.ca_cert", 1 << 20),
    ] {
        let (table, name) = key.split_once('.').unwrap();
        let value =
            if name == "extra_roots" { format!("[\"{long}\"]") } else { format!("\"{long}\"") };
        let key_file =
            if table == "https" { format!("ca_key = \"{long}\"\n") } else { String::new() };
        let settings = file(dir.path(), &format!("[{table}]\n{name} = {value}\n{key_file}"));
        let ended = run(courtesy(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--config",
            &settings,
        ])
        .arg("--state-dir")
        .arg(&state));
        assert_ne!(ended.code, Some(0));
        let bound = format!("longer than {most} bytes");
        assert!(
            ended.stderr.contains(long) && ended.stderr.contains(&bound),
            "{key}: {}",
            ended.stderr
        );
    }
}
