//! A denial as data: its record, and how it is answered. The 403 is made from the record, so that
//! both say the same.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::problem::Problem;
use super::statements::Statement;
use crate::audit::evidence::{Blob, Kind};
use crate::audit::{Record, mended};
use crate::store::Known;

/// A refused request.
#[derive(Debug)]
pub struct Denial {
    pub record: Record,
    /// Whether the record is in the log; otherwise a later line there says that one is missing.
    pub is_recorded: bool,
    pub problem: Problem,
    pub status: StatusCode,
    pub proxy_error: &'static str,
    /// Words for the cause that the record has no field for.
    pub cause: Option<String>,
    pub retry_after: Option<Duration>,
    /// What the record says of the robots.txt.
    pub statement: Option<Arc<Statement>>,
    /// What the record can be checked against.
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
                let mended = mended(&rule.read_as);
                format!(
                    "Line {line} of {robots_url}, \"{directive}: {pattern}\", applies to {agent}{mended}."
                )
            }
            (Problem::RobotsUnreachable, _) => {
                format!(
                    "{robots_url} cannot be had ({cause}), so nothing of {origin} may be fetched for now."
                )
            }
            (Problem::HostNotFound, _) => {
                format!(
                    "There is no {origin} ({cause}), and without its robots.txt nothing of it may be fetched."
                )
            }
            (Problem::RobotsAccessDenied, _) => {
                format!(
                    "{origin} does not give out its robots.txt ({cause}), so nothing of it may be fetched."
                )
            }
            (Problem::Undecided, _) if robots.is_some() => {
                format!(
                    "Which rule of {robots_url} applies to {agent} takes too many steps to find out for this URL, \
                     and undecided is denied."
                )
            }
            (Problem::OriginRefused | Problem::PortNotAllowed, _) => format!("{cause}."),
            (Problem::Undecided, _) if !cause.is_empty() => {
                format!(
                    "Whether robots.txt allows this could not be found out, and undecided is denied: {cause}."
                )
            }
            _ => self.problem.row().meaning.to_owned(),
        }
    }

    pub(super) fn rests_on(&mut self, known: &Known, statement: Arc<Statement>) {
        self.record.robots = Some(statement.grounds.clone());
        self.statement = Some(statement);
        self.blobs = blobs(known);
    }

    /// The `Proxy-Status` of the answer, without addresses (RFC 9209 §4).
    pub fn proxy_status(&self) -> String {
        let details = match (&self.record.rule, self.problem) {
            (Some(rule), _) => format!("robots.txt line {}", rule.line),
            (None, problem) => problem.row().title.to_owned(),
        };
        format!("courtesy; error={}; details=\"{details}\"", self.proxy_error)
    }
}

/// The file and how it came; and how the last attempt failed, if it did.
fn blobs(known: &Known) -> Vec<Blob> {
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
