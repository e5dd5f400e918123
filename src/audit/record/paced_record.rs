//! The notice of a delay that a robots.txt asks for.

use serde::{Deserialize, Serialize};

use super::denial_record::{Group, Profile};
use super::meta_event::PacedEvent;
use super::node::Node;
use super::shared_robots::SharedRobots;
use crate::policy::exemption;
use crate::types::timestamp::Timestamp;

/// Requests of one group at one origin are kept a delay apart, because a line of the robots.txt asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// The product token of the request that was the first of the day.
    pub agent: Option<String>,
    /// The line asks for more than is kept (`pace.max_crawl_delay`, or the profile's bound).
    pub clamped: bool,
    /// What is kept between two starts.
    pub delay_ms: u64,
    pub event: PacedEvent,
    /// By which the delay is another than the line asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exemption: Option<Box<PaceExemption>>,
    /// The group that applied; none where a record outside of all groups did.
    pub group: Option<Box<Group>>,
    /// The line of the record in robots.txt, 1-based.
    pub line: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The waits are computed, and no request waits (`pace.mode = "observe"`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    pub origin: String,
    /// False of a tunnel: the requests inside it are not held. Left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_seen: Option<bool>,
    pub prev: String,
    pub profile: Box<Profile>,
    pub robots: SharedRobots,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// `crawl_delay` or `request_rate`.
    pub source: String,
    /// The line as written.
    pub text: String,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// An exemption with a delay of its own (`crawl_delay`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaceExemption {
    pub by: String,
    pub ticket: Option<String>,
    #[serde(with = "super::time")]
    pub until: Timestamp,
    /// Its reason.
    pub why: String,
}

impl PaceExemption {
    /// As the settings have it.
    pub fn of(exemption: &exemption::Exemption) -> Self {
        let exemption::Exemption { by, ticket, until, reason, .. } = exemption;
        Self { by: by.clone(), ticket: ticket.clone(), until: *until, why: reason.clone() }
    }
}
