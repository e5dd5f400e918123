//! Progress of a long reading, on standard error if that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use bytesize::ByteSize;

use super::remarks;
use crate::audit::read::Extent;
use crate::cli::output::human_duration;
use crate::runtime::clock::monotonic;

/// Shorter readings show no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// One line that is written over and over again.
#[derive(Debug)]
pub struct Progress {
    is_watched: bool,
    started: Instant,
    next: Instant,
    is_shown: bool,
}

impl Progress {
    /// Progress that begins now; it is shown on a terminal only.
    pub fn new() -> Self {
        let started = monotonic();
        Self {
            is_watched: io::stderr().is_terminal() && remarks::are_printed(),
            started,
            next: started + SHOWN_AFTER,
            is_shown: false,
        }
    }

    /// To be called often; seldom does anything. `lines` have been read so far.
    pub fn at(&mut self, extent: impl FnOnce() -> Extent, lines: u64) {
        if !self.is_watched {
            return;
        }
        let now = monotonic();
        if now >= self.next {
            self.next = now + INTERVAL;
            self.is_shown = true;
            let text = line(extent(), lines, now - self.started);
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }

    /// Takes the line away, before anything else is written there or when all is done.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(Extent { read, total }: Extent, lines: u64, elapsed: Duration) -> String {
    let share = if total == 0 { 1.0 } else { read as f64 / total as f64 };
    let rate = (lines as f64 / elapsed.as_secs_f64().max(0.001)).round();
    let left = elapsed.mul_f64((1.0 / share.max(0.000_1) - 1.0).max(0.0));
    let [read, total] = [read, total].map(|bytes| ByteSize(bytes).display().iec());
    format!(
        "{:3.0} %  {read:.1} of {total:.1}  {rate} records/s  {} left",
        share * 100.0,
        human_duration(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_share_rate_and_time_left() {
        let extent = Extent { read: 1 << 30, total: 4 << 30 };
        assert_eq!(
            line(extent, 3_000_000, Duration::from_secs(2)),
            " 25 %  1.0 GiB of 4.0 GiB  1500000 records/s  6 s left"
        );
        assert!(line(Extent { read: 0, total: 0 }, 0, Duration::ZERO).starts_with("100 %"));
    }
}
