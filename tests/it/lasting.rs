//! Tunnels and upgraded connections to sites that close meanwhile: they end when that becomes
//! known.

use std::time::Duration;

use courtesy::config::{HttpsMode, MixedHosts, Mode, Settings};
use serde_json::{Value, json};

use crate::testkit::parties::{Client, Origin, Proxy, Script, connect, ok, tls};

const OPEN: &str = "User-agent: *\nDisallow: /other/\n";
const SHUT: &str = "User-agent: *\nDisallow: /\n";
const AGENT: &str = "User-Agent: ExampleBot/1.0\r\n";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

fn classify(settings: &mut Settings) {
    settings.https.mode = HttpsMode::Classify;
}

/// One whose robots.txt is `before`, and `after` once it is asked for again.
fn changing(origin: Origin, before: &str, after: &str) -> Origin {
    origin.on("/robots.txt", ok(before)).then("/robots.txt", ok(after))
}

/// Time goes by until what is known has to be asked for again.
fn expire(proxy: &Proxy) {
    proxy.clock.advance(Duration::from_secs(25 * 3600));
}

#[track_caller]
fn end_to_end(proxy: &Proxy, authority: &str) -> Client {
    let within = proxy.client().tunnel_with(authority, AGENT);
    within
        .secured(tls::trusting(tls::origins_ca(), &["http/1.1"]), tls::host(authority))
        .expect("TLS")
}

#[track_caller]
fn socket(proxy: &Proxy, url: &str) -> Client {
    let mut client = proxy.client();
    assert_eq!(client.ask("GET", url, UPGRADE).read_head().status(), 101);
    client
}

#[track_caller]
fn assert_echoes(client: &mut Client) {
    client.send("octets");
    assert_eq!(client.read_bytes(6), b"octets");
}

#[track_caller]
fn assert_ended(client: &mut Client) {
    assert_eq!(client.try_read_bytes(1), None);
}

fn reasons(proxy: &Proxy) -> Vec<(Value, Value, Value)> {
    let of = |record: &Value| ["event", "reason", "method"].map(|field| record[field].clone());
    proxy.records().iter().map(of).map(|[event, reason, method]| (event, reason, method)).collect()
}

/// The case: a site that was open closes for all, and what is under way to it ends with the next
/// request's fetch, each with a record like that of a refused request.
#[test]
fn d13_a_tunnel_ends_when_its_host_closes() {
    for after in [SHUT, OPEN] {
        let origin = changing(Origin::secure(), "", after);
        let proxy = Proxy::before(&[&origin], classify);
        let mut tunnels: Vec<_> = (0..3).map(|_| end_to_end(&proxy, &origin.authority())).collect();
        tunnels.iter_mut().for_each(|client| assert_eq!(client.get("/page").status(), 200));
        expire(&proxy);
        tunnels
            .iter_mut()
            .for_each(|client| assert_eq!(client.get("/page").status(), 200, "nothing is known"));
        let refused = proxy.client().send(connect(&origin.authority(), AGENT)).read();
        assert_eq!(refused.status(), 403);
        tunnels.iter_mut().for_each(assert_ended);
        let reason = if after == SHUT { "disallow_rule" } else { "path_not_seen" };
        let expected = (json!("denied"), json!(reason), json!("CONNECT"));
        assert_eq!(reasons(&proxy), vec![expected; 4]);
        for record in proxy.records() {
            assert_eq!(
                (&record["agent"], &record["url"]),
                (&json!("ExampleBot"), &json!(origin.authority()))
            );
        }
        assert_eq!(origin.count("/robots.txt"), 2);
    }
}

/// An upgraded connection stands and falls with the path of its request.
#[test]
fn d15_a_websocket_ends_when_its_path_closes() {
    let echo = || Script::default().send(SWITCH).echo();
    let origin =
        changing(Origin::start(), "", OPEN).on("/other/socket", echo()).on("/socket", echo());
    let proxy = Proxy::start();
    let mut shut = socket(&proxy, &origin.url("/other/socket"));
    let mut open = socket(&proxy, &origin.url("/socket"));
    assert_echoes(&mut shut);
    assert_echoes(&mut open);
    expire(&proxy);
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    assert_ended(&mut shut);
    assert_echoes(&mut open);
    assert_eq!(reasons(&proxy), [(json!("denied"), json!("disallow_rule"), json!("GET"))]);
    let record = proxy.record();
    assert_eq!(
        (&record["url"], &record["rule"]["line"]),
        (&json!(origin.url("/other/socket")), &json!(2))
    );
}

/// Nobody asks for anything else of the site: what lasts has its robots.txt fetched itself.
#[test]
fn d15_what_lasts_asks_again_when_what_is_known_has_run_out() {
    let echo = || Script::default().send(SWITCH).echo();
    let origin =
        changing(Origin::start(), "", OPEN).on("/other/socket", echo()).on("/socket", echo());
    let tunnelled = changing(Origin::secure(), "", SHUT);
    let proxy = Proxy::before(&[&origin, &tunnelled], classify);
    let mut shut = socket(&proxy, &origin.url("/other/socket"));
    let mut open = socket(&proxy, &origin.url("/socket"));
    let mut tunnel = end_to_end(&proxy, &tunnelled.authority());
    assert_echoes(&mut shut);
    assert_echoes(&mut open);
    expire(&proxy);
    assert_ended(&mut shut);
    assert_ended(&mut tunnel);
    assert_echoes(&mut open);
    assert_eq!((origin.count("/robots.txt"), tunnelled.count("/robots.txt")), (2, 2));
    let mut recorded = reasons(&proxy);
    recorded.sort_by_key(|(.., method)| method.to_string());
    let denied = |method| (json!("denied"), json!("disallow_rule"), json!(method));
    assert_eq!(recorded, [denied("CONNECT"), denied("GET")]);
}

/// A site that is down has a copy that counts: what lasts is asked about, and goes on.
#[test]
fn what_lasts_goes_on_by_the_copy_while_a_site_is_down() {
    let origin = Origin::start()
        .on("/robots.txt", ok(OPEN))
        .then(
            "/robots.txt",
            Script::default().send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
        )
        .on("/socket", Script::default().send(SWITCH).echo());
    let proxy = Proxy::start();
    let mut open = socket(&proxy, &origin.url("/socket"));
    assert_echoes(&mut open);
    expire(&proxy);
    crate::testkit::parties::until("it is asked again", || origin.count("/robots.txt") == 2);
    assert_echoes(&mut open);
    assert_eq!(proxy.records(), Vec::<Value>::new());
}

/// Where the settings let it go all the same, it goes on, and that is recorded once for each.
#[test]
fn what_is_only_observed_or_tunnelled_unseen_goes_on() {
    let cases = [
        (Mode::Observe, MixedHosts::Refuse, SHUT, "would_deny", "disallow_rule"),
        (Mode::Enforce, MixedHosts::Tunnel, OPEN, "tunnelled", "path_not_seen"),
    ];
    for (mode, mixed, after, event, reason) in cases {
        let origin = changing(Origin::secure(), "", after);
        let proxy = Proxy::before(&[&origin], |settings| {
            classify(settings);
            (settings.robots.mode, settings.https.mixed) = (mode, mixed);
        });
        let mut tunnel = end_to_end(&proxy, &origin.authority());
        for expected in [2, 3, 4] {
            expire(&proxy);
            let mut later = end_to_end(&proxy, &origin.authority());
            assert_eq!(later.get("/page").status(), 200);
            assert_eq!(tunnel.get("/page").status(), 200);
            // That of the tunnel may come after that of the next request.
            crate::testkit::parties::until("each is recorded once", || {
                proxy.records().len() >= expected
            });
        }
        let recorded = (json!(event), json!(reason), json!("CONNECT"));
        assert_eq!(reasons(&proxy), vec![recorded; 4]);
    }
}

/// A site that cannot be asked any more has a copy that counts, and one that opens ends nothing.
#[test]
fn what_stays_permitted_goes_on() {
    let origin =
        changing(Origin::secure(), OPEN, "").on("/socket", Script::default().send(SWITCH).echo());
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    assert_eq!(client.ask("GET", "/socket", UPGRADE).read_head().status(), 101);
    assert_echoes(&mut client);
    for _ in 0..2 {
        expire(&proxy);
        assert_eq!(proxy.https(&origin.authority()).get("/page").status(), 200);
        assert_echoes(&mut client);
    }
    assert_eq!(proxy.records(), Vec::<Value>::new());
}
