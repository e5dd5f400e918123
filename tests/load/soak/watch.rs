//! What is seen of the proxy while it works: a table to be read, and figures to be judged.

use std::thread;
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use super::traffic::Field;
use crate::gauge::Gauge;
use crate::testkit::processes::Serve;

/// How often a line is printed.
const LINES: Duration = Duration::from_secs(60);

/// What memory may grow by from the second quarter of the time to the last.
const GROWTH: f64 = 1.10;
const GROWTH_BYTES: f64 = (16 << 20) as f64;

pub struct Watch {
    begun: Instant,
    length: Duration,
    printed: Instant,
    last: (Instant, u64, usize),
    /// Bytes in memory at a share of the time.
    seen: Vec<(f64, usize)>,
}

impl Watch {
    pub fn begin(serve: &Serve, field: &Field, length: Duration) -> Self {
        println!(
            "  time | answers denials | a second, of a core | MiB | descriptors threads | clients under way \
             fetches waiters | panics"
        );
        let (now, gauge) = (monotonic(), Gauge::of(serve));
        let last = (now, gauge.ticks, field.answered());
        Self { begun: now, length, printed: now, last, seen: Vec::new() }
    }

    /// Looks once after `pause`; prints what it sees every minute.
    pub fn look_for(&mut self, serve: &Serve, field: &Field, pause: Duration) {
        let end = (monotonic() + pause).min(self.begun + self.length);
        while monotonic() < end && !field.is_over() {
            thread::park_timeout(Duration::from_millis(50));
        }
        let share = self.begun.elapsed().as_secs_f64() / self.length.as_secs_f64();
        self.seen.push((share, serve.resident()));
        if self.printed.elapsed() >= LINES {
            self.printed = monotonic();
            self.print(serve, field);
        }
    }

    pub fn print(&mut self, serve: &Serve, field: &Field) {
        let (now, gauge, answered) = (monotonic(), Gauge::of(serve), field.answered());
        let (then, ticks, before) = std::mem::replace(&mut self.last, (now, gauge.ticks, answered));
        let seconds = (now - then).as_secs_f64().max(0.01);
        println!(
            "{:>5} s | {answered} {} | {:.0}/s, {:.0} % | {} | {} {} | {} {} {} {} | {}",
            self.begun.elapsed().as_secs(),
            field.denials(),
            (answered - before) as f64 / seconds,
            (gauge.ticks - ticks) as f64 / seconds,
            gauge.resident >> 20,
            gauge.descriptors,
            gauge.threads,
            serve.metric("courtesy_connections"),
            serve.metric("courtesy_requests_under_way"),
            serve.metric("courtesy_robots_fetches_under_way"),
            serve.metric("courtesy_cache_waiters"),
            serve.metric("courtesy_panics_total"),
        );
    }

    /// That memory has stopped growing.
    #[track_caller]
    pub fn assert_flat(&self) {
        let mean = |from: f64, to: f64| {
            let seen: Vec<_> =
                self.seen.iter().filter(|(share, _)| (from..to).contains(share)).collect();
            seen.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / seen.len() as f64
        };
        let (second, last) = (mean(0.25, 0.5), mean(0.75, 1.1));
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        println!(
            "in memory: {:.1} MiB in the second quarter, {:.1} in the last",
            mib(second),
            mib(last)
        );
        assert!(last <= second * GROWTH + GROWTH_BYTES, "{} MiB, then {}", mib(second), mib(last));
    }
}
