//! The state after a fetch: one table row per result.

use std::sync::Arc;
use std::time::Duration;

use super::super::access::{AccessResult, Cause, Freshness, Snapshot};
use super::super::profile::{Meaning, Outage, Profile};
use super::{RobotsCopy, RobotsState, Unreachable};
use crate::policy::limits::{CLOCK_SET_BACK_MAX, RETRY_AFTER_MAX};
use crate::robots::RobotsTxt;
use crate::types::timestamp::Timestamp;

/// The longest gap between two failed tries that still counts as one outage observed: who did not
/// look for longer does not know that the file was unreachable all the time (RFC 9309 §2.3.1.4).
const OUTAGE_GAP_MAX: Duration = Duration::from_secs(10 * 24 * 60 * 60);

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
        match profile.meaning(cause) {
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
        let is_same_kind = |outage: &Unreachable| {
            outage.cause.is_of_parent() == cause.is_of_parent()
                && now.since(outage.tried) <= OUTAGE_GAP_MAX
        };
        let (since, failures) = match self {
            Self::Unreachable(outage) if is_same_kind(outage) => {
                (outage.since.min(now), outage.failures.saturating_add(1))
            }
            _ => (now, 1),
        };
        let (retry_min, retry_max) = if cause.is_of_parent() {
            PARENT_RETRY
        } else {
            (profile.outage.retry_min, profile.outage.retry_max)
        };
        let rule = Outage { retry_min, retry_max, ..profile.outage };
        let wait = retry_wait(&rule, failures, cause.retry_after(), circumstances.jitter);
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

/// Failures are cached briefly, with growing intervals, or for as long as the origin requested.
fn retry_wait(rule: &Outage, failures: u32, asked: Option<Duration>, jitter: f64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(RETRY_AFTER_MAX).max(rule.retry_min);
    }
    let doublings = failures.saturating_sub(1).min(31);
    let wait = rule.retry_min.saturating_mul(1 << doublings).min(rule.retry_max);
    // Up to a quarter earlier, never later than the bound. Timestamps count milliseconds.
    let early = if jitter > 0.0 { (wait / 4).mul_f64(jitter.min(1.0)) } else { Duration::ZERO };
    wait.saturating_sub(early).max(Duration::from_millis(1))
}
