//! How long something took for each engine, as percentiles over what was asked.

use std::hint::black_box;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use rustix::time::{ClockId, clock_gettime};

/// One question is asked for about so long, three times over; the fastest counts, for other work on the
/// machine only adds.
const ENOUGH: Duration = Duration::from_micros(10);
const ROUNDS: usize = 3;
const REPEATS_MAX: u32 = 1_000;

/// What is measured each time for itself is measured so often, or for so long.
const EACH_MAX: usize = 1_000;
const EACH_ENOUGH: Duration = Duration::from_millis(500);

/// The measurements of one kind of work.
pub struct Table {
    title: String,
    rows: Vec<Row>,
}

struct Row {
    engine: &'static str,
    nanoseconds: Vec<f64>,
    answers: usize,
    right: usize,
    missed: usize,
}

impl Table {
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rows: Vec::new() }
    }

    /// Measures what does something so many times.
    pub fn time(&mut self, engine: &'static str, work: &mut dyn FnMut(u32)) {
        let mut took = |repeats: u32| {
            let begun = monotonic();
            work(repeats);
            begun.elapsed()
        };
        let once = took(1);
        // The first time tells little of how long it takes: nothing is warm, and the clock is read.
        let (mut repeats, mut fastest) = (1, once);
        while fastest < ENOUGH && repeats < REPEATS_MAX {
            repeats = (4 * repeats).min(REPEATS_MAX);
            fastest = took(repeats);
        }
        let rounds = if once > ENOUGH { 0 } else { ROUNDS - 1 };
        let fastest = (0..rounds).map(|_| took(repeats)).fold(fastest, Duration::min);
        self.row(engine).nanoseconds.push(fastest.as_nanos() as f64 / f64::from(repeats));
    }

    /// Measures what is slow, each time for itself: in the processor's time for this thread, for the slowest
    /// time in a hundred would else be that of what else runs on the machine.
    pub fn time_each(&mut self, engine: &'static str, work: &mut dyn FnMut(u32)) {
        let begun = monotonic();
        for _ in 0..EACH_MAX {
            let one = own_time();
            work(1);
            self.row(engine).nanoseconds.push((own_time() - one).as_nanos() as f64);
            if begun.elapsed() > EACH_ENOUGH {
                return;
            }
        }
    }

    /// Notes whether the answer is RFC 9309's.
    pub fn answer(&mut self, engine: &'static str, is_right: bool) {
        let row = self.row(engine);
        row.answers += 1;
        row.right += usize::from(is_right);
    }

    /// Notes questions about a file that the engine does not take.
    pub fn miss(&mut self, engine: &'static str, questions: usize) {
        self.row(engine).missed += questions;
    }

    fn row(&mut self, engine: &'static str) -> &mut Row {
        let at = self.rows.iter().position(|row| row.engine == engine).unwrap_or_else(|| {
            self.rows.push(Row {
                engine,
                nanoseconds: Vec::new(),
                answers: 0,
                right: 0,
                missed: 0,
            });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// The first engine is what the others are compared with.
    pub fn print(mut self) {
        println!("\n{}", self.title);
        println!(
            "{:16}{:>10}{:>14}{:>14}{:>14}{:>14}{:>9}{:>10}{:>8}",
            "engine", "measured", "median ns", "p90", "p99", "most", "ratio", "right", "missed"
        );
        let mut first = None;
        for row in &mut self.rows {
            row.nanoseconds.sort_by(f64::total_cmp);
            let median = row.percentile(50);
            let ratio = median / *first.get_or_insert(median);
            let right = if row.answers == 0 {
                String::new()
            } else {
                format!("{:.2} %", 100.0 * row.right as f64 / row.answers as f64)
            };
            println!(
                "{:16}{:>10}{:>14.1}{:>14.1}{:>14.1}{:>14.1}{:>9.2}{:>10}{:>8}",
                row.engine,
                row.nanoseconds.len(),
                median,
                row.percentile(90),
                row.percentile(99),
                row.percentile(100),
                ratio,
                right,
                row.missed
            );
        }
    }
}

impl Row {
    /// Of what is sorted.
    fn percentile(&self, percent: usize) -> f64 {
        let last = self.nanoseconds.len().saturating_sub(1);
        self.nanoseconds.get(last * percent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// What the processors have spent on this thread.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

/// Does something so many times, as if it were asked anew each time.
pub fn repeat<T>(times: u32, mut work: impl FnMut() -> T) {
    for _ in 0..times {
        black_box(work());
    }
}
