//! HTTPS that is not looked into: whole hosts are judged at CONNECT, and tunnelled or refused. In
//! the mode `classify` all are treated so, else those that are listed.

use std::time::Duration;

use courtesy::config::{Exemption, HttpsMode, MixedHosts, Mode, Settings};
use courtesy::policy::exemption::OriginPattern;
use courtesy::types::origin::HostPattern;
use serde_json::{Value, json};

use crate::testkit::parties::{Client, NOW, Origin, Proxy, Script, answer, connect, tls};

const ALL: &str = "User-agent: *\nDisallow: /\n";
const SOME: &str = "# some\nUser-agent: *\nDisallow: /private/\n";
const AGENT: &str = "User-Agent: ExampleBot/1.0\r\n";

fn classify(settings: &mut Settings) {
    settings.https.mode = HttpsMode::Classify;
}

/// The status of a CONNECT.
#[track_caller]
fn status(proxy: &Proxy, authority: &str, fields: &str) -> u16 {
    proxy.client().send(connect(authority, fields)).read_head().status()
}

/// TLS through a tunnel to the origin itself: the proxy's CA would not be trusted.
#[track_caller]
fn end_to_end(proxy: &Proxy, authority: &str) -> Client {
    let tunnel = proxy.client().tunnel(authority);
    let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
    tunnel.secured(config, tls::host(authority)).expect("the origin's certificate")
}

/// The last record's event and reason.
#[track_caller]
fn last(proxy: &Proxy) -> (Value, Value) {
    let record = proxy.records().pop().expect("a record");
    assert_eq!(record["path_seen"], false);
    assert_eq!(record["method"], "CONNECT");
    (record["event"].clone(), record["reason"].clone())
}

#[test]
fn a_host_of_which_everything_is_allowed_is_tunnelled() {
    for robots_txt in [
        None,
        Some(""),
        Some("User-agent: *\nDisallow:\n"),
        Some("User-agent: other\nDisallow: /\n"),
    ] {
        let origin = match robots_txt {
            None => Origin::secure(),
            Some(robots_txt) => Origin::secure().robots(robots_txt),
        };
        let proxy = Proxy::before(&[&origin], classify);
        for _ in 0..2 {
            assert_eq!(
                end_to_end(&proxy, &origin.authority()).get("/page").text(),
                "this is /page\n"
            );
        }
        assert_eq!(origin.received("/page").field("via"), None, "nobody looked into it");
        assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page", "GET /page"]);
        assert_eq!(proxy.records(), Vec::<Value>::new());
    }
}

#[test]
fn a_host_of_which_nothing_is_allowed_is_refused() {
    let origin = Origin::secure().robots(ALL);
    let proxy = Proxy::before(&[&origin], classify);
    let mut client = proxy.client();
    let denied = client.send(connect(&origin.authority(), AGENT)).read();
    denied.assert_error(403, "http_request_denied; details=\"robots.txt line 2\"");
    assert_eq!(denied.reason(), "disallow_rule");
    client.assert_closed();
    let record = proxy.record();
    assert_eq!(last(&proxy), (json!("denied"), json!("disallow_rule")));
    assert_eq!(
        (&record["url"], &record["origin"]),
        (&json!(origin.authority()), &json!(origin.url("")))
    );
    assert_eq!((&record["agent"], &record["rule"]["line"]), (&json!("ExampleBot"), &json!(2)));
    assert_eq!(denied.field("courtesy-record"), record["id"].as_str());
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn a_host_whose_robots_txt_cannot_be_had_is_refused_for_now() {
    let origin = Origin::secure().on("/robots.txt", Script::default().send(answer(503, "", "")));
    let proxy = Proxy::before(&[&origin], classify);
    let denied = proxy.client().send(connect(&origin.authority(), AGENT)).read();
    denied.assert_error(403, "http_request_denied");
    assert_eq!(denied.reason(), "robots_unreachable");
    let wait: u64 = denied.field("retry-after").expect("a time").parse().expect("seconds");
    assert!(wait > 0);
    assert_eq!(last(&proxy), (json!("denied"), json!("robots_unreachable")));

    // One that does not speak TLS has no robots.txt by https.
    let plain = Origin::start();
    let proxy = Proxy::before(&[&plain], |settings| {
        classify(settings);
        settings.robots.fetch_timeout = Duration::from_millis(200);
    });
    let denied = proxy.client().send(connect(&plain.authority(), AGENT)).read();
    assert_eq!((denied.status(), denied.reason().as_str()), (403, "robots_unreachable"));
    assert_eq!(plain.log().requests.len(), 0);
}

#[test]
fn a_mixed_host_is_refused_or_tunnelled_by_setting() {
    let origin = Origin::secure().robots(SOME);
    let proxy = Proxy::before(&[&origin], classify);
    let denied = proxy.client().send(connect(&origin.authority(), AGENT)).read();
    denied.assert_error(403, "http_request_denied");
    assert_eq!(denied.reason(), "path_not_seen");
    assert_eq!(last(&proxy), (json!("denied"), json!("path_not_seen")));
    assert_eq!(proxy.record()["group"], json!({"token": "*", "line": 2}));
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);

    let proxy = Proxy::before(&[&origin], |settings| {
        classify(settings);
        settings.https.mixed = MixedHosts::Tunnel;
    });
    assert_eq!(end_to_end(&proxy, &origin.authority()).get("/private/").status(), 200);
    assert_eq!(last(&proxy), (json!("tunnelled"), json!("path_not_seen")));
}

#[test]
fn the_group_of_the_agent_at_connect_counts() {
    let origin = Origin::secure().robots(
        "User-agent: GoodBot\nDisallow:\n\nUser-agent: HalfBot\nDisallow: /x\n\nUser-agent: *\nDisallow: /\n",
    );
    let proxy = Proxy::before(&[&origin], classify);
    for (fields, status, reason) in [
        ("User-Agent: GoodBot/2.0\r\n", 200, None),
        ("User-Agent: Mozilla/5.0 (compatible; goodbot/2.0)\r\n", 200, None),
        ("User-Agent: HalfBot\r\n", 403, Some("path_not_seen")),
        (AGENT, 403, Some("disallow_rule")),
        ("", 403, Some("disallow_rule")),
    ] {
        let before = proxy.records().len();
        assert_eq!(self::status(&proxy, &origin.authority(), fields), status, "{fields}");
        let records = proxy.records();
        let new: Vec<_> =
            records[before..].iter().map(|record| record["reason"].as_str()).collect();
        assert_eq!(new, reason.map(Some).into_iter().collect::<Vec<_>>(), "{fields}");
    }
    // Once as the first agent, and once for all.
    assert_eq!(origin.count("/robots.txt"), 2);
}

#[test]
fn who_only_observes_tunnels_and_records() {
    let origin = Origin::secure().robots(ALL).on("a/robots.txt", crate::testkit::parties::ok(SOME));
    let proxy = Proxy::before(&[&origin], |settings| {
        classify(settings);
        settings.robots.mode = Mode::Observe;
    });
    assert_eq!(end_to_end(&proxy, &origin.authority()).get("/").status(), 200);
    assert_eq!(last(&proxy), (json!("would_deny"), json!("disallow_rule")));
    let mixed = format!("a.localhost:{}", origin.address().port());
    assert_eq!(end_to_end(&proxy, &mixed).get("/").status(), 200);
    assert_eq!(last(&proxy), (json!("would_deny"), json!("path_not_seen")));
}

#[test]
fn only_an_exemption_of_the_whole_host_lets_its_tunnel_pass() {
    let origin = Origin::secure().robots(ALL);
    let exemption = |paths: &[&str]| Exemption {
        origin: OriginPattern::parse(&origin.url("")).expect("an origin"),
        paths: paths
            .iter()
            .map(|path| path.parse().expect("a path pattern"))
            .collect::<Vec<_>>()
            .into(),
        agents: vec!["examplebot".parse().expect("a token")],
        by: "webmaster@site.example".into(),
        reason: "written permission".into(),
        ticket: None,
        until: NOW.plus(Duration::from_secs(60)),
        crawl_delay: None,
    };
    for (paths, event, status) in [(&[][..], "exempted", 200), (&["/data/"][..], "denied", 403)] {
        let proxy = Proxy::before(&[&origin], |settings| {
            classify(settings);
            settings.exemptions = vec![exemption(paths)];
        });
        assert_eq!(self::status(&proxy, &origin.authority(), AGENT), status);
        assert_eq!(last(&proxy), (json!(event), json!("disallow_rule")));
        assert_eq!(self::status(&proxy, &origin.authority(), ""), 403, "another agent");
    }
}

#[test]
fn an_address_that_may_not_be_reached_is_not_tunnelled_to() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| {
        classify(settings);
        settings.egress.allow.clear();
    });
    let mut client = proxy.client();
    let denied = client.send(connect(&origin.authority(), AGENT)).read();
    denied.assert_error(403, "destination_ip_prohibited");
    client.assert_closed();
    assert_eq!(last(&proxy), (json!("denied"), json!("origin_refused")));
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn a_listed_host_is_tunnelled_and_no_other() {
    let origin = Origin::secure()
        .robots(SOME)
        .on("b/robots.txt", crate::testkit::parties::ok(ALL))
        .on("c/robots.txt", crate::testkit::parties::ok(""));
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.https.tunnel = vec![HostPattern::new("*.localhost").expect("a pattern")];
    });
    let port = origin.address().port();
    let named = |name: &str| format!("{name}:{port}");
    // Some of its paths are disallowed, but it is listed.
    assert_eq!(end_to_end(&proxy, &named("a.localhost")).get("/private/").status(), 200);
    assert_eq!(last(&proxy), (json!("tunnelled"), json!("path_not_seen")));
    assert_eq!(end_to_end(&proxy, &named("c.localhost")).get("/page").status(), 200);
    assert_eq!(status(&proxy, &named("B.LocalHost"), AGENT), 403);
    assert_eq!(last(&proxy), (json!("denied"), json!("disallow_rule")));
    // What is above the pattern is no match, nor is an address.
    for other in [named("localhost"), origin.authority()] {
        assert_eq!(proxy.https(&other).get("/private/").status(), 403, "{other}");
    }
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.https.tunnel =
            ["127.0.0.1", "localhost"].map(|it| HostPattern::new(it).expect("a host")).to_vec();
    });
    for listed in [named("localhost"), origin.authority()] {
        assert_eq!(end_to_end(&proxy, &listed).get("/private/").status(), 200, "{listed}");
    }
    assert_eq!(proxy.https(&named("a.localhost")).get("/private/").status(), 403);
}

/// RFC 9110 §9.3.6: what is outstanding is delivered before the tunnel ends.
#[test]
fn d13_a_tunnel_ends_with_both_of_its_sides() {
    let slowly = Script::default().drip(answer(200, "", "slow"), Duration::from_millis(1));
    let closing = Script::default().send("HTTP/1.1 200 OK\r\n\r\nall of it").close();
    let origin = Origin::secure()
        .on("/slow", slowly)
        .on("/closing", closing)
        .on("/held", Script::default().hold());
    let proxy = Proxy::before(&[&origin], classify);

    let mut client = end_to_end(&proxy, &origin.authority());
    client.ask("GET", "/slow", "").finish_sending_below();
    assert_eq!(client.read().text(), "slow", "a client that has said all still hears the answer");

    let mut client = end_to_end(&proxy, &origin.authority());
    assert_eq!(client.get("/closing").text(), "all of it");
    client.assert_closed();

    let mut client = end_to_end(&proxy, &origin.authority());
    client.ask("GET", "/held", "");
    let is_there =
        |log: &crate::testkit::parties::Log| log.requests.iter().any(|it| it.path() == "/held");
    origin.wait_until("the request is there", is_there);
    drop(client);
    origin.wait_until("the origin is told", |log| log.abandoned == 1);
}

#[test]
fn a_tunnel_in_which_nothing_moves_is_closed() {
    let origin = Origin::secure().on("/held", Script::default().hold());
    let proxy = Proxy::before(&[&origin], |settings| {
        classify(settings);
        settings.limits.tunnel_idle_timeout = Duration::from_millis(200);
    });
    let mut silent = proxy.client().tunnel(&origin.authority());
    assert_eq!(silent.read_rest(), b"");
    let mut client = end_to_end(&proxy, &origin.authority());
    client.ask("GET", "/held", "");
    let cut = client.try_read("GET").expect_err("it is closed");
    assert_eq!(cut.error.kind(), std::io::ErrorKind::UnexpectedEof, "{cut:?}");
    origin.wait_until("the origin is told", |log| log.abandoned == 1);
}
