//! The JSON of a problem (RFC 9457), and its members for a page.

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::audit::{Group, Reason, Rule};
use crate::proxy::outcome::denial::Denial;
use crate::proxy::outcome::recorded::Recorded;
use crate::types::problem::Problem;

/// A problem, with members of the record if it is a denial. Members without a value are left out.
#[derive(Debug, Serialize)]
pub struct ProblemJson<'a> {
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

/// The members of every problem.
const COMMON: [&str; 5] = ["type", "title", "status", "detail", "remedy"];

impl<'a> ProblemJson<'a> {
    /// A problem that is no denial.
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

    /// The same, with the members of a denial.
    pub fn with_denial(self, denial: &'a Recorded<Denial>) -> Self {
        let record = &denial.record;
        Self {
            url: Some(&record.url),
            agent: record.agent.as_deref(),
            reason: Some(record.reason),
            robots: denial.robots.as_ref().map(|robots| &*robots.shown),
            group: record.group.as_ref(),
            rule: record.rule.as_ref(),
            record: denial.is_in_log().then_some(record.id.as_str()),
            ..self
        }
    }

    /// The JSON, for people too: one member a line.
    pub fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("it is made of plain values");
        json.push(b'\n');
        json
    }

    /// The members that not every problem has.
    pub fn members(&self) -> Map<String, Value> {
        let value = serde_json::to_value(self).expect("it is made of plain values");
        let Value::Object(all) = value else { unreachable!("a struct is an object") };
        all.into_iter().filter(|(name, _)| !COMMON.contains(&name.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_has_the_common_members_and_none_without_a_value() {
        let document =
            ProblemJson::of(Problem::Busy, StatusCode::SERVICE_UNAVAILABLE, "too \"many\"");
        let json: Map<String, Value> = serde_json::from_slice(&document.json()).unwrap();
        assert!(json.keys().eq(COMMON.iter()), "{json:?}");
        assert_eq!((&json["status"], &json["detail"]), (&json!(503), &json!("too \"many\"")));
        assert!(document.members().is_empty());
    }
}
