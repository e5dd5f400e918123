//! What this user may not do ends with 77, names the file, directory or port, and says what to do. Run by
//! root, the tests run the program as an ordinary user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::serve::support::{Ended, Served, Site, courtesy, end, state_dir};

const ORDINARY: u32 = 65_532;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Ends as a user who is not root, and to whom the state directory belongs.
fn as_ordinary(state: &Path, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Ended {
    fs::create_dir_all(state).unwrap();
    let mut command = courtesy(state, arguments);
    if rustix::process::geteuid().is_root() {
        chown(state, Some(ORDINARY), Some(ORDINARY)).unwrap();
        command.uid(ORDINARY).gid(ORDINARY);
    }
    prepare(&mut command);
    end(&mut command)
}

#[track_caller]
fn is_denied(ended: &Ended, what: &Path) {
    assert_eq!(ended.code, Some(77), "{ended:?}");
    let said = &ended.stderr;
    assert!(
        said.contains(&what.display().to_string()) && said.contains("Permission denied"),
        "{said}"
    );
    assert!(said.contains("may not do that: run it as the user of the proxy"), "{said}");
}

/// Not "nothing has been denied".
#[test]
fn a_log_that_may_not_be_read_is_not_one_without_denials() {
    let (dir, site) = (state_dir(), Site::start("User-agent: *\nDisallow: /\n"));
    let served = Served::start(dir.path(), &[]);
    assert_eq!(served.get(&site.url("/a")), 403);
    served.terminate();
    let audit = dir.path().join("audit");
    let records = fs::read_to_string(audit.join("denials.jsonl")).unwrap();
    let id = records.split_once("\"id\":\"").unwrap().1.split('"').next().unwrap();
    mode(dir.path(), 0o755);
    mode(&audit, 0o000);
    let elsewhere = state_dir();
    let place = audit.display().to_string();
    for command in [
        vec!["audit", "query", "--dir", &place],
        vec!["audit", "show", id, "--dir", &place],
        vec!["audit", "report", "--dir", &place],
        vec!["audit", "verify", "--dir", &place],
        vec!["audit", "replay", "--dir", &place],
        vec!["audit", "export", "--dir", &place],
    ] {
        let ended = as_ordinary(elsewhere.path(), &command, |_| ());
        is_denied(&ended, &audit);
        assert!(!ended.stderr.contains("nothing has been denied"), "{command:?}: {ended:?}");
    }
    // The directory may be listed, and its files may not be read.
    mode(&audit, 0o755);
    mode(&audit.join("denials.jsonl"), 0o000);
    for command in ["query", "report", "export"] {
        let ended = as_ordinary(elsewhere.path(), &["audit", command, "--dir", &place], |_| ());
        assert_eq!(ended.code, Some(77), "{command}: {ended:?}");
        assert!(
            ended.stderr.contains("denials.jsonl") && ended.stderr.contains("Permission denied"),
            "{ended:?}"
        );
    }
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let dir = state_dir();
    mode(dir.path(), 0o755);
    let file = dir.path().join("secret");
    fs::write(&file, "").unwrap();
    mode(&file, 0o000);
    let state = dir.path().join("state");
    for setting in [
        "COURTESY_CONFIG",
        "COURTESY__CLIENTS__USERS_FILE",
        "COURTESY__ADMIN__TOKEN_FILE",
        "COURTESY__TLS__EXTRA_ROOTS",
        "COURTESY__HTTPS__CA_CERT",
    ] {
        let set = |command: &mut Command| {
            command.env(setting, &file);
            if setting.ends_with("CA_CERT") {
                command.env("COURTESY__HTTPS__CA_KEY", &file);
            }
        };
        for command in
            [vec!["config", "check"], vec!["serve", "--listen", "127.0.0.1:0", "--admin", "off"]]
        {
            is_denied(&as_ordinary(&state, &command, set), &file);
        }
    }
}

/// In a network of its own, where the ports below 1024 are root's, whatever this machine has set.
#[test]
fn a_port_of_root_is_a_matter_of_permission() {
    if !rustix::process::geteuid().is_root() {
        // Only root may make that network; the system's own may have no such ports.
        return;
    }
    let dir = state_dir();
    chown(dir.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
    let program = courtesy(dir.path(), &[]).get_program().to_owned();
    for addresses in [
        ["--listen", "127.0.0.1:80", "--admin", "off"],
        ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:80"],
    ] {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up; exec setpriv --reuid 65532 --regid 65532 --clear-groups \"$@\"",
            "sh",
        ]);
        command.arg(&program).arg("serve").args(addresses);
        command.env("COURTESY__STATE_DIR", dir.path()).env("COURTESY__TLS__ROOTS", "bundled");
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert!(ended.stderr.contains("cannot listen on 127.0.0.1:80"), "{ended:?}");
        assert!(ended.stderr.contains("ports below 1024 are for root"), "{ended:?}");
    }
}
