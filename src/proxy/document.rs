//! What an answer of the proxy says, as JSON (RFC 9457), and to be put on a page.

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};

use super::problem::Problem;
use crate::audit::{Group, Reason, Record, Robots, Rule};

/// A problem, and where it is a denial what its record says. What has no value is left out.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    remedy: &'static str,
    url: Option<&'a str>,
    agent: Option<&'a str>,
    reason: Option<Reason>,
    robots: Option<&'a Robots>,
    group: Option<&'a Group>,
    rule: Option<&'a Rule>,
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

    /// The same, of a request that is denied, and recorded so.
    pub fn recorded(self, record: &'a Record) -> Self {
        Self {
            url: Some(&record.url),
            agent: record.agent.as_deref(),
            reason: Some(record.reason),
            robots: record.robots.as_ref(),
            group: record.group.as_ref(),
            rule: record.rule.as_ref(),
            record: Some(&record.id),
            ..self
        }
    }

    /// For people's eyes, too: one member a line.
    pub fn json(&self) -> Vec<u8> {
        without_nulls(&serde_json::to_vec_pretty(self).unwrap_or_default())
    }

    /// What only this problem has.
    pub fn members(&self) -> Map<String, Value> {
        let all: Map<String, Value> = serde_json::from_slice(&self.json()).unwrap_or_default();
        all.into_iter().filter(|(name, _)| !COMMON.contains(&name.as_str())).collect()
    }
}

/// Leaves out the lines of members without a value: no string ends a line without its quotation mark.
fn without_nulls(pretty: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(pretty.len() + 1);
    for line in pretty.split(|octet| *octet == b'\n') {
        if line.ends_with(b": null") || line.ends_with(b": null,") {
            continue;
        }
        // What was to be followed by such a line ends its object now.
        if line.trim_ascii_start().starts_with(b"}") && kept.ends_with(b",\n") {
            kept.truncate(kept.len() - 2);
            kept.push(b'\n');
        }
        kept.extend_from_slice(line);
        kept.push(b'\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_value_is_left_out_wherever_it_stands() {
        for (whole, kept) in [
            (json!({"a": null, "b": 1}), json!({"b": 1})),
            (json!({"a": 1, "b": null}), json!({"a": 1})),
            (json!({"a": null}), json!({})),
            (json!({"a": {"b": null, "c": null}, "d": null}), json!({"a": {}})),
            (json!({"a": {"b": "}", "c": null}, "d": "e"}), json!({"a": {"b": "}"}, "d": "e"})),
            (json!({"a": ": null,\n", "b": "\n}"}), json!({"a": ": null,\n", "b": "\n}"})),
        ] {
            let json = without_nulls(&serde_json::to_vec_pretty(&whole).unwrap());
            assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), kept, "{whole}");
        }
    }

    #[test]
    fn a_problem_says_what_is_common_to_all_and_nothing_without_a_value() {
        let document = Document::of(Problem::Busy, StatusCode::SERVICE_UNAVAILABLE, "too \"many\"");
        let json: Map<String, Value> = serde_json::from_slice(&document.json()).unwrap();
        assert!(json.keys().eq(COMMON.iter()), "{json:?}");
        assert_eq!((&json["status"], &json["detail"]), (&json!(503), &json!("too \"many\"")));
        assert!(document.members().is_empty());
    }
}
