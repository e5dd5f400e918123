use std::net::IpAddr;

use serde_json::{Value, json};

use super::subject::Asked;
use super::*;
use crate::audit::read::report::tests::log::{NOON, by_rule, record};
use crate::audit::{Client, ClientAddress, Event, Exemption, Node, Reason};

const HASH: &str = "ab12";
const ALL: [EventFormat; 3] = [EventFormat::Ecs, EventFormat::Ocsf, EventFormat::Cef];

fn denied() -> Record {
    Record {
        client: Client::at([10, 0, 0, 7], Some("jane".into())),
        id: "01J9ZZZZZZZZZZZZZZZZZZZZZZ".into(),
        node: Some(Node::from("n")),
        seq: 7,
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        url: "https://a.example:8443/private/a?q=1".into(),
        ..by_rule(NOON, "https://a.example:8443", "ExampleBot", "/private/", 3)
    }
}

fn json_of(format: EventFormat, record: &Record) -> Value {
    serde_json::from_str(&format.line(record, HASH)).unwrap()
}

/// The extension of a CEF line, read as the format has it: a key begins behind a blank, and ends before an equals
/// sign that has no backslash before it.
fn extension(line: &str) -> Vec<(String, String)> {
    let text = line.splitn(8, '|').nth(7).unwrap();
    let (mut members, mut chars) = (Vec::<(String, String)>::new(), text.chars());
    let mut value = String::new();
    while let Some(character) = chars.next() {
        match character {
            '\\' => value.push(match chars.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                escaped @ ('\\' | '=') => escaped,
                other => panic!("\\{other} is no escape: {line}"),
            }),
            '=' => {
                let (before, key) = value.rsplit_once(' ').unwrap_or(("", &value));
                if let Some((_, last)) = members.last_mut() {
                    *last = before.to_owned();
                }
                members.push((key.to_owned(), String::new()));
                value = String::new();
            }
            _ => value.push(character),
        }
    }
    members.last_mut().unwrap().1 = value;
    members
}

#[test]
fn an_event_of_ecs_has_each_member_under_its_name() {
    let event = json_of(EventFormat::Ecs, &denied());
    for (pointer, expected) in [
        ("/@timestamp", json!("2026-11-20T12:00:00.000000Z")),
        ("/ecs/version", json!("8.11.0")),
        ("/event/action", json!("denied")),
        ("/event/category", json!(["network", "web"])),
        ("/event/type", json!(["access", "denied"])),
        ("/event/outcome", json!("success")),
        ("/event/reason", json!("disallow_rule")),
        ("/event/sequence", json!(7)),
        ("/event/hash", json!(HASH)),
        ("/event/id", json!("01J9ZZZZZZZZZZZZZZZZZZZZZZ")),
        ("/source/ip", json!("10.0.0.7")),
        ("/source/user/name", json!("jane")),
        ("/http/request/method", json!("GET")),
        ("/url/full", json!("https://a.example:8443/private/a?q=1")),
        ("/url/domain", json!("a.example")),
        ("/url/port", json!(8443)),
        ("/url/path", json!("/private/a")),
        ("/url/query", json!("q=1")),
        ("/rule/id", json!("3")),
        ("/rule/name", json!("disallow: /private/")),
        ("/rule/ruleset", json!("https://a.example:8443/robots.txt")),
        ("/observer/name", json!("n")),
        ("/trace/id", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("/user_agent/name", json!("ExampleBot")),
        ("/courtesy/profile/name", json!("rfc9309")),
    ] {
        assert_eq!(event.pointer(pointer), Some(&expected), "{pointer} of {event:#}");
    }
    assert_eq!(event.pointer("/tls"), None, "what a record lacks is left out: {event:#}");
    let observed = json_of(EventFormat::Ecs, &Record { event: Event::WouldDeny, ..denied() });
    assert_eq!(observed["event"]["type"], json!(["access", "allowed"]));
    assert_eq!(observed["event"]["outcome"], "unknown");
}

#[test]
fn an_event_of_ocsf_has_the_numbers_of_its_class() {
    let event = json_of(EventFormat::Ocsf, &denied());
    for (pointer, expected) in [
        ("/class_uid", json!(4002)),
        ("/category_uid", json!(4)),
        ("/activity_id", json!(3)),
        ("/type_uid", json!(400_203)),
        ("/time", json!(NOON.millis())),
        ("/severity_id", json!(1)),
        ("/metadata/version", json!("1.6.0")),
        ("/metadata/uid", json!("01J9ZZZZZZZZZZZZZZZZZZZZZZ")),
        ("/metadata/product/vendor_name", json!("courtesy")),
        ("/src_endpoint/ip", json!("10.0.0.7")),
        ("/src_endpoint/owner/name", json!("jane")),
        ("/dst_endpoint", json!({ "hostname": "a.example", "port": 8443 })),
        ("/http_request/url/url_string", json!("https://a.example:8443/private/a?q=1")),
        ("/firewall_rule", json!({ "name": "disallow: /private/", "uid": "3" })),
        ("/unmapped/hash", json!(HASH)),
    ] {
        assert_eq!(event.pointer(pointer), Some(&expected), "{pointer} of {event:#}");
    }
    for (event, action, disposition) in [
        (Event::Denied, (2, "Denied"), (2, "Blocked")),
        (Event::WouldDeny, (1, "Allowed"), (15, "Detected")),
        (Event::Exempted, (1, "Allowed"), (1, "Allowed")),
        (Event::Tunnelled, (1, "Allowed"), (1, "Allowed")),
    ] {
        let found = json_of(EventFormat::Ocsf, &Record { event, ..denied() });
        assert_eq!((&found["action_id"], &found["action"]), (&json!(action.0), &json!(action.1)));
        assert_eq!(
            (&found["disposition_id"], &found["disposition"]),
            (&json!(disposition.0), &json!(disposition.1))
        );
    }
    for (method, activity) in [
        ("CONNECT", 1),
        ("DELETE", 2),
        ("HEAD", 4),
        ("OPTIONS", 5),
        ("POST", 6),
        ("PUT", 7),
        ("TRACE", 8),
        ("PATCH", 9),
        ("get", 99),
        ("PROPFIND", 99),
    ] {
        let found = json_of(EventFormat::Ocsf, &Record { method: method.into(), ..denied() });
        assert_eq!(found["activity_id"], activity, "{method}");
        assert_eq!(found["type_uid"], 400_200 + activity, "{method}");
    }
}

#[test]
fn a_line_of_cef_reads_back() {
    let until = NOON;
    let (by, reason, ticket) = ("legal".into(), "a=b".into(), Some("T|1".into()));
    let exemption = Some(Exemption { by, reason, ticket, until });
    let record = Record { exemption, event: Event::Exempted, ..denied() };
    let line = EventFormat::Cef.line(&record, HASH);
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        line.starts_with(&format!(
            "CEF:0|courtesy|courtesy|{version}|disallow_rule|disallowed by a rule|1|rt={} act=exempted ",
            NOON.millis()
        )),
        "{line}"
    );
    let members = extension(&line);
    let value = |key: &str| members.iter().find(|member| member.0 == key).map(|it| &*it.1);
    for (key, expected) in [
        ("reason", "disallow_rule"),
        ("app", "HTTPS"),
        ("src", "10.0.0.7"),
        ("suser", "jane"),
        ("dhost", "a.example"),
        ("dpt", "8443"),
        ("request", "https://a.example:8443/private/a?q=1"),
        ("dvchost", "n"),
        ("cs1", "ExampleBot"),
        ("cs2Label", "rule"),
        ("cs2", "3: disallow: /private/"),
        ("cs5", "legal: a=b (T|1)"),
        ("cs6", HASH),
        ("cn1", "7"),
    ] {
        assert_eq!(value(key), Some(expected), "{key} of {line}");
    }
    let v6 = Client::at("2001:db8::7".parse::<IpAddr>().unwrap(), None);
    let members = extension(&EventFormat::Cef.line(&Record { client: v6, ..denied() }, HASH));
    let value = |key: &str| members.iter().find(|member| member.0 == key).map(|it| &*it.1);
    assert_eq!((value("src"), value("c6a2")), (None, Some("2001:db8::7")));
    assert_eq!(value("suser"), None, "what a record lacks is left out");
}

#[test]
fn no_word_of_the_head_of_cef_needs_an_escape() {
    for row in Reason::ALL.map(Reason::row) {
        assert!(!format!("{}{}", row.word, row.label).contains(['|', '\\', '\n', '\r']), "{row:?}");
    }
}

#[test]
fn a_destination_is_taken_apart() {
    for (origin, url, expected) in [
        ("http://a.example", "http://a.example/x?y", ("http", "a.example", Some(80), Some("/x"))),
        ("https://a.example", "a.example:443", ("https", "a.example", Some(443), None)),
        (
            "https://[2001:db8::1]",
            "https://[2001:db8::1]/",
            ("https", "2001:db8::1", Some(443), Some("/")),
        ),
        ("http://[::1]:81", "http://[::1]:81/", ("http", "::1", Some(81), Some("/"))),
        ("tcp://db.example:5432", "db.example:5432", ("tcp", "db.example", Some(5432), None)),
        ("unix:/run/x.sock", "unix:/run/x.sock", ("unix", "run/x.sock", None, None)),
    ] {
        let path_seen = url.starts_with("http");
        let record = Record { origin: origin.into(), url: url.into(), path_seen, ..denied() };
        let Asked { scheme, host, port, path, .. } = Asked::of(&record);
        assert_eq!((scheme, host, port, path), expected, "{origin}");
    }
}

#[test]
fn text_from_outside_breaks_no_line_and_no_escape() {
    // As if the log had been written without the escapes that its writer has.
    let text =
        "a\nb\r\nCEF:0|x|y|1|2|3|4|act=allowed \\ \\n \"}\u{1b}[2J\u{202e}\u{2028}\u{85}\u{0} x=y";
    let hostile = || Some(text.to_owned());
    let mut record = Record {
        agent: hostile(),
        client: Client { name: hostile(), ..denied().client },
        method: text.into(),
        sni: hostile(),
        url: format!("https://a.example:8443{text}"),
        user_agent: hostile(),
        ..denied()
    };
    record.rule.as_mut().unwrap().pattern = text.into();
    for format in ALL {
        let line = format.line(&record, HASH);
        let breaks = |it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{202e}');
        assert!(!line.contains(breaks), "{format:?}: {line:?}");
    }
    assert_eq!(json_of(EventFormat::Ecs, &record)["user_agent"]["original"], text);
    assert_eq!(json_of(EventFormat::Ocsf, &record)["http_request"]["user_agent"], text);
    let members = extension(&EventFormat::Cef.line(&record, HASH));
    let acts = members.iter().filter(|member| member.0 == "act");
    assert_eq!(acts.map(|member| &*member.1).collect::<Vec<_>>(), ["denied"], "{members:?}");
    let agent = members.iter().find(|member| member.0 == "requestClientApplication").unwrap();
    let expected = text
        .replace('\u{1b}', "\\u001b")
        .replace('\u{202e}', "\\u202e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{85}', "\\u0085")
        .replace('\u{0}', "\\u0000");
    assert_eq!(agent.1, expected);
}

#[test]
fn every_reason_and_a_record_with_nothing_is_an_event() {
    for reason in Reason::ALL {
        let record = record(NOON, "https://a.example", None, reason);
        for format in ALL {
            assert!(format.line(&record, HASH).contains(reason.word()), "{format:?}");
        }
    }
}

#[test]
fn a_client_that_is_hidden_has_no_address_in_an_event() {
    let hash = "~3b1f0c9d2a7e4458";
    let keyed =
        Client { address: Some(ClientAddress::Keyed(hash.into())), name: Some(hash.into()) };
    let record = Record { client: keyed, ..denied() };
    let source = json!({ "address": hash, "user": { "name": hash } });
    assert_eq!(json_of(EventFormat::Ecs, &record)["source"], source);
    let source = json!({ "owner": { "name": hash }, "uid": hash });
    assert_eq!(json_of(EventFormat::Ocsf, &record)["src_endpoint"], source);
    let line = EventFormat::Cef.line(&record, HASH);
    assert!(line.contains(&format!(" suid={hash} ")) && !line.contains(" src="), "{line}");
    let none = Record { client: Client { address: None, name: None }, ..denied() };
    assert_eq!(json_of(EventFormat::Ecs, &none).get("source"), None);
    assert_eq!(json_of(EventFormat::Ocsf, &none).get("src_endpoint"), None);
    let line = EventFormat::Cef.line(&none, HASH);
    assert!(!line.contains(" src=") && !line.contains(" suid="), "{line}");
}
