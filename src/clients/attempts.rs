//! Limits password guessing by address: after [`ATTEMPTS_FREE`] failed attempts, each further one
//! doubles the wait before the next. The caller passes the time in.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::types::client_key::ClientKey;

/// Addresses whose failed attempts are remembered.
const ATTEMPTS_REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Failed attempts of one address that cost it nothing: a slip of the finger is none.
pub(crate) const ATTEMPTS_FREE: u32 = 5;

/// How long an address waits after the first that does; it doubles each time.
const ATTEMPT_WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: clients with the right password at the same address wait, too.
const ATTEMPT_WAIT_MAX: Duration = Duration::from_secs(60);

/// After so long without a failed attempt, those before are forgotten.
const ATTEMPTS_FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// The failed attempts of each client.
#[derive(Debug)]
pub struct Attempts(LruCache<ClientKey, Failures>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// The earliest time at which another attempt is verified.
    fn next(self) -> Instant {
        let beyond = self.count.saturating_sub(ATTEMPTS_FREE);
        if beyond == 0 {
            return self.last;
        }
        let wait = ATTEMPT_WAIT_MIN.saturating_mul(1 << (beyond - 1).min(16));
        self.last + wait.min(ATTEMPT_WAIT_MAX)
    }
}

impl Attempts {
    /// No failed attempts.
    pub fn new() -> Self {
        Self(LruCache::new(ATTEMPTS_REMEMBERED_MAX))
    }

    /// How long `key` has to wait before another of its attempts is verified.
    pub fn wait(&self, key: &ClientKey, now: Instant) -> Option<Duration> {
        let next = self.0.peek(key)?.next();
        (next > now).then(|| next - now)
    }

    /// Whether `key` has failed recently.
    pub fn has_failed(&self, key: &ClientKey, now: Instant) -> bool {
        let is_recent =
            |failures: &Failures| now.duration_since(failures.last) <= ATTEMPTS_FORGOTTEN_AFTER;
        self.0.peek(key).is_some_and(is_recent)
    }

    /// Notes a failed attempt.
    pub fn failed(&mut self, key: ClientKey, now: Instant) {
        let failures = self.0.get_or_insert_mut(key, || Failures { count: 0, last: now });
        if now.duration_since(failures.last) > ATTEMPTS_FORGOTTEN_AFTER {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    /// Forgets the failed attempts of a client.
    pub fn succeeded(&mut self, key: &ClientKey) {
        self.0.pop(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    fn key(last: u8) -> ClientKey {
        ClientKey::of([192, 0, 2, last].into())
    }

    #[test]
    fn guessing_waits_longer_each_time_and_no_other_address_does() {
        let (mut attempts, mut now) = (Attempts::new(), clock::monotonic());
        for _ in 0..ATTEMPTS_FREE {
            attempts.failed(key(1), now);
            assert_eq!(attempts.wait(&key(1), now), None);
        }
        let mut waits = Vec::new();
        for _ in 0..10 {
            attempts.failed(key(1), now);
            let wait = attempts.wait(&key(1), now).unwrap();
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(attempts.wait(&key(1), now), None);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(attempts.wait(&key(2), now), None);
    }

    #[test]
    fn a_success_or_a_long_quiet_ends_it() {
        let (mut attempts, now) = (Attempts::new(), clock::monotonic());
        (0..=ATTEMPTS_FREE).for_each(|_| attempts.failed(key(1), now));
        attempts.succeeded(&key(1));
        assert_eq!(attempts.wait(&key(1), now), None);
        (0..100).for_each(|_| attempts.failed(key(1), now));
        let later = now + ATTEMPTS_FORGOTTEN_AFTER + Duration::from_secs(1);
        attempts.failed(key(1), later);
        assert_eq!(attempts.wait(&key(1), later), None);
    }
}
