//! The proxies that share an engine, as their heartbeats show them, and the loss of the engine's
//! data.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::clock::Micros;
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// Time between two heartbeats of a proxy, while there are few: [`Members::heartbeat_interval`].
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// Time between two announcements that a proxy sends requests to an origin, while there are few:
/// [`Members::presence_interval`].
const PRESENCE_INTERVAL_MIN: Duration = Duration::from_secs(15);
/// Heartbeats a second that all proxies together send at most; and announcements of one origin.
const HEARTBEATS_PER_SECOND_MAX: u32 = 200;
/// A proxy that has not been seen for so many intervals is gone.
pub(super) const MISSED_MAX: u64 = 3;
/// More proxies than these are not believed: a program that writes to the server could else make
/// heartbeats rare, and the share of each nothing.
pub(super) const MEMBERS_MAX: usize = 10_000;
/// The time of contact of which the largest count of members applies.
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// What a heartbeat returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Proxies that live, this one included.
    pub members: usize,
    /// How many of them have the same shared settings.
    pub same_settings: usize,
    /// The latest format of values that all of them read.
    pub format: u8,
    /// The engine's time.
    pub now: Micros,
    /// When the engine's data began.
    pub epoch: Micros,
    /// Whether another process with the name of this proxy lives.
    pub has_namesake: bool,
}

/// What has been seen of the members. Time is that of contact with the engine, passed in as a
/// duration since any fixed moment.
#[derive(Debug)]
pub struct Members {
    /// Counts by the time of contact at which each was seen: the last, and of those before it what
    /// is larger.
    counts: VecDeque<(Duration, usize)>,
    /// How long the engine was in contact.
    contact: Duration,
    noted: Option<Duration>,
    last: Heartbeat,
    /// The run of the server in each place.
    runs: HashMap<String, String>,
    epoch: Option<Micros>,
    known_since: Micros,
}

impl Members {
    /// No contact yet; there were `before` members when the last process ended, if that is not 0.
    pub fn new(before: usize) -> Self {
        Self {
            counts: (before > 0)
                .then_some((Duration::ZERO, before.min(MEMBERS_MAX)))
                .into_iter()
                .collect(),
            contact: Duration::ZERO,
            noted: None,
            last: Heartbeat { members: 1, ..Heartbeat::default() },
            runs: HashMap::new(),
            epoch: None,
            known_since: 0,
        }
    }

    /// Notes that a run of a server responds in a place, at this time of its clock. Another run
    /// than before may lack what that had. Returns whether that is so.
    pub fn note_run(&mut self, place: &str, run: &str, now: Micros) -> bool {
        let before = self.runs.insert(place.to_owned(), run.to_owned());
        let is_lost = before.is_some_and(|before| before != run);
        if is_lost {
            self.note_loss(now);
        }
        is_lost
    }

    /// Notes that data may have been lost before this time of the engine's clock.
    pub fn note_loss(&mut self, now: Micros) {
        self.known_since = self.known_since.max(now);
    }

    /// Notes a heartbeat at time `at`. Returns whether data was lost since the heartbeat before.
    pub fn note(&mut self, mut heartbeat: Heartbeat, at: Duration) -> bool {
        heartbeat.members = heartbeat.members.clamp(1, MEMBERS_MAX);
        heartbeat.same_settings = heartbeat.same_settings.min(heartbeat.members);
        let longest = 2 * heartbeat_interval(heartbeat.members);
        let since = self.noted.map_or(Duration::ZERO, |noted| at.saturating_sub(noted));
        self.contact += since.min(longest);
        self.noted = Some(at);
        self.last = heartbeat;
        self.push(heartbeat.members);
        let is_lost = self.epoch.is_some_and(|epoch| epoch != heartbeat.epoch);
        // Nothing is known of what started before the data began.
        self.known_since =
            if is_lost { heartbeat.now } else { self.known_since.max(heartbeat.epoch) };
        self.epoch = Some(heartbeat.epoch);
        is_lost
    }

    fn push(&mut self, count: usize) {
        while self.counts.back().is_some_and(|(_, smaller)| *smaller <= count) {
            self.counts.pop_back();
        }
        self.counts.push_back((self.contact, count));
        while self.counts.front().is_some_and(|(seen, _)| *seen + WINDOW < self.contact) {
            self.counts.pop_front();
        }
    }

    /// The largest count of the last ten minutes of contact; at least 1.
    pub fn largest(&self) -> usize {
        self.counts.front().map_or(1, |(_, count)| (*count).max(1))
    }

    /// The last heartbeat.
    pub const fn last(&self) -> Heartbeat {
        self.last
    }

    /// When the engine's data began; none before the first heartbeat.
    pub const fn epoch(&self) -> Option<Micros> {
        self.epoch
    }

    /// Since when all starts are known, by the engine's clock: before it, one may be missing from
    /// what the engine has.
    pub const fn known_since(&self) -> Micros {
        self.known_since
    }

    /// The time until the next heartbeat.
    pub fn heartbeat_interval(&self) -> Duration {
        heartbeat_interval(self.last.members)
    }

    /// The time between two announcements that this proxy sends requests to an origin.
    pub fn presence_interval(&self) -> Duration {
        spread(self.last.members, PRESENCE_INTERVAL_MIN)
    }
}

/// The time between two heartbeats of each of so many proxies.
pub(super) fn heartbeat_interval(members: usize) -> Duration {
    spread(members, HEARTBEAT_INTERVAL_MIN)
}

fn spread(members: usize, least: Duration) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    (Duration::from_secs(members.into()) / HEARTBEATS_PER_SECOND_MAX).max(least)
}

/// The last line of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log; none in what an earlier version has passed on.
    pub log: Option<LogId>,
    /// Its number in the log.
    pub number: u64,
    /// Its SHA-256.
    pub hash: [u8; 32],
    /// When it was written, by the clock of its proxy.
    pub time: Timestamp,
    /// It contradicts a head that the engine has seen of the same log: it is behind that, or beside
    /// it. The proxy has found so itself, or the engine has.
    pub contradicts: bool,
}

/// Heads by the names of their proxies.
pub type NamedHeads = Vec<(String, LogHead)>;

/// Numbers that are compared: those of a server are exact up to there.
pub(super) const NUMBER_MAX: u64 = (1 << 53) - 1;

impl LogHead {
    /// The head, of a log or of the proxy of this name, that it follows or contradicts; what
    /// contradicts has a place beside it.
    pub(super) fn place(&self, proxy: &str) -> String {
        self.log.map_or_else(|| proxy.to_owned(), |log| log.to_string())
    }

    /// Whether it does not follow the head that was seen before it, which moves forward only.
    pub(super) fn is_against(&self, seen: &Self) -> bool {
        let (number, before) = (self.number, seen.number);
        let is_behind = number < before || number == before && self.hash != seen.hash;
        before <= NUMBER_MAX && (self.contradicts || number <= NUMBER_MAX && is_behind)
    }
}

/// The place of what contradicts the head in `place`.
pub(super) fn against(place: &str) -> String {
    format!("{place}!")
}

/// In one order, each once.
pub(super) fn in_order(mut heads: NamedHeads) -> NamedHeads {
    heads.sort_by(|(one, a), (other, b)| {
        (one, a.log, a.contradicts).cmp(&(other, b.log, b.contradicts))
    });
    heads.dedup_by(|(one, a), (other, b)| {
        one == other && (a.log, a.contradicts) == (b.log, b.contradicts)
    });
    heads
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn heartbeat(members: usize, now: Micros, epoch: Micros) -> Heartbeat {
        Heartbeat { members, same_settings: members, format: 1, now, epoch, has_namesake: false }
    }

    #[test]
    fn many_proxies_send_fewer_heartbeats() {
        for (count, heartbeats, marks) in
            [(0, 5, 15), (1000, 5, 15), (2000, 10, 15), (10_000, 50, 50)]
        {
            let mut members = Members::new(0);
            members.note(heartbeat(count, 1, 1), seconds(0));
            assert_eq!(
                (members.heartbeat_interval(), members.presence_interval()),
                (seconds(heartbeats), seconds(marks))
            );
        }
    }

    #[test]
    fn the_largest_count_of_ten_minutes_of_contact_applies() {
        let mut members = Members::new(0);
        assert_eq!(members.largest(), 1, "never in contact");
        // Time, count, largest.
        let story = [(0, 3, 3), (5, 8, 8), (10, 4, 8), (600, 4, 8)];
        for (at, count, largest) in story {
            members.note(heartbeat(count, 1, 1), seconds(at));
            assert_eq!(members.largest(), largest, "at {at} s");
        }
        // The ten minutes without a heartbeat were not contact. From here on there are heartbeats.
        for step in 0..118 {
            members.note(heartbeat(2, 1, 1), seconds(10_000 + 5 * step));
            let largest = if step < 116 { 8 } else { 4 };
            assert_eq!(members.largest(), largest, "step {step}");
        }
    }

    #[test]
    fn the_count_before_a_restart_applies_for_ten_minutes() {
        let mut members = Members::new(12);
        assert_eq!(members.largest(), 12);
        for step in 0..=121 {
            members.note(heartbeat(3, 1, 1), seconds(5 * step));
            assert_eq!(members.largest(), if step <= 120 { 12 } else { 3 }, "step {step}");
        }
    }

    #[test]
    fn another_epoch_or_another_run_is_a_loss() {
        let mut members = Members::new(0);
        assert!(!members.note_run("primary", "a", 90));
        assert!(!members.note(heartbeat(1, 100, 70), seconds(0)));
        assert_eq!(members.known_since(), 70, "what was before the data began is not known");
        assert!(!members.note_run("primary", "a", 150), "the same run");
        assert!(!members.note(heartbeat(1, 200, 70), seconds(5)));
        assert_eq!(members.known_since(), 70);
        assert!(members.note(heartbeat(1, 300, 290), seconds(10)), "another epoch");
        assert_eq!((members.known_since(), members.epoch()), (300, Some(290)));
        assert!(members.note_run("primary", "b", 400), "another run");
        assert_eq!(members.known_since(), 400);
        assert!(!members.note_run("another node", "c", 450));
        assert!(!members.note(heartbeat(1, 500, 290), seconds(20)));
        assert_eq!(members.known_since(), 400);
    }

    proptest! {
        #[test]
        fn the_largest_count_is_that_of_all_counts_in_the_window(
            counts in prop::collection::vec(1_usize..100, 1..300)
        ) {
            let mut members = Members::new(0);
            for (step, count) in counts.iter().enumerate() {
                members.note(heartbeat(*count, 1, 1), seconds(5 * step as u64));
                let first = step.saturating_sub(120);
                prop_assert_eq!(members.largest(), *counts[first..=step].iter().max().unwrap());
            }
        }
    }
}
