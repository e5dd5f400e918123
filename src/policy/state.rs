//! What is known of an origin's robots.txt (RFC 9309 §2.3.1 and §2.4).
//!
//! One query, [`RobotsState::policy_status`], whose result cannot be used when it is too old; one
//! transition, [`RobotsState::after`]. Two promises: right after any result the policy is
//! current, and an unreachable file without a copy never allows earlier than the profile says.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::CLOCK_SET_BACK_MAX;
use super::access::{AccessResult, Cause, Freshness, Snapshot};
use super::profile::{Meaning, Outage, Profile};
use crate::robots::{FailedTries, InOutage, RETRY_AFTER_MAX, RobotsTxt};
use crate::types::timestamp::Timestamp;

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

// What follows from a state at a time: rules, everything allowed, everything disallowed, or a
// fetch that is due first.

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
                PolicyStatus::Current(match cause.meaning(profile) {
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
        let copy = self.copy.as_ref().filter(|_| rule.uses_copy());
        // The parent failed, maybe not the origin: what the profile allows in an outage does not apply.
        let applies = match copy {
            Some(_) if self.cause.is_of_parent() => InOutage::Copy,
            None if self.cause.is_of_parent() => InOutage::Disallow { long: false },
            copy => rule.applies(&self.failed_tries(), copy.is_some(), self.site_up),
        };
        let absence = |long| {
            let kind = if long { AbsenceKind::LongUnreachable } else { AbsenceKind::Unreachable };
            self.absence(kind, now)
        };
        match (applies, copy) {
            (InOutage::Copy, Some(copy)) => Policy::Rules(copy),
            (InOutage::Copy, None) => Policy::DisallowAll(absence(false)),
            (InOutage::Allow { long }, _) => Policy::AllowAll(absence(long)),
            (InOutage::Disallow { long }, _) => Policy::DisallowAll(absence(long)),
        }
    }

    const fn failed_tries(&self) -> FailedTries {
        let (since, last) = (self.since.millis(), self.tried.millis());
        FailedTries { since, last, count: self.failures }
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

/// The first and the longest wait before a file is fetched again that a parent proxy did not get: those of
/// the back-off of a parent.
const PARENT_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The inputs of a transition besides the result.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    pub now: Timestamp,
    /// From 0 to 1; spreads the retries of many proxies.
    pub jitter: f64,
    /// Whether the site's pages have been responding.
    pub site_up: bool,
}

impl RobotsState {
    /// The state after a fetch ended with `result`. `read` parses a file in the profile's dialect;
    /// it is an argument so that equal files can be parsed once.
    pub fn after(
        &self,
        profile: &Profile,
        result: &AccessResult,
        circumstances: &Circumstances,
        read: impl FnOnce(&Snapshot) -> Arc<RobotsTxt>,
    ) -> Self {
        let now = circumstances.now;
        match (result, self.copy()) {
            (AccessResult::Successful { snapshot, freshness }, _) => {
                let copy = RobotsCopy {
                    rules: read(snapshot),
                    snapshot: Arc::clone(snapshot),
                    confirmed_at: now,
                };
                Self::successful(copy, profile, freshness, now)
            }
            (AccessResult::NotModified { freshness }, Some(copy)) => {
                let copy = RobotsCopy { confirmed_at: now, ..copy.clone() };
                Self::successful(copy, profile, freshness, now)
            }
            // An unsolicited 304 says nothing about any file.
            (AccessResult::NotModified { .. }, None) => self.without(
                profile,
                &Cause::Status { code: 304, retry_after: None },
                circumstances,
            ),
            (AccessResult::Without(cause), _) => self.without(profile, cause, circumstances),
        }
    }

    fn successful(
        copy: RobotsCopy,
        profile: &Profile,
        freshness: &Freshness,
        now: Timestamp,
    ) -> Self {
        let fresh_until = now.plus(profile.lifetimes.of_copy(freshness));
        Self::Successful { copy, at: now, fresh_until }
    }

    fn without(&self, profile: &Profile, cause: &Cause, circumstances: &Circumstances) -> Self {
        match cause.meaning(profile) {
            Meaning::Unavailable | Meaning::Forbidden => {
                self.unavailable(profile, cause, circumstances.now)
            }
            Meaning::Unreachable => {
                Self::Unreachable(self.unreachable(profile, cause, circumstances))
            }
        }
    }

    /// The site has removed the file, so the copy is dropped, unless the profile lets it expire.
    fn unavailable(&self, profile: &Profile, cause: &Cause, now: Timestamp) -> Self {
        let serves_until =
            |copy: &RobotsCopy| copy.confirmed_at.plus(profile.lifetimes.copy_after_unavailable);
        // A copy from the future has an unknown age: the clock was set back.
        let is_dated = |copy: &RobotsCopy| copy.confirmed_at <= now.plus(CLOCK_SET_BACK_MAX);
        let copy = self.copy().filter(|copy| is_dated(copy) && now < serves_until(copy)).cloned();
        let fresh_until = now.plus(profile.lifetimes.unavailable);
        let fresh_until =
            copy.as_ref().map_or(fresh_until, |copy| fresh_until.min(serves_until(copy)));
        Self::Unavailable { cause: cause.clone(), at: now, fresh_until, copy }
    }

    fn unreachable(
        &self,
        profile: &Profile,
        cause: &Cause,
        circumstances: &Circumstances,
    ) -> Unreachable {
        let now = circumstances.now;
        // The failures of a parent proxy are no part of an outage of the origin.
        let before = self
            .outage()
            .filter(|outage| outage.cause.is_of_parent() == cause.is_of_parent())
            .map(Unreachable::failed_tries);
        let FailedTries { since, count: failures, .. } = FailedTries::after(before, now.millis());
        let (retry_min, retry_max) = if cause.is_of_parent() {
            PARENT_RETRY
        } else {
            (profile.outage.retry_min, profile.outage.retry_max)
        };
        let rule = Outage { retry_min, retry_max, ..profile.outage };
        let wait = rule.retry_wait(failures, cause.retry_after(), circumstances.jitter);
        Unreachable {
            cause: cause.clone(),
            since: Timestamp::from_millis(since),
            tried: now,
            failures,
            next_try: now.plus(wait),
            copy: self.copy().cloned(),
            site_up: circumstances.site_up,
        }
    }
}

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
                cause.meaning(profile) != Meaning::Unreachable
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
        self.cause.meaning(profile) == Meaning::Unreachable
            && self.failures >= 1
            && self.since <= self.tried
            && (self.tried..=self.tried.plus(longest)).contains(&self.next_try)
    }
}
