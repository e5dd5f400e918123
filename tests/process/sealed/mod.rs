//! `courtesy run --sealed`: a command that knows of no proxy, in a network in which there is nothing
//! else. Each test is a script in a world of its own ([`WORLD`]); as root it is tried as an ordinary
//! user as well.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::testkit::processes::Place;

const WORLD: &str = include_str!("world.sh");
const ORIGIN: &str = include_str!("origin.py");
const ESCAPES: &str = include_str!("escapes.py");

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

    /// The denial records of its runs.
    pub fn denied(&self) -> Vec<Value> {
        let runs = fs::read_dir(self.place.state_dir().join("runs")).expect("runs");
        let files = runs.flatten().map(|run| run.path().join("audit/denials.jsonl"));
        let text: String = files.map(|file| fs::read_to_string(file).expect("records")).collect();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        lines.filter(|line| line["event"] == "denied").collect()
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
    fs::write(dir.join("origin.py"), ORIGIN).expect("a file");
    fs::write(dir.join("escapes.py"), ESCAPES).expect("a file");
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
            busybox wget -q -O - http://site.example/private/busybox 2>/dev/null || echo refused $?'
        echo "ended $?""#;
    for user in users() {
        let ended = world(user, script);
        ended.has("ended 0");
        ended.count("the page", 7);
        ended.count("refused 403", 4);
        // That of wget for an error of the server.
        ended.count("refused 8", 2);
        ended.count("refused 1", 1);
        let pages = ended.served.iter().filter(|line| *line == "/page via").count();
        assert_eq!(pages, 7, "{:?}", ended.served);
        assert!(!ended.served.iter().any(|line| line.contains("private")), "{:?}", ended.served);
        let urls: Vec<_> = ended.denied().iter().map(|it| it["url"].clone()).collect();
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
fn nothing_gets_out() {
    let script = r#"
        exec 7<>"$DIR/tmp/file"
        python3 -c '
import os, socket
stream = socket.create_connection(("93.184.216.34", 80))
os.dup2(stream.fileno(), 7, inheritable=True)
os.execvp("sh", ["sh", "-c", "\"$COURTESY\" run --sealed -- python3 \"$DIR/escapes.py\""])'"#;
    for user in users() {
        let ended = world(user, script);
        for line in [
            "raw socket: EPERM",
            "other port: ECONNREFUSED",
            "other port by name: ECONNREFUSED",
            "other port of IPv6: ECONNREFUSED",
            "name server: ECONNREFUSED",
            "name server by TCP: ECONNREFUSED",
            "HTTP/3: ECONNREFUSED",
            "UDP of IPv6: ECONNREFUSED",
            "private address: 403",
            "private address of IPv6: 403",
            "link-local address: 403",
            "stand-in without a name: 403",
            "abstract socket: ECONNREFUSED",
            "network of the proxy: EACCES",
            "trace of the proxy: EPERM",
            "memory of the proxy: EACCES",
            "inherited socket: closed",
            "mount: refused",
            "new network: EPERM",
            "host name: EPERM",
        ] {
            ended.has(line);
        }
        let told = ended.said.lines().find(|line| line.contains("refused, as not served:"));
        let told = told.unwrap_or_else(|| panic!("{}", ended.said));
        for destination in [
            "93.184.216.34:22 (1)",
            "8.8.8.8:53 (1)",
            "8.8.8.8:53/udp (1)",
            "[2606:2800::1]:22 (1)",
        ] {
            assert!(told.contains(destination), "{destination}: {told}");
        }
        assert_eq!(ended.served, [""; 0], "nothing but refusals");
    }
}

#[test]
fn a_service_that_is_named_is_reached_and_no_other() {
    let ask = r#"python3 -c '
import socket
for host in ["site.example", "other.example"]:
    with socket.create_connection((host, 5432), 5) as stream:
        try:
            stream.sendall(b"echo")
            print(host, stream.recv(9))
        except ConnectionError: print(host, "closed")'"#;
    let script = format!(
        r#""$COURTESY" run --sealed --reach site.example:5432 -- {ask}
        "$COURTESY" run --sealed --reach site.example:80 -- true; echo "ended $?""#
    );
    let ended = world(0, &script);
    ended.has("site.example b'echo'");
    let is_closed = |line: &str| line == "other.example closed" || line == "other.example b''";
    assert!(ended.said.lines().any(is_closed), "{}", ended.said);
    assert!(ended.said.contains("93.184.216.35:5432 (1)"), "{}", ended.said);
    assert!(ended.said.contains("1 connection relayed (--reach)"), "{}", ended.said);
    ended.has("ended 2");
}

#[test]
fn it_ends_as_the_command_does() {
    let script = r#"
        run() { "$COURTESY" run --summary none --sealed -- "$@"; echo "$1 $?"; }
        run true; run false; run /none; run /etc/passwd
        run sh -c 'exit 7'; run sh -c 'kill -TERM $$'
        echo input | "$COURTESY" run --summary none --sealed -- cat
        run sh -c 'exit 3' <&-
        unshare --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces
            "$COURTESY" run --sealed -- echo UNSEALED; echo "without $?"'"#;
    for user in users() {
        let ended = world(user, script);
        for line in ["true 0", "false 1", "/none 127", "/etc/passwd 126", "sh 7", "sh 143", "sh 3"]
        {
            ended.has(line);
        }
        ended.has("input");
        ended.has("without 69");
        assert!(ended.said.contains("user.max_user_namespaces is 0"), "{}", ended.said);
        assert!(!ended.said.lines().any(|line| line == "UNSEALED"), "{}", ended.said);
    }
}

#[test]
fn runs_leave_nothing_behind() {
    let script = r#"
        left() { ls "$DIR/tmp"; ls /proc/self/fd | wc -l; wc -l </proc/self/mountinfo
            ps -eo pid,args | grep -c "[c]ourtesy seal\|[s]leep 9999"; }
        left >"$DIR/state/before"
        for run in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            "$COURTESY" run --summary none --sealed -- curl -s http://site.example/page &
            [ $((run % 4)) = 0 ] && wait
        done
        wait
        "$COURTESY" run --summary none --sealed -- sleep 9999 & proxy=$!
        until pgrep -P $proxy -x sleep >/dev/null; do sleep 0.05; done
        command=$(pgrep -P $proxy -x sleep); kill -KILL $proxy; wait $proxy
        while [ -d /proc/$command ]; do sleep 0.05; done; echo "it ends with its proxy"
        rm -rf "$DIR"/tmp/courtesy-sealed-*
        left >"$DIR/state/after"; diff "$DIR/state/before" "$DIR/state/after" && echo same"#;
    for user in users() {
        let ended = world(user, script);
        ended.count("the page", 20);
        ended.has("it ends with its proxy");
        ended.has("same");
        assert_eq!(ended.code, Some(0), "{}", ended.said);
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
