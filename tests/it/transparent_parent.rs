//! Redirected connections where a parent proxy makes the connections to origins.

use courtesy::config::{HttpsMode, Settings};

use crate::testkit::parties::{Does, Origin, Parent, Proxy, Speaks, tls};
use crate::transparent::{Transparent, before};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";
const ALL: [Speaks; 3] = [Speaks::Http, Speaks::Https, Speaks::Socks5];

fn behind(
    parent: &Parent,
    origin: &Origin,
    edit: impl FnOnce(&mut Settings),
) -> (Proxy, Transparent) {
    before(origin, |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        edit(settings);
    })
}

/// That every connection to `origin` was made by `parent`, by the name that the client sent.
#[track_caller]
fn assert_by(parent: &Parent, origin: &Origin, authority: &str) {
    let asked = parent.asked();
    assert!(!asked.is_empty() && asked.iter().all(|it| it == authority), "{asked:?}");
    assert_eq!(origin.log().connections, asked.len(), "none is direct");
}

#[test]
fn redirected_requests_go_by_the_parent() {
    for speaks in ALL {
        let (parent, origin) = (Parent::start(speaks), Origin::with_robots(RULES));
        let (proxy, network) = behind(&parent, &origin, |_| {});
        let authority = format!("localhost:{}", origin.address().port());
        let mut client = network.connect();
        let page = client.send(network.get(&authority, "/page")).read();
        assert_eq!(page.text(), "this is /page\n", "{speaks:?}");
        assert_eq!(client.send(network.get(&authority, "/private/x")).read().status(), 403);
        assert_eq!(proxy.record()["reason"], "disallow_rule");
        assert_by(&parent, &origin, &authority);
    }
}

#[test]
fn redirected_tls_goes_by_the_parent_intercepted_and_tunnelled() {
    for speaks in ALL {
        for mode in [HttpsMode::Intercept, HttpsMode::Classify] {
            let (parent, origin) = (Parent::start(speaks), Origin::secure());
            let (proxy, network) = behind(&parent, &origin, |settings| settings.https.mode = mode);
            let authority = format!("localhost:{}", origin.address().port());
            let config = match mode {
                HttpsMode::Intercept => proxy.trusted(&["http/1.1"]),
                HttpsMode::Classify => tls::trusting(tls::origins_ca(), &["http/1.1"]),
            };
            let client = network.connect().secured(config, tls::host(&authority));
            let mut client = client.expect("TLS");
            let page = client.send(network.get(&authority, "/page")).read();
            assert_eq!(page.text(), "this is /page\n", "{speaks:?} {mode:?}");
            assert_by(&parent, &origin, &authority);
        }
    }
}

/// Not even a false Host has the parent connect to what the proxy itself would not.
#[test]
fn a_parent_is_not_asked_for_a_refused_address() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    let (_proxy, network) = behind(&parent, &origin, |settings| settings.egress.allow.clear());
    let port = origin.address().port();
    for host in ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]"] {
        let request = network.get(&format!("{host}:{port}"), "/");
        assert_eq!(network.connect().send(request).read().status(), 403, "{host}");
    }
    assert_eq!(parent.asked(), [""; 0]);
}

#[test]
fn a_parent_that_refuses_ends_a_redirected_tunnel_with_an_alert() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::secure());
    parent.does(Does::Answer(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec()));
    let (proxy, network) =
        behind(&parent, &origin, |settings| settings.https.mode = HttpsMode::Classify);
    let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
    let refused = network.connect().secured(config, "localhost");
    assert!(format!("{:?}", refused.err()).contains("AccessDenied"), "an alert");
    assert_eq!(proxy.record()["reason"], "robots_unreachable");
    assert_eq!(origin.log().connections, 0);
}
