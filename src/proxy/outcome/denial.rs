//! A denial as data: its record and the shape of its response. The 403 is made from the record, so
//! that both say the same.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::robots_summary::RobotsSummary;
use crate::audit::evidence::{Blob, Kind};
use crate::audit::{Record, read_as_clause};
use crate::store::OriginRobots;
use crate::types::problem::Problem;

/// A refusal by policy, as it is to be recorded. It has a response only as a
/// [`Recorded`](super::recorded::Recorded) one.
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
