//! Programs of the terminal: browsers, and tools that fetch files.

use std::fs;

use crate::clients::support::{Run, SECRET, Site, WELCOME, answers, apt, assert_denied, inside};

/// The proxy's address as HOST:PORT, in words of a shell.
const PROXY: &str = "${http_proxy#http://}";

#[test]
#[ignore = "nightly"]
fn lynx() {
    let lynx = apt("lynx", "lynx");
    let site = Site::start();
    let run = Run::of(&site);
    run.pages(&format!("{lynx} -source"), "Lynx/");
    run.assert_refuses(&format!("{lynx} -source"));
}

#[test]
#[ignore = "nightly"]
fn w3m() {
    apt("w3m", "w3m");
    let site = Site::start();
    let run = Run::of(&site);
    run.pages("w3m -dump_source", "w3m/");
    run.assert_refuses("w3m -dump_source </dev/null");
}

/// Debian's verifies nothing, here and elsewhere.
#[test]
#[ignore = "nightly"]
fn elinks() {
    apt("elinks", "elinks");
    let site = Site::start();
    Run::of(&site).pages("elinks -source", "ELinks/");
}

/// By HTTP alone: it asks for tunnels without a Host, which HTTP/1.1 wants (RFC 9112 section 3.2).
#[test]
#[ignore = "nightly"]
fn links_with_its_option() {
    let links = apt("links", "links");
    let site = Site::start();
    let run = Run::of(&site);
    let command = format!("{links} -http-proxy {PROXY} -https-proxy {PROXY} -source");
    let script = format!("for url; do {command} \"$url\"; done");
    let ended = run
        .client(["sh".to_owned(), "-c".into(), script, "sh".into()].into_iter().chain(site.four()));
    assert_eq!(ended.stdout.matches(WELCOME).count(), 1, "{ended:#?}");
    assert!(
        !ended.stdout.contains(SECRET) && ended.stderr.contains("HTTPS forwarding failed"),
        "{ended:#?}"
    );
    let summary = run.summary();
    let numbers = ["requests", "forwarded", "denied"].map(|name| summary[name].clone());
    assert_eq!(numbers, [2, 1, 1], "{summary}");
    assert_denied(&run.records()[0], &site.url("http", "/private/page"), "Links ");
}

/// By HTTP alone: for HTTPS it takes no proxy.
#[test]
#[ignore = "nightly"]
fn httrack_with_its_option() {
    let httrack = apt("httrack", "httrack");
    let site = Site::start();
    let run = Run::of(&site);
    // Without its own reading of robots.txt, or it would not even ask for the other page.
    let command = format!("{httrack} \"$0\" \"$1\" -q -r1 -n -s0 -P {PROXY} -O mirror");
    let [page, private, ..] = site.four();
    let ended = run.client(["sh".to_owned(), "-c".into(), command, page, private]);
    let summary = run.summary();
    let numbers = ["forwarded", "denied"].map(|name| summary[name].clone());
    assert_eq!(numbers, [1, 1], "{summary} {ended:#?}");
    assert_denied(
        &run.records()[0],
        &site.url("http", "/private/page"),
        "Mozilla/4.5 (compatible; HTTrack",
    );
    assert!(site.seen().iter().all(|seen| seen.path != "/private/page"), "{:#?}", site.seen());
}

#[test]
#[ignore = "nightly"]
fn aria2() {
    let aria2 = apt("aria2c", "aria2");
    let site = Site::start();
    let run = Run::of(&site);
    let fetch = |options: &str| {
        format!(
            "f() {{ rm -f out; {aria2} -q --max-tries=1 {options} --dir=. --out=out \"$1\"; cat out; }}; f"
        )
    };
    run.pages(&format!("eval '{}'", fetch("--ca-certificate=\"$SSL_CERT_FILE\"")), "aria2/");
    run.assert_refuses(&format!("eval '{}'", fetch("")));
}

/// That of Debian 12 follows the proxy for HTTP at port 80 alone: it loses another port on the way to a
/// proxy, and speaks TLS to the proxy itself for HTTPS.
#[test]
#[ignore = "nightly"]
fn wget2() {
    let wget2 = apt("wget2", "wget2");
    inside(|| {
        let site = Site::at_the_usual_ports();
        let run = Run::of(&site).without_loopback();
        let command =
            format!("for url; do {wget2} -qO- --tries=1 --timeout=20 --robots=off \"$url\"; done");
        let ended = run.client(
            ["sh".to_owned(), "-c".into(), command, "sh".into()].into_iter().chain(site.four()),
        );
        assert_eq!(ended.stdout.matches(WELCOME).count(), 1, "{ended:#?}");
        let summary = run.summary();
        let numbers = ["requests", "forwarded", "denied"].map(|name| summary[name].clone());
        assert_eq!(numbers, [2, 1, 1], "{summary}");
        assert_denied(&run.records()[0], &site.url("http", "/private/page"), "wget2/");
        assert!(site.seen().iter().all(|seen| seen.scheme == "http"), "{:#?}", site.seen());
    });
}

#[test]
#[ignore = "nightly"]
fn httpie() {
    let http = apt("http", "httpie");
    let site = Site::start();
    let run = Run::of(&site);
    // It would look for a newer version of itself.
    let config = run.directory().join(".config/httpie");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.json"), "{\"disable_update_warnings\": true}").expect("a file");
    let ended = run.pages(&format!("{http} --ignore-stdin --pretty=none --print=hb"), "HTTPie/");
    assert_eq!(answers(&ended.stdout).len(), 4, "{ended:#?}");
    run.assert_refuses(&format!("{http} --ignore-stdin --body"));
}
