//! Parent proxies: everything to an origin goes by its parent, and what the parent says is never the
//! origin's answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use courtesy::audit::read::Log;
use courtesy::audit::read::verify::verify;
use courtesy::config::{HttpsMode, Settings};
use courtesy::egress::{ParentHttp, ParentResolve};
use courtesy::runtime::clock::monotonic;

use crate::admin::metrics;
use crate::evidence::capture;
use crate::testkit::parties::{
    Does, Origin, Parent, Proxy, Script, Speaks, answer, ok_with, refusing, tls, until,
};
use crate::testkit::spacing::assert_spaced;

const RULES: &str = "User-agent: *\nDisallow: /private/\n";
const ALL: [Speaks; 3] = [Speaks::Http, Speaks::Https, Speaks::Socks5];

/// A page of `origin` by another name.
fn url(origin: &Origin, name: &str, path: &str) -> String {
    format!("http://{name}:{}{path}", origin.address().port())
}

/// A proxy whose connections to these origins are made by `parent`.
fn behind(parent: &Parent, origins: &[&Origin], edit: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::before(origins, |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        settings.egress.connect_timeout = Duration::from_secs(5);
        edit(settings);
    })
}

fn is_up(proxy: &Proxy, parent: &Parent) -> bool {
    let metrics = proxy.admin("/metrics").text();
    let line = metrics.lines().find_map(|line| {
        line.strip_prefix(&format!("courtesy_parent_up{{parent=\"{}\"}} ", parent.url()))
    });
    line.expect("a gauge") == "1"
}

/// Waits until the back-offs are over: of the parent, and of the file behind it.
#[track_caller]
fn serves_again(proxy: &Proxy, url: &str) {
    until("the page is there", || {
        proxy.clock.advance(Duration::from_secs(40));
        proxy.get(url).status() == 200
    });
}

fn with_credentials(settings: &mut Settings, line: &str) {
    let file = settings.state_dir.join("parent.credentials");
    fs::write(&file, line).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    settings.egress.parent_credentials_file = Some(file);
}

#[test]
fn robots_txt_and_pages_go_by_the_parent() {
    for speaks in ALL {
        let (parent, origin) = (Parent::start(speaks), Origin::with_robots(RULES));
        let proxy = behind(&parent, &[&origin], |_| {});
        let authority = format!("localhost:{}", origin.address().port());
        let url = |path: &str| format!("http://{authority}{path}");
        let mut client = proxy.client();
        assert_eq!(client.get(&url("/open")).text(), "this is /open\n", "{speaks:?}");
        client.get(&url("/private/a")).assert_error(403, "http_request_denied");
        assert_eq!(client.get(&url("/more")).status(), 200);
        let asked = parent.asked();
        assert!(!asked.is_empty() && asked.iter().all(|it| *it == authority), "{asked:?}");
        assert_eq!(origin.log().connections, asked.len(), "none is direct");
    }
}

#[test]
fn https_goes_by_the_parent_inside_and_outside_of_tls() {
    for speaks in ALL {
        let (parent, origin) = (Parent::start(speaks), Origin::secure().robots(RULES));
        let proxy = behind(&parent, &[&origin], |_| {});
        let mut client = proxy.https(&origin.authority());
        assert_eq!(client.get("/open").text(), "this is /open\n", "{speaks:?}");
        client.get("/private/a").assert_error(403, "http_request_denied");
        assert_eq!(origin.log().connections, parent.asked().len(), "none is direct");
    }
}

#[test]
fn tunnels_go_by_the_parent() {
    for speaks in ALL {
        let (parent, origin) = (Parent::start(speaks), Origin::secure());
        let proxy = behind(&parent, &[&origin], |settings| {
            settings.https.mode = HttpsMode::Classify;
        });
        let tunnel = proxy.client().tunnel(&origin.authority());
        let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
        let mut client = tunnel.secured(config, tls::host(&origin.authority())).expect("TLS");
        assert_eq!(client.get("/page").text(), "this is /page\n", "{speaks:?}");
        assert_eq!(origin.log().connections, parent.asked().len(), "none is direct");
    }
}

#[test]
fn what_a_parent_answers_says_nothing_of_the_origin() {
    // What was said, and whether the parent itself is at fault.
    let cases: [(Speaks, &[u8], &str, bool); 8] = [
        (Speaks::Http, b"HTTP/1.1 404 Not Found\r\n\r\n", "404", false),
        (Speaks::Http, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n", "403", false),
        (Speaks::Https, b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503", false),
        (Speaks::Http, b"HTTP/1.1 200", "broke off", false),
        (Speaks::Http, b"SSH-2.0-x\r\n\r\n", "not HTTP", true),
        (Speaks::Socks5, &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0], "not allowed", false),
        (Speaks::Socks5, &[5, 0, 0], "broke off", false),
        (Speaks::Socks5, b"", "broke off", false),
    ];
    for (speaks, answer, said, is_down) in cases {
        let (parent, origin) = (Parent::start(speaks), Origin::start());
        parent.does(Does::Answer(answer.to_vec()));
        let proxy = behind(&parent, &[&origin], |_| {});
        let response = proxy.get(&origin.url("/page"));
        // Nothing is known of the origin, and nothing is assumed.
        assert_eq!(response.reason(), "robots_unreachable", "{}", response.text());
        let text = response.text();
        assert!(text.contains(said) && text.contains(&parent.url()), "{said}: {text}");
        assert_eq!(origin.log().connections, 0);
        assert_eq!(is_up(&proxy, &parent), !is_down, "{said}");
        // It serves again, and the origin is as if nothing had been.
        parent.does(Does::Relay);
        serves_again(&proxy, &origin.url("/page"));
        assert!(is_up(&proxy, &parent));
    }
}

#[test]
fn a_page_of_a_known_origin_gets_the_parents_failure() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::with_robots(RULES));
    let proxy = behind(&parent, &[&origin], |settings| {
        settings.egress.idle_timeout = Duration::ZERO;
        settings.egress.connect_timeout = Duration::from_millis(300);
    });
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    parent.does(Does::Answer(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec()));
    let response = proxy.get(&origin.url("/page"));
    response.assert_error(502, "proxy_configuration_error");
    let problem = response.json()["type"].as_str().unwrap_or_default().to_owned();
    assert!(problem.ends_with("/parent-failed"), "{problem}");
    parent.does(Does::Hold);
    proxy.get(&origin.url("/page")).assert_error(504, "proxy_configuration_error");
    // A tunnel as well.
    proxy.get(&origin.url("/private/a")).assert_error(403, "http_request_denied");
}

#[test]
fn a_dead_parent_is_no_reason_to_go_around_it() {
    let origin = Origin::start();
    let (_held, dead) = refusing();
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.egress.parent = Some(format!("http://{dead}").parse().expect("a parent"));
    });
    assert_eq!(proxy.get(&origin.url("/page")).reason(), "robots_unreachable");
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn a_parent_that_is_down_is_not_asked_by_each_request() {
    let origin = Origin::start();
    let (_held, dead) = refusing();
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.egress.parent = Some(format!("http://{dead}").parse().expect("a parent"));
        settings.egress.parents = vec!["direct.localhost=direct".parse().expect("a rule")];
    });
    for number in 0..20 {
        let refused = proxy.get(&url(&origin, &format!("{number}.localhost"), "/page"));
        assert_eq!(refused.reason(), "robots_unreachable");
        assert_eq!(proxy.get(&url(&origin, "direct.localhost", "/page")).status(), 200);
    }
    let failures = format!("courtesy_parent_failures_total{{parent=\"http://{dead}\"}}");
    let failures = metrics(&proxy)[&failures];
    // One, and one more at the end of each back-off, the first of which is a second.
    assert!((1.0..=5.0).contains(&failures), "{failures}");
}

#[test]
fn a_parents_429_is_passed_on_and_is_no_word_of_the_origin() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::with_robots(RULES));
    let proxy =
        behind(&parent, &[&origin], |settings| settings.egress.idle_timeout = Duration::ZERO);
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    parent.does(Does::Answer(b"HTTP/1.1 429 No\r\nRetry-After: 7\r\n\r\n".to_vec()));
    let response = proxy.get(&origin.url("/page"));
    response.assert_error(429, "proxy_configuration_error");
    assert_eq!(response.head.field("retry-after"), Some("7"));
    let status = response.head.field("proxy-status").unwrap_or_default().to_owned();
    let named = format!("next-hop=\"{}\"; received-status=429", parent.url());
    assert!(status.contains(&named), "{status}");
    // Neither the parent nor the origin is left alone for that.
    parent.does(Does::Relay);
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
}

#[test]
fn refused_credentials_are_named_by_readiness() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    parent.requires("crawler:right");
    let proxy = behind(&parent, &[&origin], |settings| with_credentials(settings, "crawler:no\n"));
    assert_eq!(proxy.get(&origin.url("/page")).reason(), "robots_unreachable");
    let ready = proxy.admin("/readyz?verbose");
    assert_eq!(ready.status(), 503, "there is no other way out");
    let told = ready.text();
    assert!(told.contains(&parent.url()) && !told.contains("crawler:no"), "{told}");
    proxy.change(|settings| with_credentials(settings, "crawler:right\n"));
    serves_again(&proxy, &origin.url("/page"));
    assert!(!proxy.admin("/readyz?verbose").text().contains(&parent.url()));
}

#[test]
fn a_request_that_comes_back_by_a_parent_is_refused() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    let proxy = behind(&parent, &[&origin], |_| {});
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    let heads = parent.heads();
    let token = heads[0].lines().find(|line| line.starts_with("courtesy-loop: ")).expect("a token");
    let authority = origin.authority();
    let connect = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{token}\r\n\r\n");
    let refused = proxy.client().send(connect).read_head();
    assert_eq!(refused.status(), 502);
    proxy
        .exchange("GET", &origin.url("/page"), &format!("{token}\r\n"))
        .assert_error(502, "proxy_loop_detected");
    for other in [token.replace(": ", ": x"), format!("courtesy-loop: {}", "0".repeat(32))] {
        let other = format!("{other}\r\n");
        assert_eq!(proxy.exchange("GET", &origin.url("/page"), &other).status(), 200);
    }
    // It is for the parent alone: another proxy's is not passed on.
    assert!(parent.heads().iter().all(|it| it.matches("courtesy-loop").count() == 1));
    assert!(origin.log().requests.iter().all(|it| !it.head.contains("courtesy-loop")));
}

#[test]
fn http_goes_in_absolute_form_where_it_is_set() {
    let page = |path: &str| format!("http://site.invalid:8080{path}");
    let forwarding = |robots: Script| {
        let parent = Origin::start().on(&page("/robots.txt"), robots);
        let proxy = Proxy::before(&[&parent], |settings| {
            let url = format!("http://{}", parent.authority());
            settings.egress.parent = Some(url.parse().expect("a parent"));
            settings.egress.parent_http = ParentHttp::Absolute;
            settings.egress.parent_resolve = ParentResolve::Parent;
            settings.egress.connect_ports.push(8080);
            with_credentials(settings, "crawler:secret\n");
        });
        (parent, proxy)
    };
    let (parent, proxy) = forwarding(ok_with("", RULES));
    assert_eq!(proxy.get(&page("/open")).status(), 200);
    proxy.get(&page("/private/a")).assert_error(403, "http_request_denied");
    let lines = [format!("GET {}", page("/robots.txt")), format!("GET {}", page("/open"))];
    assert_eq!(parent.request_lines(), lines);
    let basic = "Proxy-Authorization: Basic Y3Jhd2xlcjpzZWNyZXQ=";
    assert!(parent.log().requests.iter().all(|it| it.head.contains(basic)));
    // Without a path the origin as a whole is asked for (RFC 9112 §3.2.4), by a kept connection, too.
    let mut client = proxy.client();
    for (target, sent) in [
        ("http://site.invalid:8080", "http://site.invalid:8080"),
        ("http://site.invalid:8080/", "http://site.invalid:8080/"),
        ("http://site.invalid:8080", "http://site.invalid:8080"),
    ] {
        let head = format!("OPTIONS {target} HTTP/1.1\r\nHost: site.invalid:8080\r\n\r\n");
        assert_eq!(client.send(head).read().status(), 200, "{target}");
        assert_eq!(parent.request_lines().pop(), Some(format!("OPTIONS {sent}")));
    }
    // What may be the parent's own word is none of the origin.
    for status in [401, 403, 429, 503] {
        let (_parent, proxy) = forwarding(Script::default().send(answer(status, "", "")));
        assert_eq!(proxy.get(&page("/open")).reason(), "robots_unreachable", "{status}");
    }
    let (_parent, proxy) = forwarding(Script::default().send(answer(404, "", "")));
    assert_eq!(proxy.get(&page("/open")).status(), 200);
}

#[test]
fn the_pace_over_two_parents_is_one() {
    let [first, second] = [Speaks::Http, Speaks::Socks5].map(Parent::start);
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 0.5\n");
    let proxy = behind(&first, &[&origin], |_| {});
    let begun = monotonic();
    assert_eq!(proxy.get(&origin.url("/a")).status(), 200);
    proxy.change(|settings| {
        settings.egress.parent = Some(second.url().parse().expect("a parent"));
    });
    assert_eq!(proxy.get(&origin.url("/b")).status(), 200);
    let arrivals = origin.arrivals();
    assert_spaced(begun, &arrivals, Duration::from_millis(500));
    assert!(!second.asked().is_empty());
}

#[test]
fn a_capture_names_the_parent_that_it_came_by() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::with_robots(RULES));
    let proxy = behind(&parent, &[&origin], |settings| with_credentials(settings, "a:secret\n"));
    let denied = proxy.get(&origin.url("/private/a"));
    let capture = capture(&proxy, &denied.json()["robots"]["capture"]);
    assert_eq!(capture.answers[0].via.as_deref(), Some(parent.url().as_str()));
}

#[test]
fn name_and_password_are_those_of_the_file() {
    for speaks in ALL {
        let (parent, origin) = (Parent::start(speaks), Origin::start());
        parent.requires("crawler:open: sesame");
        let proxy = behind(&parent, &[&origin], |settings| {
            with_credentials(settings, "crawler:wrong\n");
        });
        let refused = proxy.get(&origin.url("/page"));
        assert_eq!(refused.reason(), "robots_unreachable");
        assert!(!refused.text().contains("wrong\""), "{}", refused.text());
        proxy.change(|settings| with_credentials(settings, "crawler:open: sesame\n"));
        serves_again(&proxy, &origin.url("/page"));
    }
}

#[test]
fn hosts_have_another_parent_or_none() {
    let (first, second) = (Parent::start(Speaks::Http), Parent::start(Speaks::Socks5));
    let origin = Origin::start();
    let proxy = behind(&first, &[&origin], |settings| {
        let rules = ["a.localhost=direct".to_owned(), format!("*.localhost={}", second.url())];
        settings.egress.parents = rules.iter().map(|it| it.parse().expect("a rule")).collect();
    });
    for name in ["a.localhost", "b.localhost", "localhost"] {
        assert_eq!(proxy.get(&url(&origin, name, "/page")).status(), 200, "{name}");
    }
    let port = origin.address().port();
    let [to_first, to_second] = [first.asked(), second.asked()];
    assert!(to_first.iter().all(|it| *it == format!("localhost:{port}")), "{to_first:?}");
    assert!(to_second.iter().all(|it| *it == format!("b.localhost:{port}")), "{to_second:?}");
    assert!(!to_first.is_empty() && !to_second.is_empty());
    assert!(origin.log().connections > to_first.len() + to_second.len(), "one is direct");
}

#[test]
fn addresses_are_judged_before_the_parent_is_asked() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    let proxy = behind(&parent, &[&origin], |settings| settings.egress.allow = Vec::new());
    for name in ["localhost", "127.0.0.1"] {
        assert_eq!(proxy.get(&url(&origin, name, "/page")).status(), 403, "{name}");
    }
    // The names and literals of this machine also where the parent resolves.
    proxy.change(|settings| settings.egress.parent_resolve = ParentResolve::Parent);
    for name in ["localhost", "127.0.0.1"] {
        assert_eq!(proxy.get(&url(&origin, name, "/page")).status(), 403, "{name}");
    }
    assert_eq!(parent.asked(), [""; 0]);
    // A name that does not exist here may exist there.
    assert_eq!(proxy.get(&url(&origin, "only-there.invalid", "/page")).status(), 200);
    let port = origin.address().port();
    let authority = format!("only-there.invalid:{port}");
    assert!(parent.asked().iter().all(|it| *it == authority), "{:?}", parent.asked());
}

#[test]
fn a_kept_connection_is_not_used_by_another_parent() {
    let [first, second] = [Speaks::Http, Speaks::Http].map(Parent::start);
    let origin = Origin::start();
    let proxy = behind(&first, &[&origin], |_| {});
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    proxy.change(|settings| {
        settings.egress.parent = Some(second.url().parse().expect("a parent"));
    });
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    assert!(!second.asked().is_empty());
}

#[test]
fn a_parents_retry_after_says_when_robots_txt_is_fetched_again() {
    let robots = Duration::from_secs(1800);
    for (answer, until, text) in [
        ("429 No\r\nRetry-After: 1800", robots, "429"),
        ("503 No\r\nRetry-After: 1800", robots, "503"),
        ("429 No\r\nRetry-After: 99999999", Duration::from_secs(3600), "429"),
        ("403 No\r\nRetry-After: 1800", Duration::from_secs(1), "403"),
        ("429 No\r\nRetry-After: soon", Duration::from_secs(1), "429"),
    ] {
        let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
        parent.does(Does::Answer(format!("HTTP/1.1 {answer}\r\n\r\n").into_bytes()));
        let proxy = behind(&parent, &[&origin], |_| {});
        let refused = proxy.get(&origin.url("/page"));
        assert_eq!(refused.reason(), "robots_unreachable", "{answer}");
        assert!(refused.text().contains(text), "{}", refused.text());
        // The parent is asked for other hosts, and for this one when the time has come.
        parent.does(Does::Relay);
        assert_eq!(proxy.get(&url(&origin, "other.localhost", "/page")).status(), 200);
        proxy.clock.advance(until.mul_f64(0.7));
        assert_eq!(proxy.get(&origin.url("/page")).status(), 403, "{answer}");
        proxy.clock.advance(until.mul_f64(0.4));
        // Nothing holds the origin.
        let page = proxy.get(&origin.url("/page"));
        assert_eq!((page.status(), page.head.field("courtesy-waited")), (200, None), "{answer}");
    }
}

#[test]
fn the_totals_say_how_many_requests_went_by_a_parent() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::with_robots(RULES));
    let mut proxy = behind(&parent, &[&origin], |settings| {
        settings.egress.parents = vec!["direct.localhost=direct".parse().expect("a rule")];
    });
    for path in ["/a", "/b", "/private/c"] {
        proxy.get(&origin.url(path));
    }
    assert_eq!(proxy.get(&url(&origin, "direct.localhost", "/a")).status(), 200);
    proxy.stop();
    let lines = proxy.lines();
    let totals = lines.iter().find(|line| line["event"] == "totals").expect("totals");
    assert_eq!((&totals["allowed"], &totals["by_parent"]), (&3.into(), &2.into()), "{totals}");
    let verified = verify(&Log::Dir(proxy.audit_dir()), &[], true, &mut |_, _| {});
    assert_eq!(verified.expect("a log").faults.count, 0);
}
