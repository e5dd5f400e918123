//! `courtesy health`, beside the proxy that it asks about.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::serve::support::{
    Ended, Served, Site, courtesy, end, exchange, state_dir, status, until,
};

/// How `courtesy health` ends, asked about `served`.
#[track_caller]
fn health(served: &Served, arguments: &[&str]) -> Ended {
    let admin = served.admin.expect("an admin listener").to_string();
    served.beside(&[&["health", "--admin", &admin], arguments].concat())
}

#[test]
fn health_exits_with_0_while_the_proxy_is_ready_and_69_when_it_is_gone() {
    let dir = state_dir();
    let served = Served::start(dir.path(), &[]);
    let ready = health(&served, &[]);
    assert_eq!((ready.code, ready.stdout.as_str()), (Some(0), "ready\n"), "{ready:?}");
    let lives = health(&served, &["--live"]);
    assert_eq!((lives.code, lives.stdout.as_str()), (Some(0), "ok\n"), "{lives:?}");
    let admin = served.admin.unwrap().to_string();
    served.terminate();
    let gone = end(&mut courtesy(dir.path(), &["health", "--admin", &admin]));
    assert_eq!(gone.code, Some(69), "{gone:?}");
    assert!(gone.stderr.contains(&format!("nothing answers at {admin} (--admin)")), "{gone:?}");
}

#[test]
fn health_is_1_with_the_reason_while_records_cannot_be_written() {
    let (dir, site) = (state_dir(), Site::start("User-agent: *\nDisallow: /\n"));
    fs::create_dir(dir.path().join("audit")).unwrap();
    symlink("/dev/full", dir.path().join("audit/denials.jsonl")).unwrap();
    let served = Served::start(dir.path(), &[]);
    assert_eq!(served.get(&format!("{}/a", site.origin)), 403);
    let not_ready = health(&served, &[]);
    assert_eq!(not_ready.code, Some(1), "{not_ready:?}");
    let expected = "not ready\n  audit: cannot write denial records: ";
    assert!(not_ready.stdout.starts_with(expected), "{not_ready:?}");
    assert_eq!(health(&served, &["--live"]).code, Some(0));
}

#[test]
fn without_an_admin_listener_there_is_nobody_to_ask() {
    let dir = state_dir();
    let mut command = courtesy(dir.path(), &["health"]);
    let ended = end(command.env("COURTESY__LISTEN__ADMIN", "off"));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("listen.admin is \"off\""), "{ended:?}");
}

/// A file that the owner alone may read.
fn write_private(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

/// Off loopback it takes the token, which a command by the same settings has, too.
#[test]
fn a_reachable_admin_listener_asks_for_a_token_that_can_change() {
    let dir = state_dir();
    let file = dir.path().join("admin.token");
    write_private(&file, "the-first-of-the-tokens\n");
    // What is degraded has a reason, and only whoever has the token is told it.
    fs::write(dir.path().join("state"), "no directory").unwrap();
    let with_token = |mut command: Command| {
        command.env("COURTESY__ADMIN__TOKEN_FILE", &file);
        command
    };
    let served = Served::begin(dir.path(), &["--admin", "0.0.0.0:0"], with_token);
    let port = served.admin.unwrap().port();
    let ask = |path: &str, token: &str| {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}");
        exchange(([127, 0, 0, 1], port).into(), &head)
    };
    assert_eq!(status(&ask("/metrics", "the-second-of-the-tokens")), 401);
    assert_eq!(served.get(&format!("http://127.0.0.1:{port}/healthz")), 502, "it is no origin");
    let metrics = ask("/metrics", "the-first-of-the-tokens");
    assert!(metrics.contains("\ncourtesy_store_degraded 1\n"), "{metrics}");
    assert!(!ask("/readyz", "").contains("reasons"));
    let listener = format!("0.0.0.0:{port}");
    let health = || end(&mut with_token(courtesy(dir.path(), &["health", "--admin", &listener])));
    let degraded = health();
    assert_eq!(degraded.code, Some(0), "{degraded:?}");
    assert!(degraded.stdout.starts_with("degraded\n  store: "), "{degraded:?}");

    write_private(&file, "the-second-of-the-tokens\n");
    until("the other token opens", || status(&ask("/metrics", "the-second-of-the-tokens")) == 200);
    assert_eq!(status(&ask("/metrics", "the-first-of-the-tokens")), 401);
    assert!(health().stdout.contains("store: "));
    served.terminate();
}

#[test]
fn a_token_that_everybody_can_read_is_no_token() {
    let dir = state_dir();
    let file = dir.path().join("admin.token");
    fs::write(&file, "the-first-of-the-tokens\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut command =
        courtesy(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let ended = end(command.env("COURTESY__ADMIN__TOKEN_FILE", &file));
    assert_eq!(ended.code, Some(77), "{ended:?}");
    assert!(
        ended.stderr.contains("(admin.token_file)") && ended.stderr.contains("chmod 640"),
        "{ended:?}"
    );
}
