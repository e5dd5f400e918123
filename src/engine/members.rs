//! The proxies that share an engine, as their beats show them, and the loss of the engine's data.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::clock::Micros;

/// Time between two beats of a proxy, while there are few: [`interval`].
const BEAT_MIN: Duration = Duration::from_secs(5);
/// Time between two marks that a proxy is at an origin, while there are few: [`presence`].
const PRESENCE_MIN: Duration = Duration::from_secs(15);
/// Beats a second that all proxies together send at most; and of the marks for one origin.
const BEATS_PER_SECOND: u32 = 200;
/// A proxy that has not been seen for so many intervals is gone.
pub(super) const MISSED_MAX: u64 = 3;
/// The time of contact of which the largest count of members applies.
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// What a beat returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
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
    last: Beat,
    /// The run of the server in each place.
    runs: HashMap<String, String>,
    epoch: Option<Micros>,
    floor: Micros,
}

impl Members {
    /// No contact yet; there were `before` members when the last process ended, if that is not 0.
    pub fn new(before: usize) -> Self {
        Self {
            counts: (before > 0).then_some((Duration::ZERO, before)).into_iter().collect(),
            contact: Duration::ZERO,
            noted: None,
            last: Beat { members: 1, ..Beat::default() },
            runs: HashMap::new(),
            epoch: None,
            floor: 0,
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
        self.floor = self.floor.max(now);
    }

    /// Notes a beat at time `at`. Returns whether data was lost since the beat before.
    pub fn note(&mut self, beat: Beat, at: Duration) -> bool {
        let longest = 2 * interval(beat.members);
        let since = self.noted.map_or(Duration::ZERO, |noted| at.saturating_sub(noted));
        self.contact += since.min(longest);
        self.noted = Some(at);
        self.last = beat;
        self.push(beat.members);
        let is_lost = self.epoch.is_some_and(|epoch| epoch != beat.epoch);
        // Nothing is known of what started before the data began.
        self.floor = if is_lost { beat.now } else { self.floor.max(beat.epoch) };
        self.epoch = Some(beat.epoch);
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

    /// The last beat.
    pub const fn last(&self) -> Beat {
        self.last
    }

    /// When the engine's data began; none before the first beat.
    pub const fn epoch(&self) -> Option<Micros> {
        self.epoch
    }

    /// By the engine's clock: where it has no record of a lane's last start, one may have been as
    /// late as this.
    pub const fn floor(&self) -> Micros {
        self.floor
    }

    /// The time until the next beat.
    pub fn interval(&self) -> Duration {
        interval(self.last.members)
    }

    /// The time between two marks that this proxy is at an origin.
    pub fn presence(&self) -> Duration {
        spread(self.last.members, PRESENCE_MIN)
    }
}

/// The time between two beats of each of so many proxies.
pub(super) fn interval(members: usize) -> Duration {
    spread(members, BEAT_MIN)
}

fn spread(members: usize, least: Duration) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    (Duration::from_secs(members.into()) / BEATS_PER_SECOND).max(least)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn beat(members: usize, now: Micros, epoch: Micros) -> Beat {
        Beat { members, same_settings: members, format: 1, now, epoch }
    }

    #[test]
    fn many_proxies_beat_less_often() {
        for (count, beats, marks) in [(0, 5, 15), (1000, 5, 15), (2000, 10, 15), (10_000, 50, 50)] {
            let mut members = Members::new(0);
            members.note(beat(count, 1, 1), seconds(0));
            assert_eq!((members.interval(), members.presence()), (seconds(beats), seconds(marks)));
        }
    }

    #[test]
    fn the_largest_count_of_ten_minutes_of_contact_applies() {
        let mut members = Members::new(0);
        assert_eq!(members.largest(), 1, "never in contact");
        // Time, count, largest.
        let story = [(0, 3, 3), (5, 8, 8), (10, 4, 8), (600, 4, 8)];
        for (at, count, largest) in story {
            members.note(beat(count, 1, 1), seconds(at));
            assert_eq!(members.largest(), largest, "at {at} s");
        }
        // The ten minutes without a beat were not contact. From here on there are beats.
        for step in 0..118 {
            members.note(beat(2, 1, 1), seconds(10_000 + 5 * step));
            let largest = if step < 116 { 8 } else { 4 };
            assert_eq!(members.largest(), largest, "step {step}");
        }
    }

    #[test]
    fn the_count_before_a_restart_applies_for_ten_minutes() {
        let mut members = Members::new(12);
        assert_eq!(members.largest(), 12);
        for step in 0..=121 {
            members.note(beat(3, 1, 1), seconds(5 * step));
            assert_eq!(members.largest(), if step <= 120 { 12 } else { 3 }, "step {step}");
        }
    }

    #[test]
    fn another_epoch_or_another_run_is_a_loss() {
        let mut members = Members::new(0);
        assert!(!members.note_run("primary", "a", 90));
        assert!(!members.note(beat(1, 100, 70), seconds(0)));
        assert_eq!(members.floor(), 70, "what was before the data began is not known");
        assert!(!members.note_run("primary", "a", 150), "the same run");
        assert!(!members.note(beat(1, 200, 70), seconds(5)));
        assert_eq!(members.floor(), 70);
        assert!(members.note(beat(1, 300, 290), seconds(10)), "another epoch");
        assert_eq!((members.floor(), members.epoch()), (300, Some(290)));
        assert!(members.note_run("primary", "b", 400), "another run");
        assert_eq!(members.floor(), 400);
        assert!(!members.note_run("another node", "c", 450));
        assert!(!members.note(beat(1, 500, 290), seconds(20)));
        assert_eq!(members.floor(), 400);
    }

    proptest! {
        #[test]
        fn the_largest_count_is_that_of_all_counts_in_the_window(
            counts in prop::collection::vec(1_usize..100, 1..300)
        ) {
            let mut members = Members::new(0);
            for (step, count) in counts.iter().enumerate() {
                members.note(beat(*count, 1, 1), seconds(5 * step as u64));
                let first = step.saturating_sub(120);
                prop_assert_eq!(members.largest(), *counts[first..=step].iter().max().unwrap());
            }
        }
    }
}
