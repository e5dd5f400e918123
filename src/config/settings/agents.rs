//! Rules for crawlers, and the status of a refusal.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::rules::AgentRule;
use crate::config::units;

/// `[agents]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Whether a request without a User-Agent is refused.
    pub require: bool,
    /// The first that matches applies.
    pub rules: Vec<AgentRule>,
}

/// `[deny]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deny {
    #[serde(with = "units::status")]
    pub status: StatusCode,
    /// The status of a denial because robots.txt is unreachable.
    #[serde(with = "units::status")]
    pub unreachable_status: StatusCode,
}

impl Default for Deny {
    fn default() -> Self {
        Self { status: StatusCode::FORBIDDEN, unreachable_status: StatusCode::FORBIDDEN }
    }
}
