//! What an answer of the proxy says, as JSON (RFC 9457), and to be put on a page.

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::denial::Denial;
use super::problem::Problem;
use crate::audit::{Group, Reason, Rule};

/// A problem, and where it is a denial what its record says. What has no value is left out.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    remedy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    robots: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a Rule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a str>,
}

/// What every problem has.
const COMMON: [&str; 5] = ["type", "title", "status", "detail", "remedy"];

impl<'a> Document<'a> {
    pub fn of(problem: Problem, status: StatusCode, detail: &'a str) -> Self {
        let row = problem.row();
        Self {
            r#type: problem.uri(),
            title: row.title,
            status: status.as_u16(),
            detail,
            remedy: row.remedy,
            url: None,
            agent: None,
            reason: None,
            robots: None,
            group: None,
            rule: None,
            record: None,
        }
    }

    /// The same, of a request that is denied.
    pub fn denied(self, denial: &'a Denial) -> Self {
        let record = &denial.record;
        Self {
            url: Some(&record.url),
            agent: record.agent.as_deref(),
            reason: Some(record.reason),
            robots: denial.statement.as_ref().map(|statement| &*statement.shown),
            group: record.group.as_ref(),
            rule: record.rule.as_ref(),
            record: denial.is_recorded.then_some(record.id.as_str()),
            ..self
        }
    }

    /// For people's eyes, too: one member a line.
    pub fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// What only this problem has.
    pub fn members(&self) -> Map<String, Value> {
        let all: Map<String, Value> = serde_json::from_slice(&self.json()).unwrap_or_default();
        all.into_iter().filter(|(name, _)| !COMMON.contains(&name.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_says_what_is_common_to_all_and_nothing_without_a_value() {
        let document = Document::of(Problem::Busy, StatusCode::SERVICE_UNAVAILABLE, "too \"many\"");
        let json: Map<String, Value> = serde_json::from_slice(&document.json()).unwrap();
        assert!(json.keys().eq(COMMON.iter()), "{json:?}");
        assert_eq!((&json["status"], &json["detail"]), (&json!(503), &json!("too \"many\"")));
        assert!(document.members().is_empty());
    }
}
