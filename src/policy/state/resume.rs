//! Restores a state after a restart, or derives it under another profile.

use super::super::profile::{Meaning, Profile};
use super::{RobotsCopy, RobotsState, Unreachable};
use crate::policy::limits::RETRY_AFTER_MAX;

impl RobotsState {
    /// Whether transitions under `profile` can have led to this state. A stored state that fails is
    /// ignored: whatever wrote it, it must neither allow nor deny anything.
    pub fn is_possible(&self, profile: &Profile) -> bool {
        let lifetimes = &profile.lifetimes;
        match self {
            Self::Unknown => false,
            Self::Successful { copy, at, fresh_until } => {
                let longest = lifetimes.ceiling.max(lifetimes.floor);
                copy.confirmed_at == *at && (*at..=at.plus(longest)).contains(fresh_until)
            }
            Self::Unavailable { cause, at, fresh_until, .. } => {
                profile.meaning(cause) != Meaning::Unreachable
                    && (*at..=at.plus(lifetimes.unavailable)).contains(fresh_until)
            }
            Self::Unreachable(outage) => outage.is_possible(profile),
        }
    }

    /// The outage, if there is one.
    pub const fn outage(&self) -> Option<&Unreachable> {
        match self {
            Self::Unreachable(outage) => Some(outage),
            _ => None,
        }
    }
}

impl Unreachable {
    /// The outage before its last failure, with the copy of another profile. Where two profiles
    /// give every status the same meaning, they have observed the same outage: applying that
    /// failure again continues it, and changing an unrelated knob does not restart it.
    pub fn before_last_failure(&self, copy: Option<RobotsCopy>) -> Self {
        Self { failures: self.failures.saturating_sub(1), copy, ..self.clone() }
    }

    fn is_possible(&self, profile: &Profile) -> bool {
        let rule = &profile.outage;
        let longest = rule.retry_max.max(rule.retry_min).max(RETRY_AFTER_MAX);
        profile.meaning(&self.cause) == Meaning::Unreachable
            && self.failures >= 1
            && self.since <= self.tried
            && (self.tried..=self.tried.plus(longest)).contains(&self.next_try)
    }
}
