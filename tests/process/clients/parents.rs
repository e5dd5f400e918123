//! Parent proxies as Debian has them: what a client asks for by courtesy goes by them, and its records
//! are as without one.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::clients::support::{Run, Site, apt};
use crate::testkit::processes::until;

/// A parent that is stopped when dropped.
struct Parent {
    child: Child,
    port: u16,
}

impl Parent {
    /// Starts the program that `command` makes for a port and a directory.
    fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = command(port);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let parent = Self { child: command.spawn().expect("a process"), port };
        until("the parent listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        parent
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client behind courtesy, and courtesy behind `parent`.
fn by(scheme: &str, parent: &Parent, run: &Run<'_>) {
    let config = run.directory().join("courtesy.toml");
    let settings = fs::read_to_string(&config).expect("a file");
    let line = format!("[egress]\nparent = \"{scheme}://127.0.0.1:{}\"\n", parent.port);
    fs::write(&config, settings.replace("[egress]\n", &line)).expect("a file");
    let curl = apt("curl", "curl");
    let options = ["-sS", "--include", "--suppress-connect-headers", "--max-time", "20"];
    run.four([&[&*curl], &options[..]].concat(), "curl/");
}

fn written(directory: &Path, name: &str, content: &str) -> String {
    let file = directory.join(name);
    fs::write(&file, content).expect("a file");
    file.display().to_string()
}

#[test]
#[ignore = "nightly"]
fn parent_tinyproxy() {
    let tinyproxy = apt("tinyproxy", "tinyproxy-bin");
    let site = Site::localhost();
    let run = Run::of(&site);
    let log = run.directory().join("tinyproxy.log");
    let parent = Parent::start(|port| {
        let settings = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nLogLevel Connect\nLogFile \"{}\"\n",
            log.display()
        );
        let mut command = Command::new(&tinyproxy);
        command.args(["-d", "-c", &written(run.directory(), "tinyproxy.conf", &settings)]);
        command
    });
    by("http", &parent, &run);
    let seen = fs::read_to_string(&log).expect("its log");
    assert!(seen.contains("CONNECT") && !seen.contains("GET "), "{seen}");
}

#[test]
#[ignore = "nightly"]
fn parent_squid() {
    let squid = apt("squid", "squid");
    let site = Site::localhost();
    let run = Run::of(&site);
    let parent = Parent::start(|port| {
        let settings = format!(
            "http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\npid_filename none\n\
             access_log none\ncache_log /dev/null\nlogfile_rotate 0\npinger_enable off\n\
             shutdown_lifetime 0 seconds\nvisible_hostname parent\n"
        );
        let mut command = Command::new(&squid);
        command.args(["-N", "-f", &written(run.directory(), "squid.conf", &settings)]);
        command
    });
    by("http", &parent, &run);
}

#[test]
#[ignore = "nightly"]
fn parent_microsocks() {
    let microsocks = apt("microsocks", "microsocks");
    for scheme in ["socks5h", "socks5"] {
        let site = Site::localhost();
        let parent = Parent::start(|port| {
            let mut command = Command::new(&microsocks);
            command.args(["-i", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        by(scheme, &parent, &Run::of(&site));
    }
}

#[test]
#[ignore = "nightly"]
fn parent_dante() {
    let danted = apt("danted", "dante-server");
    let site = Site::localhost();
    let run = Run::of(&site);
    let parent = Parent::start(|port| {
        let settings = format!(
            "logoutput: /dev/null\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\n\
             clientmethod: none\nsocksmethod: none\n\
             client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}\n\
             socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}\n"
        );
        let mut command = Command::new(&danted);
        let pid = run.directory().join("danted.pid").display().to_string();
        let settings = written(run.directory(), "danted.conf", &settings);
        command.args(["-f", &settings, "-p", &pid]);
        command
    });
    by("socks5h", &parent, &run);
}
