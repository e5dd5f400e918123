//! Whether a parent proxy serves, and when one that does not is tried again. Pure: times are
//! arguments.

use std::time::{Duration, Instant};

/// The wait after the first failure of a parent; it doubles with each one in a row.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest wait between two attempts to use a parent that fails.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// What the attempts to use a parent have shown.
#[derive(Debug, Default)]
pub struct Health {
    /// Failures in a row. Attempts that were under way together count as one.
    failures: u32,
    failed_at: Option<Instant>,
    retry_at: Option<Instant>,
}

impl Health {
    /// Whether an attempt may begin. While the parent fails, one may at the end of each back-off.
    ///
    /// # Errors
    ///
    /// How long the back-off still lasts.
    pub fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.retry_at {
            Some(retry_at) if now < retry_at => Err(retry_at - now),
            Some(_) => {
                self.retry_at = Some(now + back_off(self.failures));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// An attempt has reached the parent.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// An attempt that began at `began` has failed because of the parent.
    pub fn failed(&mut self, began: Instant, now: Instant) {
        if self.failed_at.is_some_and(|at| began < at) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
        self.retry_at = Some(now + back_off(self.failures));
    }
}

fn back_off(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    BACK_OFF_MIN.saturating_mul(1 << doublings).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_back_off_grows_from_one_second_to_thirty() {
        let (mut health, mut now) = (Health::default(), crate::runtime::clock::monotonic());
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(health.admit(now), Ok(()), "{wait}");
            health.failed(now, now);
            assert_eq!(health.admit(now), Err(wait * SECOND));
            now += wait * SECOND;
        }
    }

    #[test]
    fn one_attempt_at_a_time_looks_whether_the_parent_serves_again() {
        let (mut health, now) = (Health::default(), crate::runtime::clock::monotonic());
        health.failed(now, now);
        let later = now + SECOND;
        assert_eq!(health.admit(later), Ok(()));
        assert_eq!(health.admit(later), Err(SECOND));
        health.succeeded();
        for _ in 0..3 {
            assert_eq!(health.admit(later), Ok(()));
        }
    }

    #[test]
    fn attempts_that_were_under_way_together_count_as_one() {
        let (mut health, now) = (Health::default(), crate::runtime::clock::monotonic());
        for _ in 0..100 {
            health.failed(now, now + SECOND);
        }
        assert_eq!(health.admit(now + SECOND), Err(SECOND));
    }
}
