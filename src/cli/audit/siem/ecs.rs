//! The Elastic Common Schema.

use serde_json::{Value, json};

use super::subject::{Asked, is_denied, rule, unmapped};
use crate::audit::{Client, Record, print_time};

/// The version whose names are used.
const VERSION: &str = "8.11.0";

/// The event of `record`, whose line has `hash`.
pub fn event(record: &Record, hash: &str) -> Value {
    let Asked { scheme, host, port, path, query } = Asked::of(record);
    let Client { address, name } = &record.client;
    let robots = record.robots.as_deref();
    json!({
        "@timestamp": print_time(record.time),
        "courtesy": unmapped(record),
        "destination": { "address": host, "domain": host, "port": port },
        "ecs": { "version": VERSION },
        "event": {
            "action": record.event.word(),
            "category": ["network", "web"],
            "dataset": "courtesy.denials",
            "hash": hash,
            "id": record.id,
            "kind": "event",
            "module": "courtesy",
            // That of the proxy's part: what a request that was passed on came to is not known.
            "outcome": if is_denied(record) { "success" } else { "unknown" },
            "reason": record.reason.word(),
            "sequence": record.seq,
            "type": ["access", if is_denied(record) { "denied" } else { "allowed" }],
        },
        "http": { "request": { "method": record.method } },
        "message": format!("{}: {} {}", record.event.word(), record.method, record.url),
        "observer": {
            "name": record.node.as_ref().map(ToString::to_string),
            "product": "courtesy",
            "type": "proxy",
            "vendor": "courtesy",
        },
        "rule": {
            "id": record.rule.as_ref().map(|rule| rule.line.to_string()),
            "name": rule(record),
            "ruleset": robots.map(|robots| &robots.url),
            "version": robots.and_then(|robots| robots.sha256.as_ref()),
        },
        "source": { "address": address, "ip": record.client.ip(), "user": { "name": name } },
        "tls": { "client": { "server_name": record.sni } },
        "trace": { "id": record.trace_id },
        "url": {
            "domain": host,
            "full": record.url,
            "original": record.url_as_received,
            "path": path,
            "port": port,
            "query": query,
            "scheme": scheme,
        },
        "user_agent": { "name": record.agent, "original": record.user_agent },
    })
}
