//! Starts that are a delay apart, asserted of what a busy machine lets an observer note.

use std::time::{Duration, Instant};

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
