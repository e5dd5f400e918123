//! The robots.txt that a denial rests on, as the record and the response show it.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::audit::{Robots, SharedRobots};

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
