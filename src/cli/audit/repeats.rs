//! Lines of one log that are in several of those that are read together, as of copies, or of parts that overlap: each
//! is read once.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

use super::line_selector::last_line;
use super::log_source::identity;
use super::remarks::remark;
use crate::audit::read::{Log, Scan};
use crate::audit::{AnyLine, checked_hash};
use crate::types::LogId;
use crate::types::sanitize;

/// Such lines that are remembered; each takes some 50 bytes.
const REPEATS_MAX: usize = 2_000_000;

/// Bytes of a path that are shown.
const PATH_BYTES_MAX: usize = 4096;

/// Digits of its hash by which a line is known again.
const DIGITS: usize = 32;

/// What was read of lines that several logs may have.
#[derive(Debug, Default)]
pub struct Repeats {
    /// Of each log, the numbers between which another one may have the same.
    shared: Vec<Option<(u64, u64)>>,
    /// By the beginnings of their hashes, the log that had each first.
    seen: HashMap<u128, usize>,
}

/// Which lines of which log there are.
struct LogLines {
    log: LogId,
    first: u64,
    last: u64,
}

impl LogLines {
    /// None of a log without an identity, or that cannot be read, which reading it reports.
    fn of(log: &Log) -> Option<Self> {
        let last = last_line(log.clone()).ok()??.head.seq;
        let first = Scan::new(log.clone()).ok()?.first_seq()?;
        Some(Self { log: identity(log)?, first, last })
    }

    /// The numbers that both have.
    fn shared(&self, other: &Self) -> Option<(u64, u64)> {
        let both = (self.first.max(other.first), self.last.min(other.last));
        (self.log == other.log && both.0 <= both.1).then_some(both)
    }
}

impl Repeats {
    /// Of these logs. Which of them have the same lines is said on standard error, and what is `done` with those.
    pub fn of(logs: &[Log], done: &str) -> Self {
        if logs.len() < 2 {
            return Self::default();
        }
        let extents: Vec<_> = logs.iter().map(LogLines::of).collect();
        let mut shared: Vec<Option<(u64, u64)>> = vec![None; logs.len()];
        for (second, log) in logs.iter().enumerate() {
            for (first, other) in logs.iter().enumerate().take(second) {
                let both = extents[first].as_ref().zip(extents[second].as_ref());
                let Some((from, to)) = both.and_then(|(one, other)| one.shared(other)) else {
                    continue;
                };
                let names = [log, other]
                    .map(|log| sanitize::text(log.dir().as_os_str().as_bytes(), PATH_BYTES_MAX));
                let [one, two] = names;
                remark(format!("note: {one} and {two} have lines of the same log: {done}"));
                for at in [first, second] {
                    let range = shared[at].get_or_insert((from, to));
                    *range = (range.0.min(from), range.1.max(to));
                }
            }
        }
        Self { shared, seen: HashMap::new() }
    }

    /// Whether a whole line of the log with that number was read of another one before.
    pub fn is_one(&mut self, log: usize, line: &[u8]) -> bool {
        let Some((first, last)) = self.shared.get(log).copied().flatten() else { return false };
        let Ok(AnyLine { seq, .. }) = AnyLine::parse(line) else { return false };
        if !(first..=last).contains(&seq) {
            return false;
        }
        // One that was changed is no copy of what it was.
        let digits = checked_hash(line).ok().and_then(|hash| hash.get(..DIGITS));
        let Some(hash) = digits.and_then(|it| u128::from_str_radix(it, 16).ok()) else {
            return false;
        };
        if self.seen.len() < REPEATS_MAX {
            *self.seen.entry(hash).or_insert(log) != log
        } else {
            self.seen.get(&hash).is_some_and(|first| *first != log)
        }
    }
}
