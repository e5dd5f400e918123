//! A world of its own for a test: a network in which every address of IPv4 and IPv6 is this machine, so
//! that even those which nobody may contact answer ([`Everywhere`]), with [`names`] that mean what a
//! test wants. It is made of name spaces of Linux, and gone with the process that runs in it.

mod everywhere;
pub mod names;

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub use everywhere::Everywhere;

use crate::parties::{Client, Response};
use crate::processes::{Place, Serve};

/// Set in the process that runs inside.
const INSIDE: &str = "COURTESY_TEST_INSIDE";

/// Set by whoever knows that there are no name spaces to be had.
const WITHOUT: &str = "COURTESY_TEST_NO_NAMESPACES";

/// Makes the network, and the files by which names are looked up, out of those in `$1`.
const MAKE: &str = "\
    ip link set lo up
    ip route add local 0.0.0.0/0 dev lo
    ip -6 route add local ::/0 dev lo
    for file in resolv.conf hosts nsswitch.conf; do
        mount --bind \"$1/$file\" \"$(readlink -f /etc/$file)\"
    done
    shift
    exec \"$@\"";

/// Runs `body` in a world of its own: this program is started again inside, for this one `test`, which
/// is named in full.
#[expect(clippy::disallowed_methods, reason = "a test is a program of its own")]
pub fn inside(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if std::env::var_os(WITHOUT).is_some() {
        println!("{test} WAS NOT RUN: {WITHOUT} is set, so there is no world to run it in");
        return;
    }
    let files = TempDir::new().expect("a directory");
    for (name, content) in [
        // No look-up gives up by itself before the proxy does.
        ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n"),
        ("hosts", "127.0.0.1 localhost\n::1 ip6-localhost\n10.9.8.7 listed\n"),
        ("nsswitch.conf", "hosts: files dns\n"),
    ] {
        fs::write(files.path().join(name), content).expect("a directory that can be written to");
    }
    let mut command = Command::new("unshare");
    // As anybody but root, a name space of users is needed for the others.
    let user = (!rustix::process::geteuid().is_root()).then_some("--map-root-user");
    command.args(["--net", "--mount", "--propagation", "private"]).args(user);
    command.args(["sh", "-ec", MAKE, "sh"]).arg(files.path());
    command.arg(std::env::current_exe().expect("this program")).args([
        test,
        "--exact",
        "--nocapture",
        "--include-ignored",
    ]);
    command.env(INSIDE, "1").stdin(Stdio::null());
    let output = command.output().expect("unshare, of util-linux");
    let [said, complaint] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{complaint}\nWhere name spaces of networks cannot be made (ip of iproute2, and the right to \
         use it), {WITHOUT}=1 passes over what needs them."
    );
    print!("{said}");
}

/// The program in this world, as it comes: nothing private is allowed.
pub struct Proxy {
    place: Place,
    serve: Option<Serve>,
}

impl Proxy {
    /// One that trusts these origins' CA, PEM, besides the others.
    #[track_caller]
    pub fn start(settings: &str, ca: &str) -> Self {
        let place = Place::new(settings);
        fs::write(place.path().join("origins.pem"), ca).expect("a directory that can be written to");
        let mut proxy = Self { place, serve: None };
        proxy.resume();
        proxy
    }

    /// Ends it, and starts it again with what it knows.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    #[track_caller]
    fn resume(&mut self) {
        let mut command = self.place.command("serve --extra-root");
        command.arg(self.place.path().join("origins.pem"));
        self.serve = Some(Serve::start(command));
    }

    pub fn serve(&self) -> &Serve {
        self.serve.as_ref().expect("a running proxy")
    }

    pub fn address(&self) -> SocketAddr {
        self.serve().address()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// What follows a GET for this URL, sent as it is written.
    #[track_caller]
    pub fn get(&self, url: &str) -> Response {
        self.ask(&format!("GET {url}"))
    }

    /// What follows a method and a target, sent as they are written.
    #[track_caller]
    pub fn ask(&self, line: &str) -> Response {
        let mut client = self.client();
        client.send(format!("{line} HTTP/1.1\r\nHost: x\r\nUser-Agent: ExampleBot/1.0\r\n\r\n"));
        client.read()
    }

    /// The certificates that its clients trust, PEM.
    pub fn trusted(&self) -> String {
        let output = self.place.run("ca export");
        String::from_utf8(output.stdout).expect("PEM")
    }

    /// Ends it and gives its records.
    #[track_caller]
    pub fn records(mut self) -> Vec<Value> {
        self.stop();
        let lines = self.place.log().lines;
        lines.into_iter().filter(|line| line.get("reason").is_some()).collect()
    }

    fn stop(&mut self) {
        self.serve.take().expect("a running proxy").stop();
    }
}
