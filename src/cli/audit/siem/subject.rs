//! What several formats make of a record.

use serde_json::{Value, json};

use crate::audit::{Event, Record, print_time};

/// Whether the request was refused. Of one that was not, what came of it is not in its record.
pub fn is_denied(record: &Record) -> bool {
    record.event == Event::Denied
}

/// What was asked for, in parts.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub scheme: &'a str,
    /// Without the brackets of an IPv6 address.
    pub host: &'a str,
    /// Of TCP; none where it is unknown.
    pub port: Option<u16>,
    /// None of a tunnel.
    pub path: Option<&'a str>,
    pub query: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Of the request of `record`.
    pub fn of(record: &'a Record) -> Self {
        let (scheme, authority) = record.origin.split_once(":").unwrap_or(("", &record.origin));
        let authority = authority.trim_start_matches('/');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (authority, None),
        };
        let of_scheme = match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        let rest = record.url.strip_prefix(&record.origin).filter(|_| record.path_seen);
        let (path, query) = rest.map_or((None, None), |rest| match rest.split_once('?') {
            Some((path, query)) => (Some(path), Some(query)),
            None => (Some(rest), None),
        });
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { scheme, host, port: port.or(of_scheme), path, query }
    }
}

/// What ECS and OCSF have no name for, by the names of the record.
pub fn unmapped(record: &Record) -> Value {
    json!({
        "agent": record.agent,
        "agent_source": record.agent_source,
        "event": record.event,
        "exemption": record.exemption,
        "group": record.group,
        "pace_seen": record.pace_seen,
        "path_seen": record.path_seen,
        "prev": record.prev,
        "profile": record.profile,
        "reason": record.reason,
        "robots": record.robots.as_deref().map(|robots| json!({
            "capture": robots.capture,
            "cause": robots.cause,
            "fetched_at": robots.fetched_at.map(print_time),
            "sha256": robots.sha256,
            "state": robots.state,
            "status": robots.status,
            "url": robots.url,
        })),
        "rule": record.rule,
        "setting": record.setting,
        "url_as_received": record.url_as_received,
    })
}

/// `disallow: /private/`.
pub fn rule(record: &Record) -> Option<String> {
    record.rule.as_ref().map(|rule| format!("{}: {}", rule.directive, rule.pattern))
}
