//! Types of the settings that are lists of tables: rules for some agents or origins, and
//! exemptions.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::units;
use crate::pace::PaceMode;
use crate::policy::Mode;
use crate::policy::exemption::{OriginPattern, Paths};
use crate::policy::profile::ProfileName;
use crate::types::agent::Token;
use crate::types::origin::Origin;
use crate::types::origin::host::Glob;
use crate::types::timestamp::Timestamp;

/// `[[agents.rules]]`: a rule for User-Agents that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRule {
    /// Matches the whole User-Agent, in any case.
    #[serde(rename = "match")]
    pub matches: Glob,
    #[serde(default)]
    pub token: Option<Token>,
    #[serde(default)]
    pub mode: Option<Mode>,
    #[serde(default)]
    pub profile: Option<ProfileName>,
    #[serde(default, with = "units::status_option")]
    pub deny_status: Option<StatusCode>,
    #[serde(default)]
    pub pace: Option<PaceMode>,
    /// The longest that a request waits for its turn.
    #[serde(default, with = "units::delay_option")]
    pub max_wait: Option<Duration>,
    #[serde(default, with = "units::status_option")]
    pub pace_status: Option<StatusCode>,
}

/// `[[origins]]`: a rule for one origin. An agent's rule takes precedence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginRule {
    #[serde(with = "units::origin")]
    pub origin: Origin,
    #[serde(default)]
    pub mode: Option<Mode>,
    #[serde(default)]
    pub profile: Option<ProfileName>,
    #[serde(default)]
    pub pace: Option<PaceMode>,
    /// Between two requests, whatever the site asks.
    #[serde(default, with = "units::delay_option")]
    pub delay: Option<Duration>,
    /// Requests under way at one time.
    #[serde(default, with = "units::count_option")]
    pub concurrency: Option<usize>,
}

impl OriginRule {
    /// A rule for `origin` that leaves everything to the defaults.
    pub const fn of(origin: Origin) -> Self {
        Self { origin, mode: None, profile: None, pace: None, delay: None, concurrency: None }
    }
}

/// `[[exemptions]]`: a permission to fetch despite robots.txt, and its author.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exemption {
    #[serde(with = "units::origin_pattern")]
    pub origin: OriginPattern,
    /// None: the whole origin.
    #[serde(default)]
    pub paths: Paths,
    /// Product tokens, in any case; none: every agent.
    #[serde(default)]
    pub agents: Vec<Token>,
    /// The person who allowed it.
    pub by: String,
    pub reason: String,
    #[serde(default)]
    pub ticket: Option<String>,
    /// From this moment on it no longer applies.
    #[serde(with = "units::date")]
    pub until: Timestamp,
    /// In place of the delay that the robots.txt asks for.
    #[serde(default, with = "units::delay_option")]
    pub crawl_delay: Option<Duration>,
}
