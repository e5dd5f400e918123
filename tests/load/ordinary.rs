//! Ordinary traffic beside a crowd. How long it waits for its answers is a matter of the machine; how
//! much longer it does for the crowd is not.

use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::site::Site;
use crate::testkit::processes::{Crawler, Serve};

const EXCHANGES: usize = 1000;

/// What a crowd may cost: so many times as long, and so much for the noise of a machine.
const FACTOR: u32 = 5;
const NOISE: Duration = Duration::from_millis(5);

/// How long an answer took.
#[derive(Clone, Copy, Debug)]
pub struct Histogram {
    median: Duration,
    p99: Duration,
}

impl Histogram {
    /// Of pages that a client asks for one after the other.
    #[track_caller]
    pub fn of(serve: &Serve, site: &Site) -> Self {
        let mut crawler = Crawler::new(serve.address());
        let url = site.url(1, 1, "/open");
        let mut times: Vec<_> = (0..EXCHANGES)
            .map(|_| {
                let begun = monotonic();
                assert_eq!(crawler.get(&url).expect("an answer").status, 200);
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        Self { median: times[EXCHANGES / 2], p99: times[EXCHANGES * 99 / 100] }
    }

    /// That the crowd makes little difference; prints how much.
    #[track_caller]
    pub fn assert_near(self, alone: Self) {
        let times = |beside: Duration, alone: Duration| beside.as_secs_f64() / alone.as_secs_f64();
        println!(
            "alone {alone:?}, beside the crowd {self:?}: {:.2} and {:.2} times as long",
            times(self.median, alone.median),
            times(self.p99, alone.p99)
        );
        assert!(self.median <= alone.median * FACTOR + NOISE, "{self:?}, and alone {alone:?}");
        assert!(self.p99 <= alone.p99 * FACTOR + NOISE, "{self:?}, and alone {alone:?}");
    }
}

/// As many descriptors as may be had, for both sides of a crowd in one process.
pub fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("what is allowed");
}
