//! Parent proxies: everything to an origin goes by its parent, and what the parent says is never the
//! origin's answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use courtesy::config::{HttpsMode, Settings};
use courtesy::egress::ParentResolve;

use crate::testkit::parties::{Does, Origin, Parent, Proxy, Speaks, connect, refusing, tls};

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
    let cases: [(Speaks, &[u8], &str); 8] = [
        (Speaks::Http, b"HTTP/1.1 404 Not Found\r\n\r\n", "404"),
        (Speaks::Http, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n", "403"),
        (Speaks::Https, b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503"),
        (Speaks::Http, b"HTTP/1.1 200", "broke off"),
        (Speaks::Http, b"SSH-2.0-x\r\n\r\n", "not HTTP"),
        (Speaks::Socks5, &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0], "does not allow"),
        (Speaks::Socks5, &[5, 0, 0], "broke off"),
        (Speaks::Socks5, b"", "broke off"),
    ];
    for (speaks, answer, said) in cases {
        let (parent, origin) = (Parent::start(speaks), Origin::start());
        parent.does(Does::Answer(answer.to_vec()));
        let proxy = behind(&parent, &[&origin], |_| {});
        let response = proxy.get(&origin.url("/page"));
        // Nothing is known of the origin, and nothing is assumed.
        assert_eq!(response.reason(), "undecided", "{}", response.text());
        let text = response.text();
        assert!(text.contains(said) && text.contains(&parent.url()), "{said}: {text}");
        assert_eq!(origin.log().connections, 0);
        let metrics = proxy.admin("/metrics").text();
        let up = format!("courtesy_parent_up{{parent=\"{}\"}} 0", parent.url());
        assert!(metrics.contains(&up), "{metrics}");
        // It serves again, and the origin is as if nothing had been.
        parent.does(Does::Relay);
        assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
        let up = format!("courtesy_parent_up{{parent=\"{}\"}} 1", parent.url());
        assert!(proxy.admin("/metrics").text().contains(&up));
    }
}

#[test]
fn a_page_of_a_known_origin_gets_the_parents_failure() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::with_robots(RULES));
    let proxy = behind(&parent, &[&origin], |settings| {
        settings.egress.max_idle = 0;
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
    assert_eq!(proxy.get(&origin.url("/page")).reason(), "undecided");
    assert_eq!(origin.log().connections, 0);
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
        assert_eq!(refused.reason(), "undecided");
        assert!(!refused.text().contains("wrong\""), "{}", refused.text());
        proxy.change(|settings| with_credentials(settings, "crawler:open: sesame\n"));
        assert_eq!(proxy.get(&origin.url("/page")).status(), 200, "{speaks:?}");
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
    // Pinned, the parent sees no name.
    proxy.change(|settings| {
        settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")];
        settings.egress.parent_resolve = ParentResolve::Pin;
    });
    assert_eq!(proxy.get(&url(&origin, "localhost", "/page")).status(), 200);
    assert_eq!(parent.asked().pop(), Some(format!("127.0.0.1:{port}")));
}

#[test]
fn the_proxy_is_no_parent_of_itself() {
    let origin = Origin::start();
    let proxy = Proxy::before(&[&origin], |_| {});
    let own = format!("http://{}", proxy.address());
    proxy.change(|settings| settings.egress.parent = Some(own.parse().expect("a parent")));
    let response = proxy.get(&origin.url("/page"));
    assert_eq!(response.reason(), "undecided");
    assert!(response.text().contains("this proxy itself"), "{}", response.text());
    assert_eq!(proxy.client().send(connect("127.0.0.1:25", "")).read_head().status(), 403);
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
