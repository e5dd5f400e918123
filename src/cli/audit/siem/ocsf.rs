//! The Open Cybersecurity Schema Framework: class HTTP Activity (4002), with the profiles Security Control and Network
//! Proxy.

use serde_json::{Value, json};

use super::subject::{Asked, is_denied, rule, unmapped};
use crate::audit::{Event, Record, print_time};

/// The version whose names and numbers are used.
const VERSION: &str = "1.6.0";

const CLASS: u32 = 4002;

/// The event of `record`, whose line has `hash`.
pub fn event(record: &Record, hash: &str) -> Value {
    let Asked { scheme, host, port, path, query } = Asked::of(record);
    let (activity, activity_name) = activity(&record.method);
    let (disposition, disposition_name) = disposition(record.event);
    let keyed = record.client.address.as_ref().filter(|_| record.client.ip().is_none());
    let robots = record.robots.as_deref();
    let sha256 = robots.and_then(|robots| robots.sha256.as_ref());
    let mut unmapped = unmapped(record);
    unmapped["hash"] = json!(hash);
    unmapped["sni"] = json!(record.sni);
    json!({
        "action": if is_denied(record) { "Denied" } else { "Allowed" },
        "action_id": if is_denied(record) { 2 } else { 1 },
        "activity_id": activity,
        "activity_name": activity_name,
        "category_name": "Network Activity",
        "category_uid": 4,
        "class_name": "HTTP Activity",
        "class_uid": CLASS,
        "disposition": disposition_name,
        "disposition_id": disposition,
        "dst_endpoint": { "hostname": host, "port": port },
        "firewall_rule": {
            "name": rule(record),
            "uid": record.rule.as_ref().map(|rule| rule.line.to_string()),
        },
        "http_request": {
            "http_method": record.method,
            "url": {
                "hostname": host,
                "path": path,
                "port": port,
                "query_string": query,
                "scheme": scheme,
                "url_string": record.url,
            },
            "user_agent": record.user_agent,
        },
        "message": format!("{}: {} {}", record.event.word(), record.method, record.url),
        "metadata": {
            "correlation_uid": record.trace_id,
            "event_code": record.event.word(),
            "log_name": "denials",
            "original_time": print_time(record.time),
            "product": { "name": "courtesy", "vendor_name": "courtesy" },
            "profiles": ["security_control", "network_proxy"],
            "sequence": record.seq,
            "uid": record.id,
            "version": VERSION,
        },
        "policy": robots.map(|robots| json!({
            "name": "robots.txt", "uid": robots.url, "version": sha256,
        })),
        "proxy_endpoint": { "name": record.node.as_ref().map(ToString::to_string) },
        "severity": "Informational",
        "severity_id": 1,
        "src_endpoint": {
            "ip": record.client.ip(),
            "owner": { "name": record.client.name },
            "uid": keyed,
        },
        "status_detail": record.reason.word(),
        "time": record.time.millis(),
        "type_name": format!("HTTP Activity: {activity_name}"),
        "type_uid": CLASS * 100 + activity,
        "unmapped": unmapped,
    })
}

/// `activity_id`, and its caption or, of another method, the method.
fn activity(method: &str) -> (u32, &str) {
    match method {
        "CONNECT" => (1, "Connect"),
        "DELETE" => (2, "Delete"),
        "GET" => (3, "Get"),
        "HEAD" => (4, "Head"),
        "OPTIONS" => (5, "Options"),
        "POST" => (6, "Post"),
        "PUT" => (7, "Put"),
        "TRACE" => (8, "Trace"),
        "PATCH" => (9, "Patch"),
        other => (99, other),
    }
}

/// `disposition_id` and its caption.
const fn disposition(event: Event) -> (u32, &'static str) {
    match event {
        Event::Denied => (2, "Blocked"),
        // A violation that was detected, without further action.
        Event::WouldDeny => (15, "Detected"),
        Event::Exempted | Event::Tunnelled => (1, "Allowed"),
    }
}
