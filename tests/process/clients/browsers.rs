//! Debian's Chromium, driven by Playwright, Puppeteer and Selenium, and its Firefox. They take the way from
//! the variables, and trust only what is in an NSS database: of the user, or of the profile.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::clients::support::{
    DISTRUST, Ended, Run, Site, WELCOME, answers, apt, assert_denied, end, inside, node, program,
    python, with_modules,
};

/// The trust that a user gives: once, with certutil.
#[track_caller]
fn trust(run: &Run<'_>) {
    trust_in(run, &run.directory().join(".pki/nssdb"));
}

/// In the database of this directory.
#[track_caller]
fn trust_in(run: &Run<'_>, database: &Path) {
    let certutil = apt("certutil", "libnss3-tools");
    let authority = run.directory().join("ca.pem");
    fs::create_dir_all(database).expect("a directory");
    let exported = run.courtesy(&["ca", "export"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    fs::write(&authority, exported.stdout).expect("a file");
    let database = format!("sql:{}", database.display());
    let add = ["-d", &database, "-A", "-n", "courtesy", "-t", "C,,", "-i"];
    let added = end(run.command(&certutil).args(add).arg(&authority));
    assert_eq!(added.code, Some(0), "{added:#?}");
}

/// Puppeteer, with Debian's Chromium.
#[test]
#[ignore = "nightly"]
fn puppeteer() {
    apt("chromium", "chromium");
    let site = Site::start();
    let run = Run::of(&site);
    trust(&run);
    let client = [node(), with_modules("puppeteer.mjs", run.directory())];
    assert_browser(&site, &run, &run.client(client.into_iter().chain(site.four())), "Mozilla/5.0 ");
}

/// Debian's Firefox, driven by Puppeteer (WebDriver BiDi), in a profile that trusts the CA.
#[test]
#[ignore = "nightly"]
fn firefox() {
    apt("firefox-esr", "firefox-esr");
    let site = Site::start();
    let run = Run::of(&site);
    let profile = run.directory().join("profile");
    trust_in(&run, &profile);
    let client =
        [node(), with_modules("firefox.mjs", run.directory()), profile.display().to_string()];
    assert_browser(&site, &run, &run.client(client.into_iter().chain(site.four())), "Mozilla/5.0 ");
}

/// What a browser showed of [`Site::four`], what the site saw, and the records of its requests: it has
/// others of its own.
#[track_caller]
fn assert_browser(site: &Site, run: &Run<'_>, ended: &Ended, user_agent: &str) {
    let answers = answers(&ended.stdout);
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 403, 200, 403], "{ended:#?}");
    for pair in answers.chunks(2) {
        assert!(
            pair[0].body.contains(WELCOME) && pair[1].body.contains("Disallow: /private/"),
            "{answers:#?}"
        );
    }
    let urls = site.four();
    let host = urls[0]
        .split('/')
        .nth(2)
        .and_then(|authority| authority.split(':').next())
        .unwrap_or_default();
    let ours = |record: &Value| {
        let url = record["url"].as_str().unwrap_or_default();
        url.contains(host) && url.ends_with("/page")
    };
    let records: Vec<_> = run.records().into_iter().filter(ours).collect();
    assert_eq!(records.len(), 2, "{records:#?}");
    for (record, url) in records.iter().zip([&urls[1], &urls[3]]) {
        assert_denied(record, url, user_agent);
    }
    let seen = site.seen();
    assert!(seen.iter().all(|seen| seen.path == "/robots.txt" || seen.by_proxy), "{seen:#?}");
    assert!(seen.iter().all(|seen| !seen.path.starts_with("/private/")), "{seen:#?}");
}

/// Two hosts in one session, for NSS takes no two certificates of one issuer with the same serial.
#[test]
fn chromium() {
    apt("chromium", "chromium");
    let site = Site::start();
    let run = Run::of(&site);
    trust(&run);
    let urls =
        [&site.four()[..], &["/page", "/private/page"].map(|path| site.other_url("https", path))];
    let urls = urls.concat();
    let client = [node(), with_modules("chromium.mjs", run.directory())];
    let ended = run.client(client.into_iter().chain(urls.clone()));
    let answers = answers(&ended.stdout);
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 403, 200, 403, 200, 403], "{ended:#?}");

    let ours =
        |record: &Value| record["url"].as_str().is_some_and(|url| url.contains(".localhost:"));
    let records: Vec<_> = run.records().into_iter().filter(ours).collect();
    for (answer, url) in answers.iter().zip(&urls) {
        if answer.status == 200 {
            assert!(answer.body.contains(WELCOME), "{answer:#?}");
        } else {
            let record = records.iter().find(|record| record["id"] == *answer.record);
            let record = record.unwrap_or_else(|| panic!("no record {answer:#?} in {records:#?}"));
            assert_denied(record, url, "Mozilla/5.0 ");
            assert!(answer.body.contains("Disallow: /private/"), "{answer:#?}");
        }
    }
    assert_eq!(records.len(), 3, "{records:#?}");
    assert!(
        site.seen().iter().all(|seen| !seen.path.starts_with("/private/")),
        "{:#?}",
        site.seen()
    );
}

/// Without trust, a page is an error that names it.
#[test]
fn chromium_without_trust() {
    apt("chromium", "chromium");
    let site = Site::start();
    let run = Run::of(&site);
    let ended = run.client([
        node(),
        with_modules("chromium.mjs", run.directory()),
        site.url("https", "/page"),
    ]);
    assert!(ended.stderr.contains("ERR_CERT_AUTHORITY_INVALID"), "{ended:#?}");
    assert!(ended.stderr.contains(DISTRUST), "{ended:#?}");
    assert_eq!(site.seen(), [], "nothing was asked for");
}

/// As it comes: its driver is a service on localhost, which is outside the proxy, and the site is not.
#[test]
#[ignore = "nightly"]
fn selenium() {
    inside(|| {
        apt("chromedriver", "chromium-driver");
        let site = Site::elsewhere();
        let run = Run::of(&site).without_loopback();
        trust(&run);
        let urls = site.four();
        let ended = run.client(
            [python("selenium"), program("fetch_selenium.py")].into_iter().chain(urls.clone()),
        );
        assert_browser(&site, &run, &ended, "Mozilla/5.0 ");
        assert_eq!(run.summary()["proxy_loopback"], false);
    });
}
