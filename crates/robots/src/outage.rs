//! What applies while a robots.txt is unreachable, and when to try again (RFC 9309 §2.3.1.4). Times
//! are plain numbers of the caller's clock.

use std::time::Duration;

use super::dialect::words;

/// The longest Retry-After that is honoured (RFC 9110 §10.2.3): a slip of the pen must not shut a
/// site out for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Failed tries without which no outage has been observed, however long ago it began.
const OUTAGE_TRIES_MIN: u32 = 3;

/// The longest gap between two failed tries that still counts as one outage observed: who did not
/// look for longer does not know that the file was unreachable all the time (RFC 9309 §2.3.1.4).
const OUTAGE_GAP_MAX: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// An outage of a robots.txt as far as it was observed: the tries to fetch it that failed in a row,
/// each with a cause that means [`Meaning::Unreachable`](super::Meaning::Unreachable).
///
/// Times are milliseconds since any one moment, such as 1970. An outage outlasts a process, so that
/// they should be dates rather than readings of a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FailedTries {
    /// When the first of them ended, in milliseconds.
    pub since: u64,
    /// When the last of them ended, in milliseconds.
    pub last: u64,
    /// How many there were.
    pub count: u32,
}

impl FailedTries {
    /// Those after one more, which failed at `now`. They begin anew where nothing is known of an
    /// outage, or the last try was more than ten days ago.
    ///
    /// ```
    /// use courtesy_robots::FailedTries;
    ///
    /// let first = FailedTries::after(None, 1_000);
    /// let second = FailedTries::after(Some(first), 31_000);
    /// assert_eq!(second, FailedTries { since: 1_000, last: 31_000, count: 2 });
    /// ```
    pub fn after(before: Option<Self>, now: u64) -> Self {
        match before {
            Some(before) if between(before.last, now) <= OUTAGE_GAP_MAX => Self {
                since: before.since.min(now),
                last: now,
                count: before.count.saturating_add(1),
            },
            _ => Self { since: now, last: now, count: 1 },
        }
    }

    /// For how long the outage has been observed: until the last try, not until now.
    pub fn observed(&self) -> Duration {
        between(self.since, self.last)
    }
}

/// Zero, where `later` is not later: the clock was set back.
fn between(earlier: u64, later: u64) -> Duration {
    Duration::from_millis(later.saturating_sub(earlier))
}

/// What applies to the requests of a site whose robots.txt is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InOutage {
    /// The rules of the last good copy.
    Copy,
    /// Everything is allowed.
    Allow {
        /// Because it has lasted for longer than [`Outage::after_time`].
        long: bool,
    },
    /// Everything is disallowed.
    Disallow {
        /// Although, or because, it has lasted for longer than [`Outage::after_time`].
        long: bool,
    },
}

/// What applies while the file is unreachable, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// From the first failure, disallow everything for this long, whatever else is set.
    pub pause: Duration,
    /// Whether the last good copy is used.
    pub copy: OutageCopy,
    /// What applies without a copy.
    pub without_copy: Access,
    /// What applies once the outage has been observed for `after_time`.
    pub after: Access,
    /// How long the outage must have been observed before `after` applies.
    pub after_time: Duration,
    /// Whether `after` also ends the use of a copy.
    pub after_drops_copy: bool,
    /// Whether `after = Allow` requires that the site's pages respond.
    pub after_needs_site_up: bool,
    /// The wait before the first retry; it doubles.
    pub retry_min: Duration,
    /// The longest wait before a retry.
    pub retry_max: Duration,
}

impl Outage {
    /// What applies after these failed tries. `has_copy` is whether there is a good copy, `site_up`
    /// whether the site's pages responded when its robots.txt last did not; only some profiles ask
    /// for that.
    ///
    /// ```
    /// use courtesy_robots::{FailedTries, InOutage, Profile};
    ///
    /// let outage = &Profile::RFC9309.outage;
    /// let tries = FailedTries::after(None, 0);
    /// assert_eq!(outage.applies(&tries, false, true), InOutage::Disallow { long: false });
    /// assert_eq!(outage.applies(&tries, true, true), InOutage::Copy);
    /// let month = FailedTries { last: 30 * 24 * 3_600_000, count: 500, ..tries };
    /// assert_eq!(outage.applies(&month, false, true), InOutage::Allow { long: true });
    /// ```
    pub fn applies(&self, tries: &FailedTries, has_copy: bool, site_up: bool) -> InOutage {
        // Compared with the last attempt, not with now: the outage was observed only that far.
        let observed = tries.observed();
        let is_long = tries.count >= OUTAGE_TRIES_MIN && observed >= self.after_time;
        let has_copy = self.uses_copy() && has_copy;
        if observed < self.pause {
            return InOutage::Disallow { long: false };
        }
        if is_long && (!has_copy || self.after_drops_copy) {
            let opens = self.after == Access::Allow && (site_up || !self.after_needs_site_up);
            return if opens {
                InOutage::Allow { long: true }
            } else {
                InOutage::Disallow { long: true }
            };
        }
        match self.without_copy {
            _ if has_copy => InOutage::Copy,
            Access::Allow => InOutage::Allow { long: false },
            Access::Disallow => InOutage::Disallow { long: false },
        }
    }

    /// Whether the rules of a good copy may apply.
    pub fn uses_copy(&self) -> bool {
        self.copy == OutageCopy::Use
    }

    /// How long to wait after so many failed tries: for as long as the site requested
    /// (`Retry-After`, up to [`RETRY_AFTER_MAX`]), or else twice as long as before the last try,
    /// between [`Outage::retry_min`] and [`Outage::retry_max`].
    ///
    /// `jitter`, from 0 to 1, makes the wait up to a quarter shorter, so that many crawlers do not
    /// come back at once.
    pub fn retry_wait(&self, tries: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
        if let Some(asked) = retry_after {
            return asked.min(RETRY_AFTER_MAX).max(self.retry_min);
        }
        let doublings = tries.saturating_sub(1).min(31);
        let wait = self.retry_min.saturating_mul(1 << doublings).min(self.retry_max);
        // Up to a quarter earlier, never later than the bound. Times count milliseconds.
        let early = if jitter > 0.0 { (wait / 4).mul_f64(jitter.min(1.0)) } else { Duration::ZERO };
        wait.saturating_sub(early).max(Duration::from_millis(1))
    }
}

words! {
    /// Whether the last good copy is used while the file is unreachable (RFC 9309 §2.3.1.4).
    pub enum OutageCopy {
        /// Its rules apply.
        Use = "use",
        /// Everything is disallowed until robots.txt is reachable again: the strictest reading.
        Disallow = "disallow",
    }

    /// Whether everything is allowed or nothing.
    pub enum Access {
        /// Everything is allowed.
        Allow = "allow",
        /// Everything is disallowed.
        Disallow = "disallow",
    }
}
