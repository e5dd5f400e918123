//! What becomes of a request whose parent proxy is slow, hostile, or behind a hostile origin.

use std::time::Duration;

use courtesy::audit::read::Log;
use courtesy::audit::read::replay::{Replay, Replayed};
use courtesy::audit::read::verify::verify;
use courtesy::config::{HttpsMode, Settings};
use courtesy::egress::{ParentHttp, ParentResolve};
use courtesy::policy::profile;
use courtesy::runtime::clock::monotonic;

use crate::evidence::capture;
use crate::testkit::parties::{
    Does, Origin, Parent, Proxy, Script, Speaks, answer, connect, ok_with, until,
};

const LIMIT: Duration = Duration::from_millis(300);

/// Shorter than a fetch of robots.txt may take: what takes longer did not meet its own deadline.
const AT_ONCE: Duration = Duration::from_secs(8);

/// A proxy whose connections are made by `parent`, each within [`LIMIT`].
fn behind(parent: &Parent, origin: &Origin) -> Proxy {
    Proxy::before(&[origin], |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        settings.egress.connect_timeout = LIMIT;
        settings.egress.idle_timeout = Duration::ZERO;
    })
}

#[test]
fn a_slow_connect_meets_the_deadline() {
    for speaks in [Speaks::Http, Speaks::Https, Speaks::Socks5] {
        let (parent, origin) = (Parent::start(speaks), Origin::secure());
        let proxy = behind(&parent, &origin);
        parent.does(Does::Hold);
        let began = monotonic();
        let refused = proxy.https(&origin.authority()).get("/page");
        assert_eq!(refused.reason(), "robots_unreachable", "{speaks:?}");
        assert!(refused.text().contains("no answer within 300ms"), "{}", refused.text());
        parent.does(Does::Relay);
        until("robots.txt is there", || {
            proxy.clock.advance(Duration::from_secs(40));
            proxy.https(&origin.authority()).get("/page").status() == 200
        });
        parent.does(Does::Hold);
        let late = proxy.https(&origin.authority()).get("/page");
        late.assert_error(504, "proxy_configuration_error");
        assert!(monotonic() - began < AT_ONCE, "{speaks:?}");
    }
}

#[test]
fn a_connection_that_a_parent_has_closed_is_made_anew() {
    for speaks in [Speaks::Http, Speaks::Https, Speaks::Socks5] {
        let (parent, origin) = (Parent::start(speaks), Origin::start());
        let proxy = behind(&parent, &origin);
        proxy.change(|settings| {
            settings.egress.idle_timeout = Duration::from_secs(30);
            settings.egress.connect_timeout = Duration::from_secs(5);
        });
        let mut client = proxy.client();
        for _ in 0..3 {
            assert_eq!(client.get(&origin.url("/page")).status(), 200, "{speaks:?}");
            let asked = parent.asked().len();
            assert_eq!(client.get(&origin.url("/page")).status(), 200);
            assert_eq!(parent.asked().len(), asked, "it is kept");
            origin.close_connections();
        }
    }
}

#[test]
fn a_denial_for_a_failed_parent_is_decided_alike_again() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    let proxy = behind(&parent, &origin);
    parent.does(Does::Answer(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec()));
    let denied = proxy.get(&origin.url("/page"));
    assert_eq!(denied.reason(), "robots_unreachable");
    let failure = capture(&proxy, &denied.json()["robots"]["failed_capture"]).failure;
    let failure = failure.expect("a failure");
    assert_eq!(failure.word, "parent_failed");
    assert_eq!((failure.via, failure.parent_status), (Some(parent.url()), Some(403)));
    let record = serde_json::from_value(proxy.record()).expect("a record");
    let mut replay = Replay::recorded(&proxy.audit_dir(), |name, version, changes| {
        profile::recorded(name, version, changes)
    });
    assert_eq!(replay.again(&record), Replayed::Same);
    let verified = verify(&Log::Dir(proxy.audit_dir()), &[], true, &mut |_, _| {});
    assert_eq!(verified.expect("a log").faults.count, 0);
}

#[test]
fn a_hostile_parent_ends_a_request_in_bounded_time() {
    let endless = |piece: &str| piece.repeat(100_000).into_bytes();
    let mut headers = b"HTTP/1.1 200 OK\r\n".to_vec();
    headers.extend(endless("a: b\r\n"));
    let cases = [
        (Speaks::Http, headers),
        (Speaks::Http, endless("HTTP/1.1 100 Continue\r\n\r\n")),
        (Speaks::Http, endless("x")),
        (Speaks::Http, b"HTTP/1.1 099 No\r\n\r\n".to_vec()),
        (Speaks::Http, b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".to_vec()),
        (Speaks::Https, b"HTTP/1.1 429 No\r\nRetry-After: 99999999999999999999\r\n\r\n".to_vec()),
        (Speaks::Socks5, endless("\u{5}")),
        (Speaks::Socks5, vec![5, 0, 0, 3, 255, b'a']),
    ];
    // Back-offs take their time.
    std::thread::scope(|scope| {
        for (speaks, answer) in cases {
            scope.spawn(move || assert_bounded(speaks, answer));
        }
    });
}

/// That a request fails soon whose parent sends `answer`, and a later one is served.
#[track_caller]
fn assert_bounded(speaks: Speaks, answer: Vec<u8>) {
    let (parent, origin) = (Parent::start(speaks), Origin::secure());
    let proxy = behind(&parent, &origin);
    let said = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
    parent.does(Does::Answer(answer));
    let began = monotonic();
    let refused = proxy.https(&origin.authority()).get("/page");
    assert_eq!(refused.reason(), "robots_unreachable", "{said}");
    assert!(monotonic() - began < AT_ONCE, "{said}");
    parent.does(Does::Relay);
    // The longest Retry-After that counts. The back-off goes by the true clock.
    proxy.clock.advance(Duration::from_secs(3601));
    until("it serves again", || {
        proxy.clock.advance(Duration::from_secs(10));
        proxy.https(&origin.authority()).get("/page").status() == 200
    });
}

/// What an origin answers must not close its parent for others.
#[test]
fn an_origins_407_does_not_stop_a_forwarding_parent() {
    let page = |name: &str, path: &str| format!("http://{name}.invalid{path}");
    let hostile = || Script::default().send(answer(407, "", ""));
    let parent = Origin::start().on(&page("bad", "/robots.txt"), hostile());
    let parent = parent.on(&page("worse", "/robots.txt"), ok_with("", ""));
    let parent = parent.on(&page("worse", "/page"), hostile());
    let proxy = Proxy::before(&[&parent], |settings: &mut Settings| {
        settings.egress.parent = Some(format!("http://{}", parent.authority()).parse().unwrap());
        settings.egress.parent_http = ParentHttp::Absolute;
        settings.egress.parent_resolve = ParentResolve::Parent;
    });
    let up = format!("courtesy_parent_up{{parent=\"http://{}\"}} 1", parent.authority());
    let named = || proxy.admin("/readyz?verbose").text().contains(&parent.authority());
    assert_eq!(proxy.get(&page("bad", "/page")).reason(), "robots_unreachable");
    assert!(named(), "it has answered nothing else yet");
    for _ in 0..2 {
        proxy.get(&page("worse", "/page")).assert_error(502, "proxy_configuration_error");
        assert!(!named(), "another origin was served with the same credentials");
    }
    assert!(proxy.admin("/metrics").text().contains(&up));
    assert_eq!(proxy.get(&page("good", "/page")).status(), 200);
}

#[test]
fn a_tunnel_by_a_failing_parent_is_refused_with_its_name() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::secure());
    let proxy = behind(&parent, &origin);
    proxy.change(|settings| {
        settings.https.mode = HttpsMode::Classify;
        settings.egress.connect_timeout = Duration::from_secs(5);
    });
    let authority = origin.authority();
    assert_eq!(proxy.client().send(connect(&authority, "")).read_head().status(), 200);
    parent.does(Does::Answer(b"HTTP/1.1 503 No\r\nRetry-After: 99999999\r\n\r\n".to_vec()));
    let refused = proxy.client().send(connect(&authority, "")).read_head();
    assert_eq!(refused.status(), 502);
    let status = refused.field("proxy-status").unwrap_or_default();
    assert_eq!(refused.field("retry-after"), Some("3600"));
    assert!(status.contains(&parent.url()) && status.contains("received-status=503"), "{status}");
}

/// What squid, tinyproxy and others answer where they permit CONNECT to port 443 alone, or ask for a
/// password. All ports of these origins are others.
#[test]
fn a_parent_that_refuses_whatever_is_asked_for_is_named_with_what_to_do() {
    for (what, answer, words) in [
        (
            "squid",
            "HTTP/1.1 403 Forbidden\r\nServer: squid/5.7\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n\r\n",
            "X-Squid-Error: ERR_ACCESS_DENIED 0): set egress.parent_http = \"absolute\"",
        ),
        ("tinyproxy", "HTTP/1.0 403 Access violation\r\n\r\n", "ConnectPort"),
        ("apache", "HTTP/1.1 405 Method Not Allowed\r\n\r\n", "refuses CONNECT to port"),
        (
            "tinyproxy with users",
            "HTTP/1.0 401 Unauthorized\r\nServer: tinyproxy/1.8.3\r\n\r\n",
            "egress.parent_credentials_file (401)",
        ),
        ("any", "HTTP/1.1 407 No\r\n\r\n", "egress.parent_credentials_file (407)"),
    ] {
        let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
        let proxy = behind(&parent, &origin);
        parent.does(Does::Answer(answer.as_bytes().to_vec()));
        let refused = proxy.get(&origin.url("/page"));
        let text = refused.text().replace("\\\"", "\"");
        assert!(text.contains(words), "{what}: {text}");
        let ready = proxy.admin("/readyz");
        assert_eq!(ready.status(), 503, "{what}: its only parent refuses");
        assert_eq!(ready.json()["reasons"][0]["part"], "parent", "{what}");
        let problem = ready.json()["reasons"][0]["problem"].to_string().replace("\\\"", "\"");
        assert!(problem.contains(words), "{what}: {problem}");
        parent.does(Does::Relay);
        until("it serves again", || {
            proxy.clock.advance(Duration::from_secs(40));
            proxy.get(&origin.url("/page")).status() == 200
        });
        assert_eq!(proxy.admin("/readyz").status(), 200, "{what}");
        // Once it has opened a tunnel, a refusal is of one host.
        parent.does(Does::Answer(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec()));
        let other = Origin::start();
        let _ = proxy.get(&other.url("/page"));
        assert_eq!(proxy.admin("/readyz").status(), 200, "{what}");
    }
}

/// Other hosts have another way.
#[test]
fn a_parent_that_refuses_beside_another_way_leaves_the_proxy_ready() {
    let (parent, origin) = (Parent::start(Speaks::Http), Origin::start());
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        settings.egress.parents = vec!["other.example=direct".parse().expect("a rule")];
    });
    parent.does(Does::Answer(b"HTTP/1.1 407 No\r\n\r\n".to_vec()));
    let _ = proxy.get(&origin.url("/page"));
    let ready = proxy.admin("/readyz");
    assert_eq!((ready.status(), ready.json()["status"].as_str()), (200, Some("degraded")));
}
