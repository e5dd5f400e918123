//! A network of its own for a test.

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

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

/// Runs `body` in a world of its own: this program is started again inside, for the one test that
/// calls this.
#[expect(clippy::disallowed_methods, reason = "a test is a program of its own")]
pub fn inside<F: FnOnce()>(body: F) {
    let test = test_of::<F>();
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
        ("hosts", "127.0.0.1 localhost\n::1 ip6-localhost\n10.9.8.7 listed site.example\n"),
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
    let [said, complaint] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{complaint}\nWhere name spaces of networks cannot be made (ip of iproute2, and the right to \
         use it), {WITHOUT}=1 passes over what needs them."
    );
    print!("{said}");
}

/// The name of the test whose closure `F` is, as the test runner has it: without the crate.
fn test_of<F>() -> &'static str {
    let closure = std::any::type_name::<F>();
    let path = closure.split_once("::").map_or(closure, |(_, path)| path);
    path.split_once("::{{closure}}").map_or(path, |(test, _)| test)
}
