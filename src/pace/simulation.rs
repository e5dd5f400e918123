//! Many proxies over one engine in memory, in virtual time: networks that are slow or lose
//! messages, clocks that differ in rate, an engine that is away, loses its data, or has its clock
//! set. Each proxy does with its lane what `slot.rs` and `lanes.rs` do.

mod concurrency;
mod crowd;
mod proxy;

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::Rng as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng};

use super::tick::Tick;
use crate::engine::{Error, Pending};
use crate::types::origin::{Origin, Scheme};

/// Microseconds of the true time since the beginning.
type Truth = u64;

const SECOND: Truth = 1_000_000;

/// What an engine in memory responds: at once.
fn now<T>(mut pending: Pending<T>) -> Result<T, Error> {
    match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("an engine in memory does not wait"),
    }
}

fn site() -> Origin {
    Origin::from_authority(Scheme::Https, "example.com").expect("an origin")
}

/// Chance that is the same for the same seed.
struct Chance(TestRng);

impl Chance {
    fn new(seed: u8) -> Self {
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One way over the network: mostly 3 ms, one in a hundred up to 300.
    fn way(&mut self) -> Truth {
        let long = if self.one_in(100) { 300_000 } else { 4000 };
        1000 + self.below(long)
    }
}

/// A proxy's clock: it began at another time, and differs in rate by so many millionths.
#[derive(Clone, Copy, Debug)]
struct OwnClock {
    offset: u64,
    rate: i64,
}

impl OwnClock {
    /// As crystals are.
    fn new(chance: &mut Chance) -> Self {
        Self::with_rate(chance, 50)
    }

    /// One that differs by up to so many millionths.
    fn with_rate(chance: &mut Chance, most: i64) -> Self {
        let rate = i64::try_from(chance.below(2 * most as u64)).expect("a small number") - most;
        Self { offset: SECOND + chance.below(1000 * SECOND), rate }
    }

    fn at(self, truth: Truth) -> Tick {
        let truth = i64::try_from(truth).expect("a short time");
        let drift = truth / 1000 * self.rate / 1000;
        Tick::from_micros(u64::try_from(truth + drift).expect("not before") + self.offset)
    }

    /// The true time at which this clock shows `own`, or a little later.
    fn truth(self, own: Tick) -> Truth {
        let own = own.micros().saturating_sub(self.offset) as f64;
        (own / (1.0 + self.rate as f64 / 1e6)).ceil() as u64 + 1
    }
}

/// What happens next.
struct Agenda<E> {
    events: BTreeMap<(Truth, u64), E>,
    count: u64,
}

impl<E> Agenda<E> {
    const fn new() -> Self {
        Self { events: BTreeMap::new(), count: 0 }
    }

    fn add(&mut self, at: Truth, event: E) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    fn next_before(&mut self, end: Truth) -> Option<(Truth, E)> {
        let next = self.events.first_entry().filter(|next| next.key().0 < end)?;
        let ((at, _), event) = next.remove_entry();
        Some((at, event))
    }
}

/// In words, for what a test says.
fn seconds(truth: Truth) -> Duration {
    Duration::from_micros(truth)
}

/// Each case takes a second, and has nothing that could be made smaller.
fn cases() -> Config {
    Config { failure_persistence: None, max_shrink_iters: 0, ..Config::with_cases(2) }
}
