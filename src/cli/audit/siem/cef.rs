//! The Common Event Format, `CEF:0`, with the names of its dictionary for event producers.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::subject::{Asked, is_denied};
use crate::audit::{ClientAddress, Record};
use crate::types::sanitize;

/// The line of `record`, whose line in the log has `hash`.
pub fn line(record: &Record, hash: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let severity = if is_denied(record) { 3 } else { 1 };
    // Words of the tables of reasons and events: none has a pipe or a backslash.
    let (reason, label) = (record.reason.word(), record.reason.row().label);
    let mut line = format!("CEF:0|courtesy|courtesy|{version}|{reason}|{label}|{severity}|");
    for (key, value) in extension(record, hash) {
        if let Some(value) = value {
            let separator = if line.ends_with('|') { "" } else { " " };
            let _ = write!(line, "{separator}{key}={}", escaped(&value));
        }
    }
    line
}

type Member = (&'static str, Option<String>);

fn extension(record: &Record, hash: &str) -> Vec<Member> {
    let Asked { scheme, host, port, .. } = Asked::of(record);
    let robots = record.robots.as_deref();
    let rule = record
        .rule
        .as_ref()
        .map(|rule| format!("{}: {}: {}", rule.line, rule.directive, rule.pattern));
    let exemption = record.exemption.as_ref().map(|it| match &it.ticket {
        Some(ticket) => format!("{}: {} ({ticket})", it.by, it.reason),
        None => format!("{}: {}", it.by, it.reason),
    });
    let mut members = vec![
        ("rt", Some(record.time.millis().to_string())),
        ("act", Some(record.event.word().to_owned())),
        ("reason", Some(record.reason.word().to_owned())),
        ("app", Some(scheme.to_ascii_uppercase())),
        ("suser", record.client.name.clone()),
        ("dhost", Some(host.to_owned())),
        ("dpt", port.map(|port| port.to_string())),
        ("requestMethod", Some(record.method.clone())),
        ("request", Some(record.url.clone())),
        ("requestClientApplication", record.user_agent.clone()),
        ("dvchost", record.node.as_ref().map(ToString::to_string)),
        ("externalId", Some(record.id.clone())),
    ];
    members.extend(match &record.client.address {
        Some(ClientAddress::Plain(IpAddr::V4(address))) => vec![("src", Some(address.to_string()))],
        // `src` has IPv4 addresses alone.
        Some(ClientAddress::Plain(IpAddr::V6(address))) => {
            labelled("c6a2", "c6a2Label", "Source IPv6 Address", Some(address.to_string()))
        }
        Some(ClientAddress::Keyed(hash)) => vec![("suid", Some(hash.clone()))],
        None => Vec::new(),
    });
    for (key, label_key, label, value) in [
        ("cs1", "cs1Label", "agent", record.agent.clone()),
        ("cs2", "cs2Label", "rule", rule),
        ("cs3", "cs3Label", "robots.txt", robots.map(|robots| robots.url.clone())),
        ("cs4", "cs4Label", "robots.txt SHA-256", robots.and_then(|robots| robots.sha256.clone())),
        ("cs5", "cs5Label", "exemption", exemption),
        ("cs6", "cs6Label", "hash", Some(hash.to_owned())),
        ("cn1", "cn1Label", "seq", Some(record.seq.to_string())),
    ] {
        members.extend(labelled(key, label_key, label, value));
    }
    members
}

/// A member whose meaning its label says; none without a value.
fn labelled(
    key: &'static str,
    label_key: &'static str,
    label: &str,
    value: Option<String>,
) -> Vec<Member> {
    let label = value.is_some().then(|| label.to_owned());
    vec![(label_key, label), (key, value)]
}

/// A value: a backslash, an equals sign and ends of lines have their escapes. Whatever else could break a line or
/// turn its direction stands as in JSON, with the backslash escaped.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('=', "\\=");
    let escape = |text: &mut String, character| match character {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        _ => {
            text.push('\\');
            sanitize::escape_json(text, character);
        }
    };
    sanitize::shown(&value, escape).into_owned()
}
