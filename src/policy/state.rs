//! What is known of an origin's robots.txt (RFC 9309 §2.3.1 and §2.4).
//!
//! One query, [`RobotsState::policy_status`], whose result cannot be used when it is too old; one
//! transition, [`RobotsState::after`]. Two promises: right after any result the policy is
//! current, and an unreachable file without a copy never allows earlier than the profile says.

mod policy_status;
mod resume;
#[cfg(test)]
mod tests;
mod transition;

use std::sync::Arc;

use super::access::{Cause, Snapshot};
use crate::policy::limits::CLOCK_SET_BACK_MAX;
use crate::robots::RobotsTxt;
use crate::types::timestamp::Timestamp;
pub use policy_status::{Absence, AbsenceKind, Policy, PolicyStatus};
pub use transition::Circumstances;

/// The state of an origin's robots.txt.
#[derive(Clone, Debug)]
pub enum RobotsState {
    /// Never fetched.
    Unknown,
    Successful {
        copy: RobotsCopy,
        at: Timestamp,
        fresh_until: Timestamp,
    },
    Unavailable {
        cause: Cause,
        at: Timestamp,
        fresh_until: Timestamp,
        copy: Option<RobotsCopy>,
    },
    Unreachable(Unreachable),
}

/// A robots.txt, as parsed and as received.
#[derive(Clone, Debug)]
pub struct RobotsCopy {
    pub rules: Arc<RobotsTxt>,
    pub snapshot: Arc<Snapshot>,
    /// When the origin last confirmed this file.
    pub confirmed_at: Timestamp,
}

/// An outage: the file is unreachable, and since when.
#[derive(Clone, Debug)]
pub struct Unreachable {
    pub cause: Cause,
    pub since: Timestamp,
    pub tried: Timestamp,
    /// Failed attempts so far.
    pub failures: u32,
    pub next_try: Timestamp,
    pub copy: Option<RobotsCopy>,
    /// Whether the site's pages responded when the file last did not.
    pub site_up: bool,
}

impl RobotsState {
    /// Whether the state is in the last tenth of its freshness: it may be used, and is worth
    /// refreshing.
    pub fn needs_refresh(&self, now: Timestamp) -> bool {
        match self {
            Self::Successful { at, fresh_until, .. }
            | Self::Unavailable { at, fresh_until, .. } => {
                now.until(*fresh_until) <= at.until(*fresh_until) / 10
            }
            Self::Unknown | Self::Unreachable(_) => false,
        }
    }

    /// The stable word of the audit record.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Successful { .. } => "rules",
            Self::Unavailable { .. } => "unavailable",
            Self::Unreachable(_) => "unreachable",
        }
    }

    /// Since when the state has been the current one.
    pub const fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::Successful { at, .. } | Self::Unavailable { at, .. } => Some(*at),
            Self::Unreachable(outage) => Some(outage.since),
        }
    }

    /// Until when the state holds; after that the file is fetched again.
    pub const fn next_try(&self) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::Successful { fresh_until, .. } | Self::Unavailable { fresh_until, .. } => {
                Some(*fresh_until)
            }
            Self::Unreachable(outage) => Some(outage.next_try),
        }
    }

    /// The last good copy, if there is one.
    pub const fn copy(&self) -> Option<&RobotsCopy> {
        match self {
            Self::Unknown => None,
            Self::Successful { copy, .. } => Some(copy),
            Self::Unavailable { copy, .. } => copy.as_ref(),
            Self::Unreachable(outage) => outage.copy.as_ref(),
        }
    }

    /// When the last fetch ended.
    pub const fn tried_at(&self) -> Option<Timestamp> {
        match self {
            Self::Unreachable(outage) => Some(outage.tried),
            _ => self.since(),
        }
    }

    /// Whether it decides at `now`: it is known, and not due.
    pub fn is_current(&self, now: Timestamp) -> bool {
        let ends_later = self.next_try().is_some_and(|end| now < end);
        let began_earlier = self.tried_at().is_some_and(|at| at <= now.plus(CLOCK_SET_BACK_MAX));
        ends_later && began_earlier
    }
}
