//! What this proxy has reserved at the engine, and must find there again. Others may be able to write
//! to the server; starts that they remove would let all proxies start at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::engine::error::{Error, ErrorKind};
use crate::engine::slots::ReservedSlots;
use crate::runtime::lock::Lock;

/// Lanes of which this is remembered; further ones are not checked.
const LANES_MAX: usize = 65_536;
/// A script keeps a next start for a minute after it has passed: until a little before that it must
/// be found.
const KEPT: Duration = Duration::from_secs(50);
/// The clocks of this machine and of the server differ in rate by less than this part.
const RATE_PART: u32 = 5000;
/// For how long nothing is reserved at a lane whose starts were removed. Meanwhile this proxy keeps
/// its share of the pace.
const DISTRUST: Duration = Duration::from_mins(10);

/// The next starts, by key and group.
#[derive(Debug, Default)]
pub(super) struct Promises(Lock<HashMap<(Vec<u8>, String), Promise>>);

#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Nothing of the lane, and of the group, starts before.
    next: [Option<Instant>; 2],
    /// Until then the engine has them.
    until: Instant,
    /// Until then the engine is not asked.
    distrusted: Option<Instant>,
}

impl Promises {
    /// What a script is to find: the next starts of the lane and of the group, from `now` in
    /// microseconds.
    ///
    /// # Errors
    ///
    /// Starts were removed lately.
    pub(super) fn of(
        &self,
        key: &[u8],
        group: &str,
        now: Instant,
    ) -> Result<[Option<i64>; 2], Error> {
        let promises = self.0.lock();
        let Some(promise) = promises.get(&(key.to_vec(), group.to_owned())) else {
            return Ok([None; 2]);
        };
        if promise.distrusted.is_some_and(|until| now < until) {
            return Err(removed());
        }
        let from_now = |at: Instant| match at.checked_duration_since(now) {
            Some(ahead) => micros(ahead),
            None => -micros(now - at),
        };
        let next = promise.next.map(|next| next.filter(|_| now < promise.until).map(from_now));
        Ok(next)
    }

    /// Notes what was reserved by a request that was sent at `sent`, with the delays of the lane and
    /// of the group.
    pub(super) fn note(
        &self,
        of: (Vec<u8>, String),
        delays: [Duration; 2],
        slots: &ReservedSlots,
        sent: Instant,
    ) {
        let Some(slot) = slots.slots.last() else { return };
        let next = delays.map(|delay| {
            let ahead = *slot + delay;
            (!delay.is_zero()).then(|| sent + (ahead - ahead / RATE_PART))
        });
        let Some(last) = next.iter().flatten().max() else { return };
        let promise = Promise { next, until: *last + KEPT, distrusted: None };
        self.insert(of, promise, sent);
    }

    /// Notes that what was reserved is gone.
    ///
    /// # Errors
    ///
    /// Always that.
    pub(super) fn distrust(&self, key: Vec<u8>, group: &str, now: Instant) -> Error {
        let until = now + DISTRUST;
        let promise = Promise { next: [None; 2], until, distrusted: Some(until) };
        self.insert((key, group.to_owned()), promise, now);
        removed()
    }

    /// Forgets all: the engine has lost its data, or may have.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    fn insert(&self, key: (Vec<u8>, String), mut promise: Promise, now: Instant) {
        let mut promises = self.0.lock();
        if let Some(known) = promises.get(&key).filter(|_| promise.distrusted.is_none()) {
            // Replies may come in another order than the engine decided.
            promise.next = [0, 1].map(|at| promise.next[at].max(known.next[at]));
            promise.until = promise.until.max(known.until);
            promise.distrusted = known.distrusted.filter(|until| now < *until);
        }
        if promises.len() >= LANES_MAX && !promises.contains_key(&key) {
            promises.retain(|_, promise| now < promise.until);
            if promises.len() >= LANES_MAX {
                return;
            }
        }
        promises.insert(key, promise);
    }
}

fn removed() -> Error {
    ErrorKind::Removed.with("starts that this proxy had reserved are gone")
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::monotonic;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_reserved_is_to_be_found_until_the_engine_forgets_it() {
        let promises = Promises::default();
        let (key, now) = (b"pace".to_vec(), monotonic());
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, None]);
        let slots = ReservedSlots { slots: vec![5 * SECOND], beyond: None, hold: None };
        promises.note((key.clone(), "*".to_owned()), [Duration::ZERO, 10 * SECOND], &slots, now);
        // Fifteen seconds, less what clocks differ.
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, Some(14_997_000)]);
        assert_eq!(promises.of(&key, "*", now + 20 * SECOND).unwrap(), [None, Some(-5_003_000)]);
        assert_eq!(promises.of(&key, "*", now + 65 * SECOND).unwrap(), [None, None]);
        assert_eq!(promises.of(&key, "other", now).unwrap(), [None, None]);
        promises.distrust(key.clone(), "*", now);
        assert_eq!(
            promises.of(&key, "*", now + 599 * SECOND).unwrap_err().kind,
            ErrorKind::Removed
        );
        assert_eq!(promises.of(&key, "*", now + 600 * SECOND).unwrap(), [None, None]);
        promises.distrust(key.clone(), "*", now);
        promises.forget();
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, None]);
    }
}
