//! A record as a row of a spreadsheet.

use serde::Serialize;

use crate::audit::{Exemption, Record, Robots, print_time};

/// The columns. Their names are a public interface.
pub const HEADER: [&str; 36] = [
    "seq",
    "time",
    "id",
    "event",
    "reason",
    "client_address",
    "client_name",
    "method",
    "url",
    "origin",
    "path_seen",
    "agent",
    "agent_source",
    "user_agent",
    "profile",
    "profile_version",
    "group",
    "group_line",
    "rule_line",
    "rule_directive",
    "rule_pattern",
    "robots_url",
    "robots_url_reached",
    "robots_state",
    "robots_status",
    "robots_cause",
    "robots_sha256",
    "robots_fetched_at",
    "robots_since",
    "exemption_by",
    "exemption_reason",
    "exemption_ticket",
    "exemption_until",
    "hash",
    "node",
    "url_as_received",
];

/// The cells in the order of [`HEADER`]. A member that a record lacks is empty.
pub fn row(record: &Record, hash: &str) -> [String; HEADER.len()] {
    let (group, rule) = (record.group.as_ref(), record.rule.as_ref());
    let robots = |cell: fn(&Robots) -> Option<String>| record.robots.as_deref().and_then(cell);
    let exemption =
        |cell: fn(&Exemption) -> Option<String>| record.exemption.as_ref().and_then(cell);
    [
        Some(record.seq.to_string()),
        Some(print_time(record.time)),
        Some(record.id.clone()),
        Some(word(record.event)),
        Some(word(record.reason)),
        Some(record.client.address.to_string()),
        record.client.name.clone(),
        Some(record.method.clone()),
        Some(record.url.clone()),
        Some(record.origin.clone()),
        Some(record.path_seen.to_string()),
        record.agent.clone(),
        Some(word(record.agent_source)),
        record.user_agent.clone(),
        Some(record.profile.name.clone()),
        Some(record.profile.version.to_string()),
        group.map(|group| group.token.clone()),
        group.map(|group| group.line.to_string()),
        rule.map(|rule| rule.line.to_string()),
        rule.map(|rule| rule.directive.clone()),
        rule.map(|rule| rule.pattern.clone()),
        robots(|robots| Some(robots.url.clone())),
        robots(|robots| robots.url_reached.clone()),
        robots(|robots| Some(word(robots.state))),
        robots(|robots| robots.status.map(|status| status.to_string())),
        robots(|robots| robots.cause.clone()),
        robots(|robots| robots.sha256.clone()),
        robots(|robots| robots.fetched_at.map(print_time)),
        robots(|robots| robots.since.map(print_time)),
        exemption(|exemption| Some(exemption.by.clone())),
        exemption(|exemption| Some(exemption.reason.clone())),
        exemption(|exemption| exemption.ticket.clone()),
        exemption(|exemption| Some(print_time(exemption.until))),
        Some(hash.to_owned()),
        record.node.as_ref().map(ToString::to_string),
        record.url_as_received.clone(),
    ]
    .map(|cell| harmless(cell.unwrap_or_default()))
}

/// The word that stands for a value in the record.
pub fn word(value: impl Serialize) -> String {
    let word = serde_json::to_value(value).expect("it is a word");
    word.as_str().unwrap_or_default().to_owned()
}

/// A spreadsheet would compute text that begins like a formula, and the text is from outside: with
/// an apostrophe before it, it stays a text.
fn harmless(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}") } else { cell }
}
