//! Starts that are a delay apart, asserted of what a busy machine lets an observer note.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use super::parties::Origin;

/// How much later than it happened a start may be noted: the threads that send it and that note it
/// wait for a processor. Measured beside eight busy loops on two cores: up to 0.2 s.
pub const LATENESS: Duration = Duration::from_millis(500);
/// What the timers of the proxy and of the kernel round off.
pub const RESOLUTION: Duration = Duration::from_millis(2);

/// Asserts that starts were a delay apart, none of them before `begin`.
///
/// A start is never noted before it happens: the one of number n, counted from 0, is noted n delays
/// after `begin` or later, whoever is late. Of two starts the first may have been noted late: they
/// are as many delays apart as they are starts, less one such [`LATENESS`]. One distance alone is
/// asserted in virtual time (`conformance`, `pace_hour`, `pace::simulation`).
#[track_caller]
pub fn assert_spaced(begin: Instant, arrivals: &[Instant], delay: Duration) {
    let shown = || -> Vec<_> { arrivals.iter().map(|at| *at - begin).collect() };
    for (number, arrival) in (0..).zip(arrivals) {
        assert!(*arrival + RESOLUTION >= begin + delay * number, "{number} of {:?}", shown());
    }
    assert_sums(arrivals, delay, || format!("{:?}", shown()));
}

/// The second half of [`assert_spaced`], where nothing tells when the first start could have been.
#[track_caller]
pub fn assert_sums(arrivals: &[Instant], delay: Duration, shown: impl Fn() -> String) {
    for (number, last) in arrivals.iter().enumerate() {
        for (delays, first) in (1..).zip(arrivals[..number].iter().rev()) {
            let distance = *last - *first;
            assert!(distance + LATENESS >= delay * delays, "{distance:?} in {}", shown());
        }
    }
}

/// Asserts that `count` pages of this origin were requested, a delay apart since it was asked for its
/// robots.txt.
#[track_caller]
pub fn assert_origin_spaced(origin: &Origin, count: usize, delay: Duration) {
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.len(), count);
    let log = origin.log();
    let robots = log.requests.iter().find(|it| it.path() == "/robots.txt");
    let begin = robots.expect("its robots.txt was fetched").at;
    drop(log);
    assert_spaced(begin, &arrivals, delay);
}

/// Notes how late this machine wakes a thread that does nothing else: a busy one wakes those that send a
/// start and that note it as late.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    thread: Option<JoinHandle<()>>,
}

/// The pause of a watch.
const TICK: Duration = Duration::from_millis(5);
/// What is noted as late at one time says something of starts so long before and after it.
const NEAR: Duration = Duration::from_secs(1);
/// The threads that a start passes until it is noted, each of which may be woken late.
const WAKES: u32 = 4;

impl Watch {
    pub fn start() -> Self {
        let (is_over, late) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (ends, noted) = (Arc::clone(&is_over), Arc::clone(&late));
        let run = move || {
            while !ends.load(Ordering::SeqCst) {
                let due = monotonic() + TICK;
                thread::park_timeout(TICK);
                let now = monotonic();
                let by = now.saturating_duration_since(due);
                if by > RESOLUTION {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).push((now, by));
                }
            }
        };
        Self { is_over, late, thread: Some(thread::spawn(run)) }
    }

    /// How late a start may have been noted that was noted then; at most [`LATENESS`].
    fn lateness_at(&self, at: Instant) -> Duration {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let is_near = |noted: Instant| noted + NEAR >= at && noted <= at + NEAR;
        let most = late.iter().filter(|(noted, _)| is_near(*noted)).map(|(_, by)| *by).max();
        (most.unwrap_or_default().max(RESOLUTION) * WAKES).min(LATENESS)
    }

    /// Asserts that any two of these starts were `least` apart, as far as this machine notes starts in
    /// time.
    #[track_caller]
    pub fn assert_apart(&self, starts: &[Instant], least: Duration, shown: impl Fn() -> String) {
        for pair in starts.windows(2) {
            let (distance, late) = (pair[1] - pair[0], self.lateness_at(pair[0]));
            assert!(distance + late >= least, "{distance:?}, {late:?} late, in {}", shown());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
