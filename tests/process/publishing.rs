//! The commands of the page on publishing checkpoints, as printed there.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::testkit::processes::Place;

/// A command of the page, as a file of its name.
fn command(dir: &Path, name: &str) -> PathBuf {
    let page = include_str!("../../docs/operate/publishing.md");
    let (_, script) = page.split_once(&format!("`{name}`:\n\n```sh\n")).expect("it is printed");
    let file = dir.join(name);
    std::fs::write(&file, script.split_once("```").unwrap().0).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}

/// A place whose proxy has stopped, and the checkpoint of its log.
fn checkpoint() -> (Place, Vec<u8>) {
    let place = Place::new("");
    place.serve().stop();
    let printed = place.run("audit head");
    assert!(printed.status.success(), "{printed:?}");
    (place, printed.stdout)
}

/// The output of `command` with the checkpoint on its standard input.
fn given(command: &mut Command, checkpoint: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(checkpoint).unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert!(status.success(), "{command:?}");
    stdout
}

#[track_caller]
fn shell(dir: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-euc", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_git_repository_has_each_checkpoint_and_the_log_holds_against_it() {
    let (place, checkpoint) = checkpoint();
    shell(
        place.path(),
        "git init --quiet --bare remote && git clone --quiet remote clone 2>/dev/null && cd clone && \
         git config user.name courtesy && git config user.email courtesy@example.com && \
         git config push.default current",
    );
    let file = command(place.path(), "courtesy-publish-git");
    for count in 1..=2 {
        let mut publish = Command::new(&file);
        let receipt = given(publish.arg(place.path().join("clone")), &checkpoint);
        let receipt = String::from_utf8(receipt).unwrap();
        let heads = shell(&place.path().join("remote"), "git rev-list --all");
        assert_eq!(heads.lines().count(), count);
        assert!(heads.lines().any(|head| head == receipt.trim_end()), "{receipt}: {heads}");
    }
    shell(place.path(), "git clone --quiet remote elsewhere");
    let heads = place.path().join("elsewhere/checkpoints.txt");
    let verified = place.run(&format!("audit verify --head {}", heads.display()));
    assert!(verified.status.success(), "{verified:?}");
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(said.contains("The log holds, up to line"), "{said}");
}

#[test]
fn the_answer_of_a_time_stamping_authority_is_verified_as_printed() {
    let (place, checkpoint) = checkpoint();
    let settings = "[req]\ndistinguished_name = name\nprompt = no\nx509_extensions = v3\n[name]\nCN = A\n[v3]\n\
                    extendedKeyUsage = critical,timeStamping\n[tsa]\ndefault_tsa = one\n[one]\nserial = serial\n\
                    signer_cert = authority.pem\nsigner_key = key.pem\nsigner_digest = sha256\n\
                    default_policy = 1.2.3.4\ndigests = sha256\n";
    std::fs::write(place.path().join("tsa.cnf"), settings).unwrap();
    shell(
        place.path(),
        "openssl req -x509 -newkey rsa:2048 -noenc -keyout key.pem -out authority.pem -days 2 -config tsa.cnf \
         2>/dev/null; echo 01 > serial; mkdir bin",
    );
    // In the place of curl: the authority, which answers the request in the file of the flags.
    let curl = "#!/bin/sh\nset -eu\nwhile [ $# -gt 1 ]; do case $1 in --data-binary) request=${2#@};; --output) \
                response=$2;; esac; shift; done\ncd \"$AUTHORITY\"\nopenssl ts -reply -queryfile \"$request\" \
                -config tsa.cnf -out \"$response\" 2>/dev/null\n";
    let file = place.path().join("bin/curl");
    std::fs::write(&file, curl).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
    let mut publish = Command::new(command(place.path(), "courtesy-publish-tsa"));
    publish.arg("http://tsa.example/").env("PATH", path).env("AUTHORITY", place.path());
    let response = given(&mut publish, &checkpoint);
    std::fs::write(place.path().join("response"), response).unwrap();
    std::fs::write(place.path().join("checkpoint"), checkpoint).unwrap();
    let verify = "openssl ts -verify -data checkpoint -in response -CAfile authority.pem 2>&1";
    assert!(shell(place.path(), verify).contains("Verification: OK"));
    std::fs::write(place.path().join("checkpoint"), "another\n").unwrap();
    let other = Command::new("sh").args(["-c", verify]).current_dir(place.path()).output().unwrap();
    assert!(!other.status.success(), "{other:?}");
}
