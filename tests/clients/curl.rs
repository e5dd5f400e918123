//! curl and wget.

use crate::support::{DISTRUST, Run, Site, apt};

/// An answer with its head, and nothing about the CONNECT.
const CURL: [&str; 4] = ["-sS", "--include", "--suppress-connect-headers", "--max-time"];

#[test]
fn curl_by_http_2() {
    let curl = apt("curl", "curl");
    let site = Site::start();
    let answers = Run::of(&site).four([&[&*curl], &CURL[..], &["20"]].concat(), "curl/");
    // What is asked for in plain text is asked of the proxy by HTTP/1.1.
    let versions: Vec<_> = answers.iter().map(|answer| answer.version.as_str()).collect();
    assert_eq!(versions, ["1.1", "1.1", "2", "2"]);
}

#[test]
fn curl_by_http_1() {
    let curl = apt("curl", "curl");
    let site = Site::start();
    let answers = Run::of(&site).four([&[&*curl], &CURL[..], &["20", "--http1.1"]].concat(), "curl/");
    assert!(answers.iter().all(|answer| answer.version == "1.1"), "{answers:#?}");
}

#[test]
fn wget() {
    let wget = apt("wget", "wget");
    let site = Site::start();
    let options = ["-q", "--tries=1", "--timeout=20", "--content-on-error", "--save-headers", "-O-"];
    Run::of(&site).four([&[&*wget], &options[..]].concat(), "Wget/");
}

/// Of a client that says why it leaves, the operator hears it.
#[test]
fn curl_without_trust() {
    let curl = apt("curl", "curl");
    let site = Site::start();
    let run = Run::of(&site);
    let ended = run.assert_verifies([curl, "-sS".into(), site.url("https", "/page")]);
    assert_eq!(ended.code, Some(60));
    assert!(ended.stderr.contains(DISTRUST), "{ended:#?}");
}
