//! A denial as data: its record and the shape of its response. The 403 is made from the record, so
//! that both say the same.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::debug;

use crate::audit::evidence::{Blob, Kind};
use crate::audit::{Event, Record, Robots, SharedRobots, WriteError, Writer, read_as_clause};
use crate::store::OriginRobots;
use crate::types::problem::Problem;
use crate::watch::SiteRow;

/// A refusal by policy, as it is to be recorded. It has a response only as a
/// [`Recorded`] one.
#[derive(Debug)]
pub struct Denial {
    pub record: Record,
    pub problem: Problem,
    pub status: StatusCode,
    /// The `error` of `Proxy-Status` (RFC 9209 §2.3).
    pub proxy_error: &'static str,
    /// A cause that has no member in the record.
    pub cause: Option<String>,
    /// The value of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The robots.txt that the denial rests on.
    pub robots: Option<Arc<RobotsSummary>>,
    /// Files and captures that the record can be checked against.
    pub blobs: Vec<Blob>,
    /// Where what is asked of the site is counted.
    pub site: Arc<SiteRow>,
}

impl Denial {
    /// One sentence that the owner of the site would accept as true.
    pub fn sentence(&self) -> String {
        let Record { origin, agent, rule, robots, .. } = &self.record;
        let agent = agent.as_deref().unwrap_or("a client without a product token");
        let robots_url = robots.as_ref().map_or("robots.txt", |robots| robots.url.as_str());
        let cause = self.cause.as_deref().unwrap_or_default();
        match (self.problem, rule) {
            (Problem::Disallowed, Some(rule)) => {
                let pattern = &rule.pattern;
                let (line, directive) = (rule.line, &rule.directive);
                let read_as = read_as_clause(&rule.read_as);
                format!(
                    "Line {line} of {robots_url}, \"{directive}: {pattern}\", applies to {agent}{read_as}."
                )
            }
            (Problem::RobotsUnreachable, _) => {
                format!(
                    "{robots_url} cannot be fetched ({cause}), so everything on {origin} is \
                     disallowed for now."
                )
            }
            (Problem::HostNotFound, _) => {
                format!(
                    "{origin} does not exist ({cause}), and without its robots.txt everything on it \
                     is disallowed."
                )
            }
            (Problem::RobotsAccessDenied, _) => {
                format!(
                    "{origin} denies access to its robots.txt ({cause}), so everything on it is \
                     disallowed."
                )
            }
            (Problem::Undecided, _) if robots.is_some() => {
                format!(
                    "To decide which rule of {robots_url} applies to {agent} takes too many steps \
                     for this URL, and what is undecided is denied."
                )
            }
            (Problem::OriginRefused | Problem::PortNotAllowed, _) => format!("{cause}."),
            (Problem::Undecided, _) if !cause.is_empty() => {
                format!(
                    "Whether robots.txt allows this could not be decided, and what is undecided is \
                     denied: {cause}."
                )
            }
            _ => self.problem.row().meaning.to_owned(),
        }
    }

    /// Makes the denial rest on what is `known` of the origin, of which `robots` is the summary.
    pub fn set_evidence(&mut self, known: &OriginRobots, robots: Arc<RobotsSummary>) {
        self.record.robots = Some(robots.record.clone());
        self.robots = Some(robots);
        self.blobs = blobs(known);
    }

    /// The `Proxy-Status` of the response, without addresses (RFC 9209 §4).
    pub fn proxy_status(&self) -> String {
        let details = match (&self.record.rule, self.problem) {
            (Some(rule), _) => format!("robots.txt line {}", rule.line),
            (None, problem) => problem.row().title.to_owned(),
        };
        format!("courtesy; error={}; details=\"{details}\"", self.proxy_error)
    }
}

/// The file and the capture of its fetch; and the capture of the last fetch, if it failed.
pub fn blobs(known: &OriginRobots) -> Vec<Blob> {
    let snapshot = known.state().copy().map(|copy| &*copy.snapshot);
    let file = snapshot.map(|snapshot| Blob {
        sha256: snapshot.sha256,
        kind: Kind::File,
        content: snapshot.body.clone(),
    });
    let captures = snapshot.map(|snapshot| &snapshot.capture);
    let captures = captures.into_iter().chain(known.failed().map(|failed| &failed.capture));
    let captures = captures.map(|capture| Blob {
        sha256: capture.sha256,
        kind: Kind::Capture,
        content: capture.json.clone(),
    });
    file.into_iter().chain(captures).collect()
}

/// A `T` whose record has been written, or has been lost: then the writer logs and counts the loss,
/// a later record says that one is missing, and the denial stands. Or the disk does not answer, and
/// its record may be written late: then no response says so. Only [`Recorded::write`] makes
/// one, and only `decision/enforce.rs` calls it.
#[derive(Debug)]
pub struct Recorded<T> {
    inner: T,
    written: Result<(), WriteError>,
}

impl Recorded<Denial> {
    /// Returns when the operating system has the record of `denial`, or the write has failed.
    pub async fn write(denial: Denial, audit: &Writer) -> Self {
        let record = &denial.record;
        let written = audit.write(record.clone(), denial.blobs.clone()).await;
        if let Err(error) = &written {
            debug!(record = record.id, "{error}");
        }
        Self { inner: denial, written: written.map(|_| ()) }
    }

    /// The same denial as one of event `denied`: an exemption does not hold without its record, and
    /// the one record of the request is lost already.
    pub fn without_exemption(mut self) -> Self {
        self.inner.record.event = Event::Denied;
        self
    }
}

impl<T> Recorded<T> {
    /// Whether the record is in the log.
    pub const fn is_in_log(&self) -> bool {
        self.written.is_ok()
    }

    /// Whether the record may come into the log late.
    pub const fn may_be_late(&self) -> bool {
        matches!(self.written, Err(WriteError::NoAnswer))
    }
}

impl<T> Deref for Recorded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

/// What denials under one state of a robots.txt have in common.
#[derive(Debug)]
pub struct RobotsSummary {
    /// For records, which share it.
    pub record: SharedRobots,
    /// For responses, as JSON.
    pub shown: Box<RawValue>,
}

impl RobotsSummary {
    /// Both forms of `robots`.
    pub fn new(robots: Robots) -> Self {
        Self { shown: shown(&robots), record: SharedRobots::from(robots) }
    }
}

/// The value of the member `robots` of a response, for people too: one member a line; members
/// without a value are left out.
fn shown(robots: &Robots) -> Box<RawValue> {
    let mut value = serde_json::to_value(robots).expect("it is made of plain values");
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    // Line ends inside of strings are escaped, so each one here is followed by a member.
    let text = format!("{value:#}").replace('\n', "\n  ");
    RawValue::from_string(text).expect("it was a value")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_without_a_value_are_left_out_and_the_rest_is_indented() {
        let robots = json!({
            "cut": false, "state": "rules", "url": "http://a.example/robots.txt\n", "status": 200,
            "cause": null, "confirmed_at": null, "fetched_at": null, "next_try": null,
            "since": null, "tried": null
        });
        let expected = "{\n    \"cut\": false,\n    \"state\": \"rules\",\n    \"status\": 200,\n    \
                        \"url\": \"http://a.example/robots.txt\\n\"\n  }";
        assert_eq!(shown(&serde_json::from_value(robots).unwrap()).get(), expected);
    }
}
