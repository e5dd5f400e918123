//! Programs that follow no variable, in a network where the site is not on loopback: the site sees them
//! come without the proxy, and `courtesy run` says so.

use crate::clients::support::{Run, Site, apt, inside, program, python};

/// Runs `client`, which asks for the site's page by HTTP and goes around.
#[track_caller]
fn assert_goes_around(client: &[&str]) {
    let site = Site::elsewhere();
    let run = Run::of(&site).without_loopback();
    let url = site.url("http", "/page");
    let ended = run.client(client.iter().copied().chain([url.as_str()]));
    let seen = site.seen();
    assert!(seen.iter().any(|seen| seen.path == "/page" && !seen.by_proxy), "{seen:#?} {ended:#?}");
    let summary = run.summary();
    assert_eq!(summary["requests"], 0, "{summary}");
    assert!(
        summary["warning"].as_str().is_some_and(|warning| warning.contains("no request came")),
        "{summary}"
    );
}

#[test]
#[ignore = "nightly"]
fn python_http_client() {
    inside(|| {
        assert_goes_around(&[&python("http.client"), &program("fetch_http_client.py")]);
    });
}

#[test]
#[ignore = "nightly"]
fn urllib3_as_it_comes() {
    inside(|| {
        assert_goes_around(&[&python("urllib3"), &program("fetch_urllib3.py"), "--as-it-comes"]);
    });
}

#[test]
#[ignore = "nightly"]
fn tornado_as_it_comes() {
    inside(|| {
        assert_goes_around(&[&python("tornado"), &program("fetch_tornado.py")]);
    });
}

#[test]
#[ignore = "nightly"]
fn links_as_it_comes() {
    let links = apt("links", "links");
    inside(|| assert_goes_around(&[&links, "-source"]));
}

#[test]
#[ignore = "nightly"]
fn httrack_as_it_comes() {
    let httrack = apt("httrack", "httrack");
    inside(|| assert_goes_around(&[&httrack, "-q", "-r1", "-O", "mirror"]));
}
