use super::super::direct_connections::Named;
use super::*;
use crate::audit::Health;
use crate::proxy::RequestCounts;

fn summary(counts: RequestCounts) -> Summary {
    let audit = Health { written: counts.denied_in_all(), ..Health::default() };
    let report = ProxyReport {
        counts,
        pace: crate::pace::Counts::default(),
        audit,
        records: "/state/runs/1/audit/denials.jsonl".into(),
    };
    let no_proxy = NoProxy { proxy_loopback: true, ..NoProxy::default() };
    Summary {
        run: "1".into(),
        flags: " --state-dir /state".into(),
        code: 0,
        no_proxy,
        connections: DirectConnections::default(),
        sealed: None,
        report,
    }
}

#[test]
fn a_summary_has_one_line_and_the_command_that_finds_the_records() {
    let summary = summary(RequestCounts {
        requests: 316,
        origins: 4,
        forwarded: 271,
        copies: 1,
        failed: 3,
        denied: vec![(Reason::DisallowRule, 38), (Reason::RobotsUnreachable, 3)],
        distrusting: 0,
    });
    assert_eq!(
        summary.print(Form::Text),
        "courtesy: 316 requests to 4 origins · 271 forwarded · 41 denied (38 by rule, \
         3 robots.txt unreachable) · 1 robots.txt answered from the copy that decides · 3 failed\n          \
         41 records; see them with: courtesy audit query --run 1 --state-dir /state\n"
    );
    assert_eq!(summary.json()["reasons"], json!({ "disallow_rule": 38, "robots_unreachable": 3 }));
    assert_eq!(summary.print(Form::None), "");
}

#[test]
fn counts_of_zero_are_left_out() {
    let one = RequestCounts { requests: 1, origins: 1, forwarded: 1, ..RequestCounts::default() };
    assert_eq!(summary(one).text(), "courtesy: 1 request to 1 origin · 1 forwarded\n");
    assert!(summary(RequestCounts::default()).text().contains("courtesy doctor"));
}

#[test]
fn connections_that_bypass_the_proxy_are_a_warning() {
    let one = RequestCounts { requests: 1, origins: 1, forwarded: 1, ..RequestCounts::default() };
    let mut summary = summary(one);
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
    summary.report.counts = RequestCounts::default();
    summary.connections.count = 1;
    assert!(
        summary
            .text()
            .contains("which needs neither\n          the command had 1 connection of its own")
    );
}

#[test]
fn hosts_outside_the_proxy_are_listed() {
    let one = RequestCounts { requests: 1, origins: 1, forwarded: 1, ..RequestCounts::default() };
    let mut summary = summary(one);
    summary.no_proxy = NoProxy { hosts: ".internal".into(), proxy_loopback: false };
    let last = summary.text().lines().last().unwrap().to_owned();
    let expected = "outside the proxy: loopback (localhost, 127.0.0.0/8; --proxy-loopback sends it here), .internal";
    assert_eq!(last.trim_start(), expected);
    assert_eq!(summary.json()["proxy_loopback"], false);
    assert_eq!(summary.json()["no_proxy"], "localhost,.localhost,127.0.0.1,127.0.0.0/8,.internal");
}

#[test]
fn a_wait_is_told_with_its_reason_and_its_origin() {
    let (origin, _) = crate::types::origin::split_url(b"http://shop.example/").unwrap();
    let waits = crate::runtime::counters::Histogram::default();
    waits.note(Duration::from_secs(41));
    let longest = crate::pace::Waited {
        time: Duration::from_secs(10),
        by: WaitReason::CrawlDelay,
        line: Some(4),
        delay: Duration::from_secs(10),
    };
    let mut pace = Counts { longest: Some((origin, longest)), ..Counts::default() };
    assert_eq!(waited(&pace), None);
    pace.waits[1] = waits.counts();
    assert_eq!(waited(&pace).unwrap(), "waited 41 s (Crawl-delay 10 s at shop.example)");
}
