//! The counts of one run, by host: pure.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::audit::{Reason, Record};
use crate::pace::{HoldBegun, Waited};
use crate::types::timestamp::Timestamp;

/// Keys that a [`Few`] counts one by one.
const FEW: usize = 8;

/// Bytes of a rule that a summary keeps.
const RULE_BYTES_MAX: usize = 120;

/// The time in which something waited: the union of all waits, never their sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    count: usize,
    /// Since when there is always one.
    since: Option<Instant>,
    time: Duration,
    /// When the last that waits is likely to start.
    last: Option<Instant>,
    /// The longest that one was expected to wait.
    longest: Duration,
}

impl Waits {
    /// One more waits, until `expected` from now.
    pub fn begin(&mut self, now: Instant, expected: Duration) {
        self.count += 1;
        self.since.get_or_insert(now);
        self.longest = self.longest.max(expected);
        self.last = self.last.max(now.checked_add(expected));
    }

    /// One waits no longer.
    pub fn end(&mut self, now: Instant) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.time += self.since.take().map_or(Duration::ZERO, |since| now - since);
            self.last = None;
        }
    }

    /// Nothing starts for `length`: all that wait start so much later.
    pub fn delay(&mut self, now: Instant, length: Duration) {
        if self.count > 0 {
            let rest = self.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(now));
            self.last = self.last.max(now.checked_add(length.saturating_add(rest)));
            self.longest = self.longest.max(length);
        }
    }

    /// Those that wait.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The time in which at least one waited, until `now`.
    pub fn time(&self, now: Instant) -> Duration {
        self.time + self.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// In which time the last of those that wait is likely to start.
    pub fn last_in(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(now))
    }

    /// The longest that one was expected to wait.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// Adds those of another scheme of the same host. Waits of both at once count twice, which is
    /// seldom: they have one lane.
    fn absorb(&mut self, other: &Self, now: Instant) {
        self.time += other.time(now);
        self.longest = self.longest.max(other.longest);
    }
}

/// Counts by key, of which only a few are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Few<K> {
    pub each: Vec<(K, u64)>,
    /// Those of further keys.
    pub more: u64,
}

impl<K> Default for Few<K> {
    fn default() -> Self {
        Self { each: Vec::new(), more: 0 }
    }
}

impl<K: Clone + PartialEq> Few<K> {
    /// Counts one.
    pub fn add(&mut self, key: K) {
        self.add_many(key, 1);
    }

    fn add_many(&mut self, key: K, number: u64) {
        match self.each.iter().position(|(known, _)| *known == key) {
            Some(at) => self.each[at].1 += number,
            None if self.each.len() < FEW => self.each.push((key, number)),
            None => self.more += number,
        }
    }

    /// Adds the counts of `other`.
    pub fn absorb(&mut self, other: &Self) {
        other.each.iter().for_each(|(key, count)| self.add_many(key.clone(), *count));
        self.more += other.more;
        self.each.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    /// All that were counted.
    pub fn sum(&self) -> u64 {
        self.each.iter().map(|(_, count)| count).sum::<u64>() + self.more
    }
}

/// What a denial rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleKey {
    pub reason: Reason,
    /// The line and what it says, where it is a rule.
    pub rule: Option<(u32, String)>,
}

impl RuleKey {
    /// Of a record.
    pub fn of(record: &Record) -> Self {
        let rule = record.rule.as_ref().map(|rule| {
            let mut text = format!("{}: {}", rule.directive, rule.pattern);
            if text.len() > RULE_BYTES_MAX {
                text.truncate(text.floor_char_boundary(RULE_BYTES_MAX));
                text.push('…');
            }
            (rule.line, text)
        });
        Self { reason: record.reason, rule }
    }
}

/// The counts of one host, or of one origin.
#[derive(Clone, Debug, Default)]
pub struct HostTally {
    /// Those that came.
    pub requests: u64,
    /// Answered by the origin, whatever its status.
    pub forwarded: u64,
    /// Requests for a robots.txt that were answered with the copy that decides.
    pub copies: u64,
    pub denied: Few<RuleKey>,
    pub would_deny: Few<RuleKey>,
    /// By who has given the exemption, and its end.
    pub exempted: Few<(String, Timestamp)>,
    /// Of which no path was seen.
    pub tunnelled: u64,
    /// Rejected, as they would have waited for longer than they may.
    pub too_early: u64,
    /// Clients that left before the turn of their request.
    pub left_waiting: u64,
    /// Clients that left after it.
    pub left: u64,
    /// By status and proxy error type (RFC 9209 §2.3).
    pub failed: Few<(u16, &'static str)>,
    pub waits: Waits,
    /// What requests waited for last, holds apart.
    pub slowed: Option<Waited>,
    /// The last hold that was told, and its end.
    pub held: Option<(HoldBegun, Instant)>,
}

impl HostTally {
    /// Adds the counts of `other`, of the same host, until `now`.
    pub fn absorb(&mut self, other: &Self, now: Instant) {
        for (sum, count) in [
            (&mut self.requests, other.requests),
            (&mut self.forwarded, other.forwarded),
            (&mut self.copies, other.copies),
            (&mut self.tunnelled, other.tunnelled),
            (&mut self.too_early, other.too_early),
            (&mut self.left_waiting, other.left_waiting),
            (&mut self.left, other.left),
        ] {
            *sum += count;
        }
        self.denied.absorb(&other.denied);
        self.would_deny.absorb(&other.would_deny);
        self.exempted.absorb(&other.exempted);
        self.failed.absorb(&other.failed);
        self.waits.absorb(&other.waits, now);
        self.slowed = other.slowed.or(self.slowed);
        self.held = other.held.or(self.held);
    }

    /// The time in which something waited there.
    pub const fn waited(&self) -> Duration {
        self.waits.time
    }
}

/// How many requests got nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingCounts {
    /// In the file.
    pub listed: u64,
    /// Beyond its bound, or not written.
    pub more: u64,
    pub path: PathBuf,
}

/// A run under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that were answered.
    pub done: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// By host: how many wait, and in which time the last is likely to start. The most first.
    pub waiting: Vec<(String, usize, Duration)>,
}

/// A run that has ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// From its start to its end.
    pub took: Duration,
    /// The time in which something waited.
    pub waited: Duration,
    /// Those with the most requests first.
    pub hosts: Vec<(String, HostTally)>,
    /// Of origins beyond those that are counted one by one.
    pub others: HostTally,
    /// Such origins, as far as they are counted.
    pub more_origins: usize,
    pub missing: MissingCounts,
}

impl RunReport {
    pub(super) fn sorted(mut self) -> Self {
        self.hosts.sort_by(|(a, one), (b, other)| {
            other.requests.cmp(&one.requests).then_with(|| a.cmp(b))
        });
        self
    }

    /// The counts of all hosts.
    pub fn sum(&self, of: impl Fn(&HostTally) -> u64) -> u64 {
        self.hosts.iter().map(|(_, tally)| tally).chain([&self.others]).map(of).sum()
    }

    /// Hosts that requests were for.
    pub fn host_count(&self) -> usize {
        self.hosts.iter().filter(|(_, tally)| tally.requests > 0).count() + self.more_origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::monotonic;

    #[test]
    fn waiting_is_the_time_in_which_something_waits_and_not_the_sum() {
        let start = monotonic();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut waits = Waits::default();
        for second in 0..10 {
            waits.begin(at(0), Duration::from_secs(second + 1));
        }
        assert_eq!((waits.count(), waits.last_in(at(2))), (10, Duration::from_secs(8)));
        (1..=10).for_each(|second| waits.end(at(second)));
        assert_eq!(waits.time(at(60)), Duration::from_secs(10));
        waits.begin(at(60), Duration::from_secs(1));
        assert_eq!(waits.time(at(61)), Duration::from_secs(11), "it waits still");
        waits.delay(at(61), Duration::from_secs(30));
        assert_eq!(waits.last_in(at(61)), Duration::from_secs(30));
        assert_eq!(waits.longest(), Duration::from_secs(30));
    }

    #[test]
    fn keys_beyond_a_few_are_counted_together() {
        let mut few = Few::default();
        (0..20).for_each(|key| few.add(key));
        (0..3).for_each(|_| few.add(5));
        assert_eq!((few.each.len(), few.more, few.sum()), (FEW, 12, 23));
        let mut other = Few::default();
        other.add(5);
        other.absorb(&few);
        assert_eq!(other.each[0], (5, 5));
    }
}
