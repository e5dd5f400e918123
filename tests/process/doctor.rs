//! `courtesy doctor` as a shell sees it: what is well, what is not, and the code it ends in.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::testkit::processes::Place;

/// The findings by their subject, and the exit code.
fn doctor(state_dir: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command
        .args(["doctor", "--json"])
        .args(arguments)
        .env_clear()
        .env("HOME", state_dir)
        .stdin(Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("COURTESY__STATE_DIR", state_dir);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The state and the words of one finding.
#[track_caller]
fn finding(findings: &[Value], subject: &str) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found =
        findings.iter().find(|finding| finding["subject"].as_str().unwrap().starts_with(subject));
    let found = found.unwrap_or_else(|| panic!("{subject} is not among {findings:?}"));
    (text(&found["state"]), text(&found["detail"]))
}

/// A configuration that listens here.
fn configuration(dir: &Path, listen: impl std::fmt::Display) -> String {
    let file = dir.join("courtesy.toml");
    std::fs::write(&file, format!("[listen]\nproxy = [\"{listen}\"]\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn free_address() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn wget_follows_the_variables_and_all_is_well() {
    let dir = tempfile::tempdir().unwrap();
    let file = configuration(dir.path(), free_address());
    let (code, findings) = doctor(dir.path(), &["--config", &file, "wget"]);
    assert_eq!(code, Some(0), "{findings:?}");
    assert!(findings.iter().all(|finding| finding["state"] == "well"), "{findings:?}");
    finding(&findings, "certificate authority");
    let (_, tls) = finding(&findings, "TLS to origins");
    assert!(tls.contains("X25519") && tls.contains("CBC") && tls.contains("P-521"), "{tls}");
    assert!(finding(&findings, "denial records").1.starts_with("none in "), "{findings:?}");
    assert!(finding(&findings, "store").1.starts_with("none at "), "{findings:?}");
    let (_, said) = finding(&findings, "wget");
    assert_eq!(said, "goes through the proxy by http and https, and is denied what is disallowed");
}

#[test]
fn a_broken_configuration_is_said_and_nothing_else_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.toml");
    std::fs::write(&file, "[robots]\nprofil = \"google\"\n").unwrap();
    let (code, findings) = doctor(dir.path(), &["--config", file.to_str().unwrap()]);
    assert_eq!((code, findings.len()), (Some(1), 1));
    let (state, said) = finding(&findings, "configuration");
    assert_eq!(state, "bad");
    assert!(said.contains("did you mean robots.profile?"), "{said}");
}

#[test]
fn who_has_the_address_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = configuration(dir.path(), listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 4096]);
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\nServer: other\r\n\r\n");
        }
    });
    let (code, findings) = doctor(dir.path(), &["--config", &file, "wget"]);
    assert_eq!(code, Some(1));
    let expected =
        ("bad".to_owned(), "something else answers there: HTTP/1.1 400 Bad Request".to_owned());
    assert_eq!(finding(&findings, "address"), expected);
}

#[test]
fn a_courtesy_that_serves_is_known() {
    let place = Place::new("");
    let served = place.serve();
    let file = configuration(place.path(), served.address());
    // It has the state directory, too, which is no fault.
    let (code, findings) = doctor(&place.state_dir(), &["--config", &file, "wget"]);
    served.stop();
    assert_eq!(code, Some(0), "{findings:?}");
    assert_eq!(finding(&findings, "address"), ("well".into(), "a courtesy answers there".into()));
}

#[test]
fn a_client_that_cannot_be_tried_is_named_with_those_that_can() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_courtesy")).args(["doctor", "netscape"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("curl, wget, "), "{output:?}");
}

/// Perl and PHP follow by variables of their own.
#[test]
#[ignore = "nightly"]
fn clients_that_follow_by_variables_of_their_own_are_known() {
    let clients = ["perl lwp", "perl mojo", "php streams", "php curl"];
    // One of them waits for ever.
    follow(&["perl", "php"], &clients.map(|client| (client, client != "php curl")));
}

/// Runs doctor on `arguments`: it finds that these clients follow, and whether it warns of their patience.
#[track_caller]
fn follow(arguments: &[&str], clients: &[(&str, bool)]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let file = configuration(dir.path(), free_address());
    let (code, findings) = doctor(dir.path(), &[&["--config", &file], arguments].concat());
    assert_eq!(code, Some(0), "{findings:#?}");
    let follows = "goes through the proxy by http and https, and is denied what is disallowed";
    for (client, is_warned) in clients {
        let (state, said) = finding(&findings, client);
        assert!(state == "well" && said.starts_with(follows), "{client}: {said}");
        assert_eq!(said.ends_with("(pace.max_wait)"), *is_warned, "{client}: {said}");
    }
    findings
}

/// links follows no variable, which is no fault of the machine.
#[test]
fn clients_that_follow_and_clients_that_do_not_are_known() {
    let followers = [("curl", false), ("python urllib", false)];
    let findings = follow(&["curl", "python", "links", "aria2"], &followers);
    let (state, said) = finding(&findings, "pace");
    let said = said.strip_prefix("two requests to a site with Crawl-delay 0.5 were ").unwrap();
    let millis: u64 = said.strip_suffix(" ms apart").unwrap().parse().unwrap();
    assert!(state == "well" && millis >= 480, "{millis}");
    let around = "goes around the proxy: it does not follow the variables, as is known of it";
    assert_eq!(finding(&findings, "links"), ("known".into(), around.into()));
    let links = findings.iter().find(|finding| finding["subject"] == "links").unwrap();
    assert!(links["remedy"].as_str().unwrap().starts_with("-http-proxy "), "{links}");
    let (state, said) = finding(&findings, "aria2");
    assert!(state == "known" && said.starts_with("does not reach the site by https: "), "{said}");
}

/// Without trust in its database Chromium fails, and writes its log: of that, the number of the error is said.
#[test]
fn no_raw_line_of_chromiums_log_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let file = configuration(dir.path(), free_address());
    let (code, findings) = doctor(dir.path(), &["--config", &file, "chromium"]);
    let (state, said) = finding(&findings, "chromium");
    assert_eq!((code, &*state), (Some(1), "bad"), "{said}");
    let reason =
        said.strip_prefix("does not reach the site by https: ").unwrap_or_else(|| panic!("{said}"));
    assert!(!reason.contains(['[', ']']) && !reason.contains(".cc("), "{reason}");
}
