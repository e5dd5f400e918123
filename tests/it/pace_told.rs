//! What clients and records say of waits.

use std::time::Duration;

use courtesy::config::{Exemption, HttpsMode, MixedHosts};
use courtesy::policy::exemption::OriginPattern;
use serde_json::Value;

use crate::admin::metrics;
use crate::testkit::parties::{NOW, Origin, Proxy, Script, answer, connect};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// That it waited for the record in the second line.
#[track_caller]
fn assert_told(waited: Option<&str>) {
    let waited = waited.expect("it waited");
    assert!(waited.ends_with(";by=crawl_delay;line=2"), "{waited}");
}

#[test]
fn each_response_to_a_request_that_waited_says_so() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 0.3\n")
        .on("/socket", Script::default().send(SWITCH).echo())
        .on("/reset", Script::default().reset());
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    let mut socket = proxy.client();
    let head = socket.ask("GET", &origin.url("/socket"), UPGRADE).read_head();
    assert_eq!(head.status(), 101);
    assert_told(head.field("courtesy-waited"));
    let failed = proxy.get(&origin.url("/reset"));
    failed.assert_error(502, "");
    assert_told(failed.field("courtesy-waited"));
}

#[test]
fn a_tunnel_says_that_it_waited_and_its_records_that_the_pace_is_not_seen() {
    let origin = Origin::secure().robots("User-agent: *\nCrawl-delay: 0.3\nDisallow: /private/\n");
    let mut proxy = Proxy::before(&[&origin], |settings| {
        settings.https.mode = HttpsMode::Classify;
        settings.https.mixed = MixedHosts::Tunnel;
    });
    let mut heads = (0..2).map(|_| {
        let mut client = proxy.client();
        client.send(connect(&origin.authority(), "")).read_head()
    });
    let [first, second] = [heads.next(), heads.next()].map(Option::unwrap);
    assert_eq!((first.status(), first.field("courtesy-waited")), (200, None));
    assert_eq!(second.status(), 200);
    assert_told(second.field("courtesy-waited"));
    drop(heads);
    proxy.stop();
    let of = |event: &str| -> Vec<Value> {
        proxy.lines().into_iter().filter(|line| line["event"] == event).collect()
    };
    let (tunnels, paced) = (of("tunnelled"), of("paced"));
    assert_eq!((tunnels.len(), paced.len()), (2, 1));
    assert!(tunnels.iter().chain(&paced).all(|line| line["pace_seen"] == false), "{tunnels:?}");
}

#[test]
fn requests_without_a_delay_say_nothing_of_the_pace_in_their_records() {
    let origin = Origin::secure().robots("User-agent: *\nDisallow: /private/\n");
    let mut proxy = Proxy::before(&[&origin], |settings| {
        settings.https.mode = HttpsMode::Classify;
        settings.https.mixed = MixedHosts::Tunnel;
    });
    drop(proxy.client().tunnel(&origin.authority()));
    proxy.stop();
    assert_eq!(proxy.record()["pace_seen"], Value::Null);
}

#[test]
fn a_hold_that_is_short_is_not_blamed_for_a_long_delay() {
    let busy = answer(429, "Retry-After: 1\r\n", "");
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 30\n")
        .on("/busy", Script::default().send(busy));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/busy")).status(), 429);
    let refused = proxy.exchange("GET", &origin.url("/"), "Prefer: wait=5\r\n");
    refused.assert_error(429, "http_request_error");
    assert_eq!(refused.json()["type"], "http://courtesy.internal/problems/paced");
    let told = refused.field("proxy-status").expect("why");
    let why = "courtesy; error=http_request_error; details=\"the robots.txt asks for 30s";
    assert!(told.starts_with(why) && told.ends_with("(pace.max_wait)\""), "{told}");
    let after: u64 = refused.field("retry-after").expect("a time").parse().expect("seconds");
    assert!((29..=30).contains(&after), "{after}");
    let held = proxy.exchange("GET", &origin.url("/"), "Prefer: wait=0\r\n");
    held.assert_error(429, "destination_unavailable");
    assert_eq!(held.field("retry-after"), Some("1"));
}

#[test]
fn a_preference_to_wait_is_passed_on() {
    let (origin, proxy) = (Origin::start(), Proxy::start());
    let fields = "Prefer: wait=30, respond-async\r\n";
    assert_eq!(proxy.exchange("GET", &origin.url("/"), fields).status(), 200);
    assert_eq!(origin.received("/").field("prefer"), Some("wait=30, respond-async"));
}

#[test]
fn a_request_that_is_decided_on_twice_is_counted_and_recorded_once() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 1.2\nDisallow: /private/\n");
    let mut proxy = Proxy::with(|settings| {
        settings.exemptions.push(Exemption {
            origin: OriginPattern::parse(&origin.url("")).unwrap(),
            paths: Vec::new().into(),
            agents: Vec::new(),
            by: "legal".into(),
            reason: "contract".into(),
            ticket: None,
            until: NOW.plus(Duration::from_secs(60)),
            crawl_delay: None,
        });
    });
    for path in ["/a", "/b", "/private/c"] {
        assert_eq!(proxy.get(&origin.url(path)).status(), 200);
    }
    let counted = |decision: &str| -> f64 {
        let prefix = format!("courtesy_decisions_total{{decision=\"{decision}\"");
        metrics(&proxy).iter().filter(|(name, _)| name.starts_with(&prefix)).map(|it| it.1).sum()
    };
    assert_eq!((counted("allow"), counted("exempted")), (2.0, 1.0));
    assert_eq!(proxy.record()["event"], "exempted");
    proxy.stop();
    let lines = proxy.lines();
    let totals = lines.iter().find(|line| line["event"] == "totals").expect("the last");
    assert_eq!((&totals["allowed"], &totals["paced"]), (&3.into(), &2.into()));
}
