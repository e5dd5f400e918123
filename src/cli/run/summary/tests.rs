use super::super::direct_connections::Named;
use super::*;
use crate::audit::{Health, Reason};
use crate::pace::hold::Cause;
use crate::pace::{HoldBegun, WaitReason, Waited};
use crate::proxy::{MissingCounts, RequestCounts};
use crate::runtime::clock::monotonic;

fn tally(requests: u64, forwarded: u64) -> HostTally {
    HostTally { requests, forwarded, ..HostTally::default() }
}

fn summary(hosts: Vec<(&str, HostTally)>) -> Summary {
    let written = hosts.iter().map(|(_, tally)| tally.denied.sum()).sum();
    let audit = Health { written, ..Health::default() };
    let report = ProxyReport {
        counts: RequestCounts::default(),
        pace: crate::pace::Counts::default(),
        audit,
        records: "/state/runs/1/audit/denials.jsonl".into(),
    };
    let no_proxy = NoProxy { proxy_loopback: true, ..NoProxy::default() };
    let hosts = hosts.into_iter().map(|(host, tally)| (host.to_owned(), tally)).collect();
    let took = Duration::from_millis(100_300);
    Summary {
        run: "1".into(),
        flags: " --state-dir /state".into(),
        code: 0,
        no_proxy,
        connections: DirectConnections::default(),
        sealed: None,
        report,
        seen: RunReport { took, hosts, ..RunReport::default() },
    }
}

fn crawl_delay(seconds: u64) -> Waited {
    let (time, delay) = (Duration::ZERO, Duration::from_secs(seconds));
    Waited { time, by: WaitReason::CrawlDelay, line: Some(2), delay }
}

fn few<K: Clone + PartialEq>(key: K, count: usize) -> Few<K> {
    let mut few = Few::default();
    (0..count).for_each(|_| few.add(key.clone()));
    few
}

fn rule(line: u32, text: &str) -> RuleKey {
    RuleKey { reason: Reason::DisallowRule, rule: Some((line, text.to_owned())) }
}

#[test]
fn each_fact_has_a_line_with_the_hosts_that_it_is_about() {
    let mut slow = HostTally { left_waiting: 4, slowed: Some(crawl_delay(1)), ..tally(100, 96) };
    let start = monotonic();
    slow.waits.begin(start, Duration::from_secs(16));
    slow.waits.end(start + Duration::from_secs(87));
    let hour = HostTally { too_early: 12, slowed: Some(crawl_delay(3600)), ..tally(13, 1) };
    let shop = HostTally { denied: few(rule(2, "Disallow: /private/"), 9), ..tally(13, 4) };
    let down = HostTally { failed: few((502, "connection_refused"), 1), ..tally(1, 0) };
    let hosts =
        vec![("slow.test", slow), ("hour.test", hour), ("shop.test", shop), ("down.test", down)];
    let mut summary = summary(hosts);
    summary.seen.waited = Duration::from_secs(87);
    let path = "/state/runs/1/missing.tsv".into();
    summary.seen.missing = MissingCounts { listed: 17, more: 0, path };
    let expected = "\
courtesy: 127 requests to 4 hosts in 1 min 40 s
  101 forwarded          1 min 27 s of that time was waiting for slow.test (Crawl-delay 1)
    9 denied             shop.test: 9 by line 2 \"Disallow: /private/\"
   12 too early          hour.test asks for 1 h between requests (Crawl-delay: 3600, line 2 of its robots.txt)
    4 left while waiting their own timeout was shorter than the wait (slow.test, up to 16 s)
    1 failed             down.test: 502 connection refused
   17 not retrieved      listed in /state/runs/1/missing.tsv
    9 records            courtesy audit query --run 1 --state-dir /state
";
    assert_eq!(summary.print(Form::Text), expected);
    assert_eq!(summary.print(Form::None), "");
    let json = summary.json();
    for (name, expected) in [
        ("requests", 127),
        ("hosts", 4),
        ("forwarded", 101),
        ("denied", 9),
        ("too_early", 12),
        ("left_waiting", 4),
        ("left", 0),
        ("failed", 1),
        ("waited_ms", 87_000),
        ("took_ms", 100_300),
    ] {
        assert_eq!(json[name], expected, "{name}");
    }
    assert_eq!(json["by_host"][2]["denied"]["each"][0]["line"], 2);
    assert_eq!(json["by_host"][0]["waited_ms"], 87_000);
    assert_eq!(json["by_host"][3]["failed"][0]["error"], "connection_refused");
}

#[test]
fn only_what_says_something_has_a_line() {
    let one = summary(vec![("a.test", tally(1, 1))]);
    assert_eq!(one.text(), "courtesy: 1 request to 1 host in 1 min 40 s\n    1 forwarded\n");
    assert!(summary(Vec::new()).text().contains("courtesy doctor"));
}

#[test]
fn three_hosts_are_named_and_the_others_counted() {
    let denied = |line| HostTally { denied: few(rule(line, "Disallow: /"), 2), ..tally(2, 0) };
    let names = ["a.test", "b.test", "c.test", "d.test", "e.test"];
    let hosts = names.iter().enumerate().map(|(at, name)| (*name, denied(at as u32))).collect();
    let text = summary(hosts).text();
    let line = text.lines().nth(2).unwrap();
    let expected = "   10 denied             a.test: 2 by line 0 \"Disallow: /\"; b.test: 2 by line 1 \
                    \"Disallow: /\"; c.test: 2 by line 2 \"Disallow: /\"; and 2 other hosts";
    assert_eq!(line, expected);
}

#[test]
fn what_is_allowed_despite_a_denial_is_named_as_that() {
    // The end of a day.
    let until = Timestamp::from_millis(1_798_761_600_000);
    let observed = HostTally { would_deny: few(rule(3, "Disallow: /x"), 9), ..tally(9, 9) };
    let exempted = HostTally { exempted: few(("Jane Doe".to_owned(), until), 1), ..tally(1, 1) };
    let mut left = HostTally { left: 2, ..tally(3, 1) };
    left.held = Some((
        HoldBegun { length: Duration::from_secs(30), status: 429, cause: Cause::RetryAfter },
        monotonic(),
    ));
    left.too_early = 1;
    let text = summary(vec![("o.test", observed), ("e.test", exempted), ("l.test", left)]).text();
    for line in [
        "    9 would be denied    o.test: 9 by line 3 \"Disallow: /x\"",
        "    1 by exemption of Jane Doe until 2026-12-31 (e.test)",
        "    1 too early          l.test asks to be left alone for 30 s (429, Retry-After: 30)",
        "    2 left               before the answer came (l.test)",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn connections_that_bypass_the_proxy_are_a_warning() {
    let mut summary = summary(vec![("a.test", tally(1, 1))]);
    assert_eq!(summary.json()["warning"], Value::Null);
    let named = ["93.184.216.34:443", "[2001:db8::1]:80"]
        .map(|address| Named { program: "httrack".into(), address: address.parse().unwrap() });
    summary.connections = DirectConnections { count: 7, named: named.into() };
    let text = summary.text();
    let expected = "warning: the command had 7 connections of its own (httrack to 93.184.216.34:443, httrack \
                    to [2001:db8::1]:80): they do not come by the proxy";
    assert!(text.contains(expected), "{text}");
    assert!(
        summary.json()["warning"].as_str().unwrap().starts_with("the command had 7 connections")
    );
    assert_eq!(summary.json()["own_connections"]["named"][1]["address"], "[2001:db8::1]:80");
    summary.seen.hosts.clear();
    summary.connections.count = 1;
    assert!(
        summary
            .text()
            .contains("which needs neither\n          the command had 1 connection of its own")
    );
}

#[test]
fn hosts_outside_the_proxy_are_listed() {
    let mut summary = summary(vec![("a.test", tally(1, 1))]);
    summary.no_proxy = NoProxy { hosts: ".internal".into(), proxy_loopback: false };
    let last = summary.text().lines().last().unwrap().to_owned();
    let expected = "outside the proxy: loopback (localhost, 127.0.0.0/8; --proxy-loopback sends it here), .internal";
    assert_eq!(last.trim_start(), expected);
    assert_eq!(summary.json()["proxy_loopback"], false);
    assert_eq!(summary.json()["no_proxy"], "localhost,.localhost,127.0.0.1,127.0.0.0/8,.internal");
}
