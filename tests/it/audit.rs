//! The log beside the proxy: what becomes of requests while it cannot be written, and of the file
//! when another program takes it away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use courtesy::audit::FILE_NAME;
use courtesy::config::OnFailure;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::testkit::parties::{Client, Origin, Proxy, until};

const ROBOTS: &str = "User-agent: *\nDisallow: /private/\n";

#[test]
fn on_failure_stop_serves_nothing_while_records_cannot_be_written() {
    let origin = Origin::with_robots(ROBOTS);
    let proxy = Proxy::with(|settings| {
        settings.audit.on_failure = OnFailure::Stop;
        let dir = settings.audit_dir();
        fs::create_dir_all(&dir).expect("a directory");
        std::os::unix::fs::symlink("/dev/full", dir.join(FILE_NAME)).expect("a link");
    });
    assert_eq!(proxy.get(&origin.url("/")).status(), 200, "nothing has failed yet");
    let denied = proxy.get(&origin.url("/private/a"));
    denied.assert_error(503, "proxy_internal_error");
    assert_eq!(denied.json()["type"], "http://courtesy.internal/problems/audit-unavailable");
    assert_eq!((denied.field("retry-after"), denied.field("courtesy-record")), (Some("1"), None));
    proxy.get(&origin.url("/not-now")).assert_error(503, "proxy_internal_error");
    assert_eq!(origin.count("/not-now"), 0);

    fs::remove_file(proxy.audit_dir().join(FILE_NAME)).expect("the link");
    proxy.audit.reopen();
    until("it serves again", || proxy.get(&origin.url("/")).status() == 200);
    assert_eq!(proxy.get(&origin.url("/private/b")).status(), 403);
    let lines = proxy.lines();
    assert_eq!((&lines[0]["event"], &lines[0]["lost"]), (&"gap".into(), &1.into()));
    assert_eq!(lines[1]["url"], origin.url("/private/b"));
}

#[test]
fn denials_go_on_without_their_records_otherwise() {
    let origin = Origin::with_robots(ROBOTS);
    let proxy = Proxy::with(|settings| {
        let dir = settings.audit_dir();
        fs::create_dir_all(&dir).expect("a directory");
        std::os::unix::fs::symlink("/dev/full", dir.join(FILE_NAME)).expect("a link");
    });
    assert_eq!(proxy.get(&origin.url("/private/a")).status(), 403);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    let health = proxy.audit.health();
    assert_eq!((health.written, health.lost), (0, 1));
}

#[test]
fn the_log_ends_with_how_many_decisions_there_were() {
    let origin = Origin::with_robots(ROBOTS);
    let mut proxy = Proxy::start();
    for path in ["/", "/private/a", "/b", "/robots.txt"] {
        proxy.get(&origin.url(path));
    }
    proxy.stop();
    let lines = proxy.lines();
    let totals = ["event", "allowed", "denied", "by_path", "by_host"].map(|name| &lines[1][name]);
    assert_eq!(totals, [&Value::from("totals"), &3.into(), &1.into(), &4.into(), &0.into()]);
    assert_eq!(lines.len(), 2);
}

/// `courtesy serve`, ended when dropped.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    fn start(state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_courtesy"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--workers",
                "1",
                "--allow-private",
                "--state-dir",
            ])
            .arg(state)
            .env_clear()
            .env("COURTESY__LOG__FORMAT", "json")
            .env("COURTESY__LISTEN__ADMIN", "off")
            .env("COURTESY__TLS__ROOTS", "bundled")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("courtesy");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let address = said.by_ref().find_map(|line| {
            let line: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            line["address"].as_str().map(|address| address.parse().expect("an address"))
        });
        // What it says later must not fill the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, address: address.expect("it listens") }
    }

    fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).expect("a process");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn f15_a_log_that_was_rotated_by_another_program_goes_on_after_a_hang_up() {
    let origin = Origin::with_robots(ROBOTS);
    let state = tempfile::tempdir().expect("a directory");
    let dir = state.path().join("audit");
    let (file, moved) = (dir.join(FILE_NAME), dir.join("denials.jsonl.1"));
    let served = Served::start(state.path());
    let deny = |path: &str| {
        let denied = Client::connect(served.address).get(&origin.url(path));
        assert_eq!(denied.status(), 403);
    };
    deny("/private/a");
    fs::rename(&file, &moved).expect("the file");
    deny("/private/b");
    served.hang_up();
    until("there is a new file", || file.exists());
    deny("/private/c");
    let lines = |path: &Path| -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a file of records");
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
    };
    let (before, after) = (lines(&moved), lines(&file));
    // The first says how the proxy was started.
    assert_eq!((before.len(), after.len()), (3, 1));
    assert_eq!(after[0]["seq"], 4);
    assert_eq!(after[0]["prev"], before[2]["hash"]);
}
