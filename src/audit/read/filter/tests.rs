use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;

use super::{Client, CompiledFilter, Filter, Place, Profile as WantedProfile, Rule};
use crate::audit::{
    AgentSource, Client as AuditClient, Content, Event, Exemption, Group, Head, Profile, Reason,
    Record, Robots, Rule as AuditRule,
};
use crate::types::origin::host::Glob;
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

/// Texts that look like the marks by which members are found, and those that break naive readers.
const NASTY: [&str; 14] = [
    "",
    "ExampleBot",
    "examplebot",
    "\"",
    "\\",
    "\\\"",
    "},\"reason\":\"undecided\"",
    ",\"rule\":{\"directive\":\"disallow\",\"line\":12,\"pattern\":\"/x\"}",
    ",\"time\":\"2000-01-01T00:00:00.000000Z\",\"url\":\"http://a/\"",
    ",\"id\":\"01J\"",
    "日本\u{202e}\u{7f}\u{9b}",
    "{\"agent\":null",
    "disallow_rule",
    "/private/",
];

const EVENTS: [Event; 4] = [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled];
const REASONS: [Reason; 3] = [Reason::DisallowRule, Reason::RobotsUnreachable, Reason::Undecided];
const ORIGINS: [&str; 5] = [
    "https://example.com",
    "http://a.example.com:8080",
    "http://[2001:db8::1]",
    "https://[2001:db8::1]:80",
    "http://192.0.2.7",
];

fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![select(&NASTY[..]).prop_map(str::to_owned), any::<String>()]
}

fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

prop_compose! {
    pub(in crate::audit) fn record()(
        agent in proptest::option::of(nasty()),
        address in select(&["10.0.0.1", "10.9.0.1", "::ffff:10.0.0.2", "2001:db8::7"][..]),
        name in proptest::option::of(nasty()),
        event in select(&EVENTS[..]),
        exemption in proptest::option::of((nasty(), nasty())),
        group in proptest::option::of((nasty(), 0u32..50)),
        id in nasty(),
        method in nasty(),
        origin in select(&ORIGINS[..]),
        (reason, rule) in (select(&REASONS[..]), proptest::option::of((nasty(), 10u32..14))),
        (millis, url, user_agent) in (0u64..100, nasty(), proptest::option::of(nasty())),
        (settings, node) in
            (proptest::collection::btree_map(nasty(), nasty(), 0..3), proptest::option::of(nasty())),
        (robots, trace, version) in
            (proptest::option::of(proptest::option::of(select(&HEX[..]))), proptest::option::of(select(&HEX[..])), 1u32..3),
    ) -> Record {
        let until = Timestamp::from_millis(millis * 7);
        Record {
            agent,
            agent_source: AgentSource::UserAgent,
            client: AuditClient::at(address.parse::<IpAddr>().unwrap(), name),
            event,
            exemption: exemption.map(|(by, reason)| Exemption { by, reason, ticket: None, until }),
            group: group.map(|(token, line)| Group { line, token }),
            id,
            method,
            node: node.map(|name| name.as_str().into()),
            origin: origin.into(),
            pace_seen: None,
            path_seen: true,
            prev: String::new(),
            profile: Profile { name: "rfc9309".into(), settings, version },
            reason,
            robots: robots.map(|sha256| robots_of(sha256).into()),
            rule: rule.map(|(pattern, line)| AuditRule { directive: "disallow".into(), line, pattern, read_as: Vec::new() }),
            seq: 0,
            setting: None,
            sni: None,
            time: Timestamp::from_millis(millis),
            trace_id: trace.map(str::to_owned),
            url_as_received: None,
            url,
            user_agent,
        }
    }
}

/// Digests, or trace ids, and the beginnings of some.
const HEX: [&str; 5] = ["00ff", "00", "0", "a1b2c3", "a1"];

/// With texts in it that look like other members.
fn robots_of(sha256: Option<&str>) -> Robots {
    serde_json::from_value(serde_json::json!({
        "capture": "a1", "cause": NASTY[7], "confirmed_at": null, "cut": false, "failed_capture": null,
        "failures": null, "fetched_at": null, "next_try": null, "result": null, "sha256": sha256, "since": null,
        "site_up": null, "state": "rules", "status": null, "tried": null, "url": "http://a/", "url_reached": null,
    }))
    .unwrap()
}

/// Most kinds without a condition, so that others decide.
fn some<T: Clone + std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<T>> {
    proptest::option::weighted(0.3, proptest::collection::vec(strategy, 1..3))
        .prop_map(Option::unwrap_or_default)
}

prop_compose! {
    pub(in crate::audit) fn filter()(
        since in proptest::option::of(0u64..100),
        until in proptest::option::of(0u64..100),
        origins in some(select(&["example.com", "*.example.com", "a.example.com:8080", "[2001:db8::1]:80",
            "https://example.com", "192.0.2.7:80"][..])),
        agents in some(nasty()),
        events in some(select(&EVENTS[..])),
        reasons in some(select(&REASONS[..])),
        rules in some(prop_oneof![(10u32..14).prop_map(Rule::Line), nasty().prop_map(Rule::Pattern)]),
        clients in some(prop_oneof![
            select(&["10.0.0.0/16", "10.9.0.1", "2001:db8::/32"][..]).prop_map(Client::parse),
            nasty().prop_map(Client::Name)
        ]),
        ids in some(nasty()),
        urls in some(nasty()),
        nodes in some(nasty()),
            (sha256s, traces, exempted_by) in (some(select(&HEX[..])), some(select(&HEX[..])), some(nasty())),
        profiles in some(
            (select(&["rfc9309", "google"][..]), proptest::option::of(1u32..3))
                .prop_map(|(name, version)| WantedProfile { name: name.into(), version })
        ),
    ) -> Filter {
        Filter {
            since: since.map(Timestamp::from_millis),
            until: until.map(Timestamp::from_millis),
            origins: origins.into_iter().map(|text| Place::parse(text).unwrap()).collect(),
            agents: agents.iter().map(|text| Glob::new(text)).collect(),
            events: events.into_iter().map(word).collect(),
            reasons: reasons.into_iter().map(word).collect(),
            rules,
            clients,
            ids,
            seqs: Vec::new(),
            urls: urls.iter().map(|text| Glob::new(text)).collect(),
            sha256s: sha256s.into_iter().map(str::to_owned).collect(),
            traces: traces.into_iter().map(str::to_owned).collect(),
            profiles,
            exempted_by: exempted_by.iter().map(|text| Glob::new(text)).collect(),
            nodes: nodes.iter().map(|text| Glob::new(text)).collect(),
        }
    }
}

/// The same question, asked of the whole record in the plainest way.
fn obviously_admits(filter: &Filter, record: &Record) -> bool {
    fn any<T>(conditions: &[T], holds: impl Fn(&T) -> bool) -> bool {
        conditions.is_empty() || conditions.iter().any(holds)
    }
    filter.since.is_none_or(|since| record.time >= since)
        && filter.until.is_none_or(|until| record.time < until)
        && any(&filter.origins, |place| {
            let (origin, _) = split_url(record.origin.as_bytes()).unwrap();
            match place {
                Place::Origin(wanted) => *wanted == origin,
                Place::Host { host, port } => {
                    host.matches(origin.host().to_string().as_bytes())
                        && port.is_none_or(|port| port == origin.port())
                }
            }
        })
        && any(&filter.agents, |glob| {
            record.agent.as_ref().is_some_and(|agent| glob.matches(agent.as_bytes()))
        })
        && any(&filter.events, |event| *event == word(record.event))
        && any(&filter.reasons, |reason| *reason == word(record.reason))
        && any(&filter.rules, |rule| match rule {
            Rule::Line(line) => record.rule.as_ref().is_some_and(|rule| rule.line == *line),
            Rule::Pattern(pattern) => {
                record.rule.as_ref().is_some_and(|rule| rule.pattern == *pattern)
            }
        })
        && any(&filter.clients, |client| match client {
            Client::Block(block) => {
                record.client.ip().is_some_and(|it| block.contains(&it.to_canonical()))
            }
            Client::Name(name) => record.client.name.as_ref() == Some(name),
        })
        && any(&filter.ids, |start| record.id.starts_with(start.as_str()))
        && any(&filter.urls, |glob| glob.matches(record.url.as_bytes()))
        && any(&filter.sha256s, |start| {
            let sha256 = record.robots.as_ref().and_then(|robots| robots.sha256.clone());
            sha256.is_some_and(|sha256| sha256.starts_with(start.as_str()))
        })
        && any(&filter.traces, |start| {
            record.trace_id.as_ref().is_some_and(|trace| trace.starts_with(start.as_str()))
        })
        && any(&filter.profiles, |profile| {
            profile.name == record.profile.name
                && profile.version.is_none_or(|version| version == record.profile.version)
        })
        && any(&filter.exempted_by, |glob| {
            record.exemption.as_ref().is_some_and(|exemption| glob.matches(exemption.by.as_bytes()))
        })
        && any(&filter.nodes, |glob| {
            record.node.as_ref().is_some_and(|node| glob.matches(node.as_str().as_bytes()))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_read_from_the_text_of_a_line_is_what_the_record_says(record in record(), filter in filter()) {
        let mut line = Vec::new();
        Head::genesis().push(Content::Record(Box::new(record.clone())), &mut line);
        let line = line.strip_suffix(b"\n").unwrap();
        prop_assert_eq!(CompiledFilter::new(filter.clone()).admits(line), obviously_admits(&filter, &record));
        // And one condition at a time, made to hold.
        let holds = [
            Filter { ids: vec![record.id.clone()], ..Filter::default() },
            Filter { seqs: vec![1], ..Filter::default() },
            Filter { reasons: vec![word(record.reason)], ..Filter::default() },
            Filter { since: Some(record.time), until: Some(record.time.plus(MILLISECOND)), ..Filter::default() },
            Filter { urls: vec![Glob::new(&record.url)], ..Filter::default() },
        ];
        for filter in holds {
            prop_assert!(CompiledFilter::new(filter.clone()).admits(line), "{:?}", filter);
        }
        if let Some(rule) = &record.rule {
            let rules = vec![Rule::Pattern(rule.pattern.clone())];
            let both = Filter { rules, ..Filter::default() };
            prop_assert!(CompiledFilter::new(both).admits(line));
        }
    }
}

const MILLISECOND: std::time::Duration = std::time::Duration::from_millis(1);

#[test]
fn a_place_is_an_origin_or_hosts() {
    for (place, origin, expected) in [
        ("example.com", "https://example.com", true),
        ("Example.COM.", "http://example.com:8080", true),
        ("example.com", "https://www.example.com", false),
        ("*.example.com", "https://www.example.com", true),
        ("*.example.com", "https://example.com", false),
        ("*example.com", "https://example.com", true),
        ("example.com:443", "https://example.com", true),
        ("example.com:443", "http://example.com", false),
        ("*.example.com:8080", "http://a.example.com:8080", true),
        ("https://example.com", "https://example.com", true),
        ("https://example.com/", "https://example.com", true),
        ("https://example.com", "http://example.com", false),
        ("[2001:db8::1]", "http://[2001:db8::1]:8080", true),
        ("[2001:db8::1]:80", "http://[2001:db8::1]", true),
        ("www.m\u{fc}ller.eu", "http://www.xn--mller-kva.eu", true),
    ] {
        assert_eq!(Place::parse(place).unwrap().covers(origin), expected, "{place} {origin}");
    }
    for text in [
        "exa mple.com",
        "",
        "gopher://example.com",
        "*.example.com:x",
        "::1",
        "https://example.com/a",
    ] {
        assert!(Place::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_notice_is_no_record() {
    let line =
        br#"{"event":"gap","lost":3,"prev":"","seq":2,"since":"","time":"","why":"","hash":""}"#;
    assert!(!CompiledFilter::new(Filter::default()).admits(line));
}
