//! Clients with GnuTLS, which look at the certificate when the handshake is over: one that does not trust it leaves
//! without an alert. And one that leaves although it trusts it.

use std::fs;

use crate::clients::support::{
    MAYBE_DISTRUST, Run, Site, WELCOME, answers, apt, node, with_modules,
};

/// What names the remedy where the client had the variables.
const OWN_SETTING: &str =
    "takes its CAs from its own setting, not from the variables of `courtesy run`";

/// Runs `client` for the page, by HTTPS: it gets nothing, and the log says once who distrusts what, and the remedy.
#[track_caller]
fn assert_named(run: &Run<'_>, site: &Site, client: &[&str]) {
    let url = site.url("https", "/page");
    let ended = run.client(client.iter().copied().chain([&*url]));
    assert!(!ended.stdout.contains(WELCOME), "{ended:#?}");
    let warnings: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains(MAYBE_DISTRUST)).collect();
    let [warning] = warnings[..] else { panic!("{ended:#?}") };
    let origin = site.url("https", "");
    for named in ["127.0.0.1", &origin, OWN_SETTING] {
        assert!(warning.contains(named), "{named}: {warning}");
    }
    let seen = site.seen();
    assert!(seen.iter().all(|seen| seen.path != "/page"), "{seen:#?}");
}

/// Runs `client` for the page: it gets it, and nothing is said.
#[track_caller]
fn assert_served(run: &Run<'_>, site: &Site, client: &[&str]) {
    let url = site.url("https", "/page");
    let ended = run.client(client.iter().copied().chain([&*url]));
    let file = fs::read_to_string(run.directory().join("page")).unwrap_or_default();
    assert!(ended.stdout.contains(WELCOME) || file.contains(WELCOME), "{ended:#?}");
    assert!(!ended.stderr.contains("CA"), "{ended:#?}");
}

#[test]
fn wget_without_trust() {
    apt("wget", "wget");
    let site = Site::start();
    let wget = ["wget", "-q", "--tries=1", "--timeout=20", "-O-"];
    assert_named(&Run::of(&site), &site, &[&["env", "-u", "WGETRC"], &wget[..]].concat());
    assert_served(&Run::of(&site), &site, &wget);
}

#[test]
#[ignore = "nightly"]
fn git_without_trust() {
    apt("git", "git");
    let site = Site::start();
    assert_named(&Run::of(&site), &site, &["env", "-u", "GIT_SSL_CAINFO", "git", "ls-remote"]);
}

#[test]
#[ignore = "nightly"]
fn aria2_without_trust() {
    apt("aria2c", "aria2");
    let site = Site::start();
    let aria2 = "aria2c --quiet --allow-overwrite=true --max-tries=1";
    assert_named(&Run::of(&site), &site, &aria2.split(' ').collect::<Vec<_>>());
    let trusting = format!("{aria2} --ca-certificate=\"$SSL_CERT_FILE\" \"$0\"");
    assert_served(&Run::of(&site), &site, &["sh", "-c", &trusting]);
}

#[test]
#[ignore = "nightly"]
fn lynx_without_trust() {
    apt("lynx", "lynx");
    let site = Site::start();
    let lynx = ["lynx", "-dump"];
    assert_named(&Run::of(&site), &site, &[&["env", "-u", "SSL_CERT_FILE"], &lynx[..]].concat());
    assert_served(&Run::of(&site), &site, &lynx);
}

#[test]
#[ignore = "nightly"]
fn pycurl_without_trust() {
    let script = "import os, sys, pycurl\n\
                  curl = pycurl.Curl()\n\
                  curl.setopt(pycurl.URL, sys.argv[2])\n\
                  sys.argv[1] and curl.setopt(pycurl.CAINFO, os.environ[sys.argv[1]])\n\
                  curl.perform()";
    let python = apt("/usr/bin/python3", "python3-pycurl");
    let site = Site::start();
    assert_named(&Run::of(&site), &site, &[&python, "-c", script, ""]);
    assert_served(&Run::of(&site), &site, &[&python, "-c", script, "CURL_CA_BUNDLE"]);
}

/// It opens TLS once only to see whether there is HTTP/2, and closes that connection.
#[test]
#[ignore = "nightly"]
fn crawlee() {
    let site = Site::start();
    let run = Run::of(&site);
    let crawlee = [node(), with_modules("crawlee.mjs", run.directory())];
    let ended = run.client(crawlee.into_iter().chain(site.four()));
    let statuses: Vec<_> = answers(&ended.stdout).iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 403, 200, 403], "{ended:#?}");
    assert!(!ended.stderr.contains("CA"), "nothing is said of trust: {ended:#?}");
    assert_eq!(run.records().len(), 2);
}
