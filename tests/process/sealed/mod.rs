//! `courtesy run --sealed`: a command that knows of no proxy, in a network in which there is nothing
//! else. Each test is a script in a world of its own ([`WORLD`]); as root it is tried as an ordinary
//! user as well.

mod ends;
mod ways_out;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::testkit::processes::Place;

const WORLD: &str = include_str!("world.sh");
const ORIGIN: &str = include_str!("origin.py");
const ESCAPES: &str = include_str!("escapes.py");
const TERMINAL: &str = include_str!("terminal.py");
const FORBID: &str = include_str!("forbid.py");
const THREADS: &str = include_str!("threads.py");
const SERVICES: &str = include_str!("services.py");

/// A user that has no rights and owns nothing.
pub const ORDINARY: u32 = 65_534;

pub struct Ended {
    pub code: Option<i32>,
    pub said: String,
    /// The paths that the origin served.
    pub served: Vec<String>,
    pub place: Place,
}

impl Ended {
    #[track_caller]
    pub fn has(&self, line: &str) {
        assert!(self.said.lines().any(|it| it == line), "{line:?} is not in:\n{}", self.said);
    }

    #[track_caller]
    fn count(&self, line: &str, expected: usize) {
        let count = self.said.lines().filter(|it| *it == line).count();
        assert_eq!(count, expected, "{line:?} in:\n{}", self.said);
    }

    /// The records of `event` of its runs.
    pub fn records(&self, event: &str) -> Vec<Value> {
        let runs = fs::read_dir(self.place.state_dir().join("runs")).expect("runs");
        let files = runs.flatten().map(|run| run.path().join("audit/denials.jsonl"));
        // A run that did not begin has none.
        let files = files.filter(|file| file.exists());
        let text: String = files.map(|file| fs::read_to_string(file).expect("records")).collect();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        lines.filter(|line| line["event"] == event).collect()
    }
}

/// The users that a test is run as.
fn users() -> Vec<u32> {
    if rustix::process::geteuid().is_root() { vec![0, ORDINARY] } else { vec![0] }
}

/// Runs a script in a world as `user`; `$COURTESY` is the program.
pub fn world(user: u32, script: &str) -> Ended {
    let place = Place::new("");
    let dir = place.path().to_owned();
    let settings = format!(
        "[tls]\nroots = \"bundled\"\nextra_roots = [{:?}]\n",
        dir.join("origins.pem").display().to_string()
    );
    fs::write(place.configuration(), settings).expect("a file");
    for (name, content) in [
        ("origin.py", ORIGIN),
        ("escapes.py", ESCAPES),
        ("terminal.py", TERMINAL),
        ("forbid.py", FORBID),
        ("threads.py", THREADS),
        ("services.py", SERVICES),
    ] {
        fs::write(dir.join(name), content).expect("a file");
    }
    let run = place.command("run");
    let mut command = Command::new("unshare");
    let mapped = (!rustix::process::geteuid().is_root()).then_some("--map-root-user");
    command.args(["--net", "--mount", "--pid", "--fork", "--mount-proc"]).args(mapped);
    command.args(["sh", "-c", WORLD, "sh", "sh", "-c", script]);
    command.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("COURTESY", run.get_program()).env("DIR", &dir).env("AS", user.to_string());
    let Output { status, stdout, .. } =
        command.stdin(Stdio::null()).output().expect("unshare, of util-linux");
    let served = fs::read_to_string(dir.join("served")).unwrap_or_default();
    Ended {
        code: status.code(),
        said: String::from_utf8_lossy(&stdout).into_owned(),
        served: served.lines().map(str::to_owned).collect(),
        place,
    }
}

#[test]
fn programs_that_know_of_no_proxy_are_served_and_judged() {
    let script = r#"
        "$COURTESY" run --sealed -- env -i PATH="$PATH" sh -c '
            for scheme in http https; do
                curl -s $scheme://site.example/page
                curl -s -o /dev/null -w "refused %{http_code}\n" $scheme://site.example/private/curl
                wget -q -O - $scheme://site.example/page
                wget -q -O - $scheme://site.example/private/wget || echo refused $?
                python3 -c "
import urllib.request, urllib.error
print(urllib.request.urlopen(\"$scheme://site.example/page\").read().decode(), end=\"\")
try: urllib.request.urlopen(\"$scheme://site.example/private/python\")
except urllib.error.HTTPError as error: print(\"refused\", error.code)"
            done
            busybox wget -q -O - http://site.example/page
            busybox wget -q -O - http://site.example/private/busybox 2>/dev/null || echo refused $?' 2>&1
        echo "ended $?""#;
    for user in users() {
        let ended = world(user, script);
        ended.has("ended 0");
        let told = "courtesy: site.example/private/curl denied to curl: line ";
        assert_eq!(ended.said.matches(told).count(), 1, "{}", ended.said);
        ended.count("the page", 7);
        ended.count("refused 403", 4);
        // That of wget for an error of the server.
        ended.count("refused 8", 2);
        ended.count("refused 1", 1);
        let pages = ended.served.iter().filter(|line| *line == "/page via").count();
        assert_eq!(pages, 7, "{:?}", ended.served);
        assert!(!ended.served.iter().any(|line| line.contains("private")), "{:?}", ended.served);
        let urls: Vec<_> = ended.records("denied").iter().map(|it| it["url"].clone()).collect();
        assert_eq!(urls.len(), 7, "{urls:?}");
    }
}

#[test]
fn names_are_answered_by_the_proxy() {
    let script = r#"
        "$COURTESY" run --sealed -- sh -c '
            # The file of hosts is not asked.
            getent -s hosts:dns ahostsv4 site.example | head -1
            set -- --resolve site.example:80:198.18.0.0 --resolve "site.example:443:[fd00:c0::]"
            curl -s "$@" --noproxy "*" http://site.example/page
            curl -s "$@" --noproxy "*" https://site.example/page
            getent -s hosts:dns hosts 198.18.0.0
            curl -s "$@" --noproxy "*" -o /dev/null -w "%{http_code}\n" -H "Host: other.example" http://site.example/page
            curl -s "$@" --noproxy "*" --http1.0 -H "Host:" http://site.example/page
            getent -s hosts:dns hosts none.example; echo "none $?"
            getent -s hosts:dns hosts localhost'"#;
    for user in users() {
        let ended = world(user, script);
        ended.has("198.18.0.0      STREAM site.example");
        ended.count("the page", 3);
        ended.has("198.18.0.0      site.example");
        // The connection is for the name that its address stands for.
        ended.has("400");
        ended.has("none 2");
        assert!(ended.said.contains("localhost"), "{}", ended.said);
    }
}

#[test]
fn many_names_and_many_threads_are_answered() {
    let script = r#"
        "$COURTESY" run --summary none --sealed -- python3 "$DIR/threads.py""#;
    let ended = world(0, script);
    ended.has("threads 1000 1");
    ended.has("names 10000");
}

#[test]
fn browsers_that_have_databases_of_their_own_trust_the_authority() {
    let script = r#"
        mkdir -p "$HOME/.pki/nssdb"
        certutil -N -d "sql:$HOME/.pki/nssdb" --empty-password
        list() { certutil -L -d "sql:$HOME/.pki/nssdb" | grep -c "^courtesy-0 .*C,,"; }
        list
        "$COURTESY" run --summary none --sealed -- sh -c '
            certutil -L -d "sql:$HOME/.pki/nssdb" | grep -c "^courtesy-0 .*C,,"
            file=$(grep -o "/[^\"]*authority-0.pem" /opt/firefox/distribution/policies.json)
            openssl x509 -in "$file" -noout && echo "Firefox installs it"'
        list
        ls -A /opt/firefox/distribution | wc -l"#;
    for user in users() {
        let ended = world(user, script);
        let counts: Vec<_> = ended.said.lines().filter(|it| ["0", "1"].contains(it)).collect();
        assert_eq!(counts, ["0", "1", "0", "0"], "{}", ended.said);
        ended.has("Firefox installs it");
    }
}

#[test]
fn what_is_visible_is_what_the_page_says() {
    let script = r#"
        "$COURTESY" run --sealed -- sh -c '
            id -u; cat /etc/resolv.conf; hostname >/dev/null && echo named
            diff /etc/ssl/certs/ca-certificates.crt "$HOME/clients/bundle.pem" && echo trusted
            ls /etc/ssl/certs | grep -c "^courtesy-0.pem$"
            grep -h "^Cap\|^NoNewPrivs" /proc/self/status | sort -u | tr -d "\t"'"#;
    for user in users() {
        let ended = world(user, script);
        ended.has(&user.to_string());
        for line in ["nameserver 127.0.0.53", "named", "trusted", "1", "NoNewPrivs:1"] {
            ended.has(line);
        }
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            ended.has(&format!("{set}:0000000000000000"));
        }
    }
    assert!(Path::new("/etc/resolv.conf").exists());
}
