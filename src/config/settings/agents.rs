//! Rules for crawlers.

use serde::{Deserialize, Serialize};

use crate::config::rules::AgentRule;

/// `[agents]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Whether a request without a User-Agent is refused.
    pub require: bool,
    /// The first that matches applies.
    pub rules: Vec<AgentRule>,
}
