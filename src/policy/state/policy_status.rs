//! What follows from a state at a time: rules, everything allowed, everything disallowed, or a
//! fetch that is due first.

use std::time::Duration;

use super::super::access::Cause;
use super::super::profile::{Access, Meaning, Outage, OutageCopy, Profile};
use super::{RobotsCopy, RobotsState, Unreachable};
use crate::types::timestamp::Timestamp;

/// Failed tries without which no outage has been observed, however long ago it began.
const OUTAGE_TRIES_MIN: u32 = 3;

/// What an origin's state says at a given time.
#[derive(Clone, Copy, Debug)]
pub enum PolicyStatus<'a> {
    Current(Policy<'a>),
    /// The robots.txt must be fetched before anything follows.
    Due,
}

/// What applies to the requests of an origin.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    Rules(&'a RobotsCopy),
    AllowAll(Absence<'a>),
    DisallowAll(Absence<'a>),
}

/// Why there are no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence<'a> {
    pub kind: AbsenceKind,
    pub cause: &'a Cause,
    pub since: Timestamp,
    /// How long that has been so.
    pub lasting: Duration,
    /// When the file will be fetched again, if the origin is requested then.
    pub next_try: Timestamp,
}

/// The kinds of absence of rules (RFC 9309 §2.3.1.3, §2.3.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsenceKind {
    Unavailable,
    Unreachable,
    /// Unreachable for longer than the profile disallows everything.
    LongUnreachable,
}

impl Absence<'_> {
    /// Whether a denial is temporary: the client may retry at `next_try`.
    pub const fn defers(&self) -> bool {
        !matches!(self.kind, AbsenceKind::Unavailable)
    }
}

impl RobotsState {
    /// What the state says at `now` under `profile`.
    pub fn policy_status(&self, profile: &Profile, now: Timestamp) -> PolicyStatus<'_> {
        match self {
            Self::Unknown => PolicyStatus::Due,
            _ if !self.is_current(now) => PolicyStatus::Due,
            Self::Successful { copy, .. } => PolicyStatus::Current(Policy::Rules(copy)),
            Self::Unavailable { copy: Some(copy), .. } => {
                PolicyStatus::Current(Policy::Rules(copy))
            }
            Self::Unavailable { cause, at, fresh_until, copy: None } => {
                let absence = Absence {
                    kind: AbsenceKind::Unavailable,
                    cause,
                    since: *at,
                    lasting: now.since(*at),
                    next_try: *fresh_until,
                };
                PolicyStatus::Current(match profile.meaning(cause) {
                    Meaning::Unavailable => Policy::AllowAll(absence),
                    Meaning::Forbidden | Meaning::Unreachable => Policy::DisallowAll(absence),
                })
            }
            Self::Unreachable(outage) => PolicyStatus::Current(outage.policy(&profile.outage, now)),
        }
    }
}

impl Unreachable {
    fn policy(&self, rule: &Outage, now: Timestamp) -> Policy<'_> {
        // Compared with the last attempt, not with now: the outage was observed only that far.
        let observed = self.tried.since(self.since);
        let is_long = self.failures >= OUTAGE_TRIES_MIN && observed >= rule.after_time;
        let copy = self.copy.as_ref().filter(|_| rule.copy == OutageCopy::Use);
        // The parent failed, maybe not the origin: what the profile allows in an outage does not apply.
        if self.cause.is_of_parent() {
            let absence = self.absence(AbsenceKind::Unreachable, now);
            return copy.map_or(Policy::DisallowAll(absence), Policy::Rules);
        }
        if observed < rule.pause {
            return Policy::DisallowAll(self.absence(AbsenceKind::Unreachable, now));
        }
        if is_long && (copy.is_none() || rule.after_drops_copy) {
            let absence = self.absence(AbsenceKind::LongUnreachable, now);
            let opens = rule.after == Access::Allow && (self.site_up || !rule.after_needs_site_up);
            return if opens { Policy::AllowAll(absence) } else { Policy::DisallowAll(absence) };
        }
        match (copy, rule.without_copy) {
            (Some(copy), _) => Policy::Rules(copy),
            (None, Access::Allow) => Policy::AllowAll(self.absence(AbsenceKind::Unreachable, now)),
            (None, Access::Disallow) => {
                Policy::DisallowAll(self.absence(AbsenceKind::Unreachable, now))
            }
        }
    }

    fn absence(&self, kind: AbsenceKind, now: Timestamp) -> Absence<'_> {
        Absence {
            kind,
            cause: &self.cause,
            since: self.since,
            lasting: now.since(self.since),
            next_try: self.next_try,
        }
    }
}
