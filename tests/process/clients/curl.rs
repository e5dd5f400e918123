//! curl and wget.

use std::fs;

use crate::clients::support::{DISTRUST, Run, Site, WELCOME, apt, assert_denied};

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
    let answers =
        Run::of(&site).four([&[&*curl], &CURL[..], &["20", "--http1.1"]].concat(), "curl/");
    assert!(answers.iter().all(|answer| answer.version == "1.1"), "{answers:#?}");
}

/// The proxy's address with another scheme.
fn curl_with_scheme(scheme: &str) -> [String; 5] {
    let script = format!("curl=$0; exec $curl -x \"{scheme}://${{HTTPS_PROXY#http://}}\" \"$@\"");
    ["sh".into(), "-c".into(), script, apt("curl", "curl"), "-sS".into()]
}

#[test]
fn curl_by_socks() {
    let site = Site::start();
    let curl = curl_with_scheme("socks5h").into_iter();
    let options = ["--include", "--max-time", "20"].map(str::to_owned);
    let answers = Run::of(&site).four(curl.chain(options), "curl/");
    let versions: Vec<_> = answers.iter().map(|answer| answer.version.as_str()).collect();
    assert_eq!(versions, ["1.1", "1.1", "2", "2"]);
}

#[test]
fn curl_by_a_proxy_with_tls() {
    let site = Site::start();
    let run = Run::of(&site);
    let config = run.directory().join("courtesy.toml");
    let settings = fs::read_to_string(&config).expect("a file");
    fs::write(&config, format!("{settings}[listen]\ntls = true\n")).expect("a file");
    let curl = curl_with_scheme("https").into_iter();
    let options = ["--include", "--suppress-connect-headers", "--max-time", "20"];
    let script = "exec \"$@\" --proxy-cacert \"$CURL_CA_BUNDLE\"";
    let client = curl.chain(options.map(str::to_owned)).chain(site.four());
    let shell = ["sh", "-c", script, "sh"].map(str::to_owned);
    run.four_by(run.client(shell.into_iter().chain(client)), "curl/");
}

#[test]
fn wget() {
    let wget = apt("wget", "wget");
    let site = Site::start();
    let options =
        ["-q", "--tries=1", "--timeout=20", "--content-on-error", "--save-headers", "-O-"];
    Run::of(&site).four([&[&*wget], &options[..]].concat(), "Wget/");
}

/// curl sends a URL as it was typed, but for what it encodes of a path itself in some versions.
#[test]
fn curl_with_a_url_that_is_not_encoded() {
    let curl = apt("curl", "curl");
    let site = Site::start();
    let run = Run::of(&site);
    let files = run.directory().join("files");
    fs::create_dir(&files).expect("a directory");
    fs::write(files.join("a%22%3Cb%3E"), WELCOME).expect("a file");
    site.publish("/raw", &files);
    let denied = ["/private/a\"<b>?q=\"\u{e9}\"", "/private/a%22%3Cb%3E?q=%22%C3%A9%22"];
    for scheme in ["http", "https"] {
        let curl = |path: &str| run.client([&*curl, "-sS", "--http1.1", &site.url(scheme, path)]);
        assert_eq!(curl("/raw/a\"<b>?<\u{e9}>").stdout, WELCOME);
        curl(denied[0]);
        let [record] = &run.records()[..] else { panic!("{:#?}", run.records()) };
        assert_denied(record, &site.url(scheme, denied[1]), "curl/");
        assert_eq!(record["url_as_received"], site.url(scheme, denied[0]));
    }
    // In HTTP/2, what passes the engine.
    run.client([&*curl, "-sS", &site.url("https", "/private/a\"?q=\u{e9}")]);
    let [record] = &run.records()[..] else { panic!("{:#?}", run.records()) };
    assert_denied(record, &site.url("https", "/private/a%22?q=%C3%A9"), "curl/");
    assert_eq!(record["url_as_received"], site.url("https", "/private/a\"?q=\u{e9}"));
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
