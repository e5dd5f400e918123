//! What is known of an origin's robots.txt, and what that means at a given moment (RFC 9309
//! §2.3.1 and §2.4).
//!
//! One question, [`RobotsState::standing`], whose answer cannot be used when it is too old; one
//! transition, [`RobotsState::after`]. Two promises: right after any result the standing is
//! current, and an unreachable file without a copy never allows earlier than the profile says.

use std::sync::Arc;
use std::time::Duration;

use super::access::{AccessResult, Cause, Freshness, Snapshot};
use super::profile::{Access, Meaning, Outage, OutageCopy, Profile};
use crate::limits::{CLOCK_SET_BACK_MAX, OUTAGE_GAP_MAX, OUTAGE_TRIES_MIN, RETRY_AFTER_MAX};
use crate::moment::Moment;
use crate::robots::RobotsTxt;

#[derive(Clone, Debug)]
pub enum RobotsState {
    /// Never asked.
    Unknown,
    Successful {
        copy: Copy,
        at: Moment,
        fresh_until: Moment,
    },
    Unavailable {
        cause: Cause,
        at: Moment,
        fresh_until: Moment,
        copy: Option<Copy>,
    },
    Unreachable(Unreachable),
}

/// A robots.txt as it was read and as it was received.
#[derive(Clone, Debug)]
pub struct Copy {
    pub rules: Arc<RobotsTxt>,
    pub snapshot: Arc<Snapshot>,
    /// When the origin last said that this is the file.
    pub confirmed_at: Moment,
}

/// An outage: the file cannot be had, and since when we have been seeing that.
#[derive(Clone, Debug)]
pub struct Unreachable {
    pub cause: Cause,
    pub since: Moment,
    pub tried: Moment,
    pub failures: u32,
    pub next_try: Moment,
    pub copy: Option<Copy>,
    /// Whether the site's pages answered when the file last did not.
    pub site_up: bool,
}

/// What is known of an origin, asked at a moment.
#[derive(Clone, Copy, Debug)]
pub enum Standing<'a> {
    Current(Policy<'a>),
    /// The robots.txt must be asked for before anything follows.
    Due,
}

#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    Rules(&'a Copy),
    AllowAll(Absence<'a>),
    DisallowAll(Absence<'a>),
}

/// Why there are no rules to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence<'a> {
    pub kind: AbsenceKind,
    pub cause: &'a Cause,
    pub since: Moment,
    pub lasting: Duration,
    /// When the file will be asked for again, if anybody wants something of this origin then.
    pub next_try: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsenceKind {
    Unavailable,
    Unreachable,
    /// Unreachable for longer than the profile holds the origin closed.
    LongUnreachable,
}

/// What a transition is given besides the result.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    pub now: Moment,
    /// From 0 to 1; spreads the next tries of many proxies.
    pub jitter: f64,
    /// Whether the site's pages have been answering.
    pub site_up: bool,
}

impl RobotsState {
    pub fn standing(&self, profile: &Profile, now: Moment) -> Standing<'_> {
        match self {
            Self::Unknown => Standing::Due,
            _ if !self.is_current(now) => Standing::Due,
            Self::Successful { copy, .. } => Standing::Current(Policy::Rules(copy)),
            Self::Unavailable { copy: Some(copy), .. } => Standing::Current(Policy::Rules(copy)),
            Self::Unavailable { cause, at, fresh_until, copy: None } => {
                let absence = Absence {
                    kind: AbsenceKind::Unavailable,
                    cause,
                    since: *at,
                    lasting: now.since(*at),
                    next_try: *fresh_until,
                };
                Standing::Current(match profile.meaning(cause) {
                    Meaning::Unavailable => Policy::AllowAll(absence),
                    Meaning::Forbidden | Meaning::Unreachable => Policy::DisallowAll(absence),
                })
            }
            Self::Unreachable(outage) => Standing::Current(outage.policy(&profile.outage, now)),
        }
    }

    /// The state after an attempt ended with `result`. `read` parses a file in the profile's
    /// dialect; it is an argument so that equal files can be parsed once.
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
                let copy = Copy { rules: read(snapshot), snapshot: Arc::clone(snapshot), confirmed_at: now };
                Self::successful(copy, profile, freshness, now)
            }
            (AccessResult::NotModified { freshness }, Some(copy)) => {
                let copy = Copy { confirmed_at: now, ..copy.clone() };
                Self::successful(copy, profile, freshness, now)
            }
            // A 304 that nobody asked for says nothing about any file.
            (AccessResult::NotModified { .. }, None) => {
                self.without(profile, &Cause::Status { code: 304, retry_after: None }, circumstances)
            }
            (AccessResult::Without(cause), _) => self.without(profile, cause, circumstances),
        }
    }

    /// Near the end of its freshness (the last tenth) a state is worth refreshing while it serves.
    pub fn wants_refresh(&self, now: Moment) -> bool {
        match self {
            Self::Successful { at, fresh_until, .. } | Self::Unavailable { at, fresh_until, .. } => {
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

    /// Since when the state has been what it is.
    pub const fn since(&self) -> Option<Moment> {
        match self {
            Self::Unknown => None,
            Self::Successful { at, .. } | Self::Unavailable { at, .. } => Some(*at),
            Self::Unreachable(outage) => Some(outage.since),
        }
    }

    /// Until when the state holds, which is when the file is asked for again.
    pub const fn next_try(&self) -> Option<Moment> {
        match self {
            Self::Unknown => None,
            Self::Successful { fresh_until, .. } | Self::Unavailable { fresh_until, .. } => {
                Some(*fresh_until)
            }
            Self::Unreachable(outage) => Some(outage.next_try),
        }
    }

    pub const fn copy(&self) -> Option<&Copy> {
        match self {
            Self::Unknown => None,
            Self::Successful { copy, .. } => Some(copy),
            Self::Unavailable { copy, .. } => copy.as_ref(),
            Self::Unreachable(outage) => outage.copy.as_ref(),
        }
    }

    /// When the last attempt ended.
    const fn learnt_at(&self) -> Option<Moment> {
        match self {
            Self::Unreachable(outage) => Some(outage.tried),
            _ => self.since(),
        }
    }

    fn is_current(&self, now: Moment) -> bool {
        let ends_later = self.next_try().is_some_and(|end| now < end);
        let began_earlier = self.learnt_at().is_some_and(|at| at <= now.plus(CLOCK_SET_BACK_MAX));
        ends_later && began_earlier
    }

    fn successful(copy: Copy, profile: &Profile, freshness: &Freshness, now: Moment) -> Self {
        let fresh_until = now.plus(profile.lifetimes.of_copy(freshness));
        Self::Successful { copy, at: now, fresh_until }
    }

    fn without(&self, profile: &Profile, cause: &Cause, circumstances: &Circumstances) -> Self {
        match profile.meaning(cause) {
            Meaning::Unavailable | Meaning::Forbidden => self.unavailable(profile, cause, circumstances.now),
            Meaning::Unreachable => Self::Unreachable(self.unreachable(profile, cause, circumstances)),
        }
    }

    /// The site took the file away, so the copy goes too, unless the profile lets it serve out.
    fn unavailable(&self, profile: &Profile, cause: &Cause, now: Moment) -> Self {
        let serves_until = |copy: &Copy| copy.confirmed_at.plus(profile.lifetimes.copy_after_unavailable);
        let copy = self.copy().filter(|copy| now < serves_until(copy)).cloned();
        let fresh_until = now.plus(profile.lifetimes.unavailable);
        let fresh_until = copy.as_ref().map_or(fresh_until, |copy| fresh_until.min(serves_until(copy)));
        Self::Unavailable { cause: cause.clone(), at: now, fresh_until, copy }
    }

    fn unreachable(&self, profile: &Profile, cause: &Cause, circumstances: &Circumstances) -> Unreachable {
        let now = circumstances.now;
        let (since, failures) = match self {
            Self::Unreachable(outage) if now.since(outage.tried) <= OUTAGE_GAP_MAX => {
                (outage.since.min(now), outage.failures.saturating_add(1))
            }
            _ => (now, 1),
        };
        let wait = retry_wait(&profile.outage, failures, cause.retry_after(), circumstances.jitter);
        Unreachable {
            cause: cause.clone(),
            since,
            tried: now,
            failures,
            next_try: now.plus(wait),
            copy: self.copy().cloned(),
            site_up: circumstances.site_up,
        }
    }
}

impl Unreachable {
    fn policy(&self, rule: &Outage, now: Moment) -> Policy<'_> {
        // Judged by the last try, not by now: the time was observed only that far.
        let observed = self.tried.since(self.since);
        let is_long = self.failures >= OUTAGE_TRIES_MIN && observed >= rule.after_time;
        let copy = self.copy.as_ref().filter(|_| rule.copy == OutageCopy::Use);
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
            (None, Access::Disallow) => Policy::DisallowAll(self.absence(AbsenceKind::Unreachable, now)),
        }
    }

    fn absence(&self, kind: AbsenceKind, now: Moment) -> Absence<'_> {
        Absence {
            kind,
            cause: &self.cause,
            since: self.since,
            lasting: now.since(self.since),
            next_try: self.next_try,
        }
    }
}

impl Absence<'_> {
    /// Whether a denial is only for the time being: the client may come back at `next_try`.
    pub const fn defers(&self) -> bool {
        !matches!(self.kind, AbsenceKind::Unavailable)
    }
}

/// Failure is remembered briefly and growing, or for as long as the origin asked.
fn retry_wait(rule: &Outage, failures: u32, asked: Option<Duration>, jitter: f64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(RETRY_AFTER_MAX).max(rule.retry_min);
    }
    let doublings = failures.saturating_sub(1).min(31);
    let wait = rule.retry_min.saturating_mul(1 << doublings).min(rule.retry_max);
    // Up to a quarter earlier, never later than the bound. A moment counts milliseconds.
    wait.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0).max(Duration::from_millis(1))
}
