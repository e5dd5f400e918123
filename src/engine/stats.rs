//! What an engine counts.

use std::time::Duration;

use super::error::ErrorKind;
use crate::runtime::counters::{Counters, Histogram, HistogramCounts};

/// The operations, as the label `op` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Lookup,
    Publish,
    RenewLease,
    ReleaseLease,
    ReserveSlots,
    SetHold,
    ResetBackoff,
    AnnouncePresence,
    TakePlace,
    Heartbeat,
    GetFile,
    PutFile,
    Heads,
}

impl Operation {
    /// All operations, in the order of [`Self::index`].
    pub const ALL: [Self; 13] = [
        Self::Lookup,
        Self::Publish,
        Self::RenewLease,
        Self::ReleaseLease,
        Self::ReserveSlots,
        Self::SetHold,
        Self::ResetBackoff,
        Self::AnnouncePresence,
        Self::TakePlace,
        Self::Heartbeat,
        Self::GetFile,
        Self::PutFile,
        Self::Heads,
    ];

    /// The value of the label `op`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Publish => "publish",
            Self::RenewLease => "renew_lease",
            Self::ReleaseLease => "release_lease",
            Self::ReserveSlots => "reserve_slots",
            Self::SetHold => "set_hold",
            Self::ResetBackoff => "reset_backoff",
            Self::AnnouncePresence => "announce_presence",
            Self::TakePlace => "take_place",
            Self::Heartbeat => "heartbeat",
            Self::GetFile => "get_file",
            Self::PutFile => "put_file",
            Self::Heads => "heads",
        }
    }

    /// The place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What became of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOutcome {
    /// A request started in it.
    Used,
    /// The response, or the request, came too late for it.
    Missed,
    /// No request waited any more.
    Idle,
}

impl SlotOutcome {
    /// All ends, in the order of [`Counts::slots`].
    pub const ALL: [Self; 3] = [Self::Used, Self::Missed, Self::Idle];

    /// The value of the label `end`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Missed => "missed",
            Self::Idle => "idle",
        }
    }
}

/// What a lookup returned, as the label `result` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupKind {
    Newer,
    Lease,
    Wait,
    Unchanged,
}

impl LookupKind {
    /// All results, in the order of [`Counts::lookups`].
    pub const ALL: [Self; 4] = [Self::Newer, Self::Lease, Self::Wait, Self::Unchanged];

    /// The value of the label `result`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Newer => "newer",
            Self::Lease => "lease",
            Self::Wait => "wait",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The counters of one handle; they only grow.
#[derive(Debug)]
pub struct Stats {
    seconds: [Histogram; Operation::ALL.len()],
    errors: Counters<{ ErrorKind::ALL.len() }>,
    slots: Counters<3>,
    lookups: Counters<4>,
    /// Openings of the breaker, microseconds away, values that could not be read, losses of data.
    others: Counters<4>,
}

const BROKEN: usize = 0;
const AWAY: usize = 1;
const DAMAGED: usize = 2;
const LOST: usize = 3;

/// A snapshot of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// How long operations took, in the order of [`Operation::ALL`].
    pub seconds: [HistogramCounts; Operation::ALL.len()],
    /// Errors, in the order of [`ErrorKind::ALL`].
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Slots that were used, missed and idle.
    pub slots: [u64; 3],
    /// Looks that returned something newer, the lease, the lease of another, and nothing.
    pub lookups: [u64; 4],
    /// How often the breaker has opened.
    pub broken: u64,
    /// How long the engine was away.
    pub away: Duration,
    /// Values whose format, digest, seal or content was wrong.
    pub damaged: u64,
    /// How often the engine had lost its data.
    pub lost: u64,
}

impl Stats {
    /// Counts what became of a slot.
    pub fn note_slot(&self, outcome: SlotOutcome) {
        self.slots.add(outcome as usize, 1);
    }

    /// Counts how long an operation took that had a response.
    pub fn note_time(&self, operation: Operation, took: Duration) {
        self.seconds[operation.index()].note(took);
    }

    /// Counts an error.
    pub fn note_error(&self, kind: ErrorKind) {
        self.errors.add(kind.index(), 1);
    }

    /// Counts what a lookup returned.
    pub fn note_lookup(&self, result: LookupKind) {
        self.lookups.add(result as usize, 1);
    }

    /// Counts an opening of the breaker.
    pub fn note_broken(&self) {
        self.others.add(BROKEN, 1);
    }

    /// Adds to the time for which the engine was away.
    pub fn note_away(&self, length: Duration) {
        self.others.add(AWAY, u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a value that could not be read.
    pub fn note_damaged(&self) {
        self.others.add(DAMAGED, 1);
    }

    /// Counts a loss of data.
    pub fn note_lost(&self) {
        self.others.add(LOST, 1);
    }

    /// How often the engine had lost its data, as [`Counts::lost`].
    pub fn losses(&self) -> u64 {
        self.others.value(LOST)
    }

    /// The current counters.
    pub fn counts(&self) -> Counts {
        Counts {
            seconds: std::array::from_fn(|operation| self.seconds[operation].counts()),
            errors: self.errors.values(),
            slots: self.slots.values(),
            lookups: self.lookups.values(),
            broken: self.others.value(BROKEN),
            away: Duration::from_micros(self.others.value(AWAY)),
            damaged: self.others.value(DAMAGED),
            lost: self.losses(),
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            seconds: std::array::from_fn(|_| Histogram::default()),
            errors: Counters::default(),
            slots: Counters::default(),
            lookups: Counters::default(),
            others: Counters::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_place_and_its_word() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation.index(), index);
        }
        let words: std::collections::HashSet<_> = Operation::ALL.map(Operation::word).into();
        assert_eq!(words.len(), Operation::ALL.len());
    }

    #[test]
    fn what_is_noted_is_counted_once() {
        let stats = Stats::default();
        stats.note_slot(SlotOutcome::Missed);
        stats.note_time(Operation::Heads, Duration::from_millis(3));
        stats.note_error(ErrorKind::TooLarge);
        stats.note_lookup(LookupKind::Unchanged);
        stats.note_broken();
        stats.note_away(Duration::from_millis(1500));
        stats.note_damaged();
        stats.note_lost();
        assert_eq!(stats.losses(), 1);
        let counts = stats.counts();
        assert_eq!((counts.slots, counts.lookups), ([0, 1, 0], [0, 0, 0, 1]));
        assert_eq!(counts.seconds[Operation::Heads.index()].count(), 1);
        assert_eq!(counts.errors[ErrorKind::TooLarge.index()], 1);
        assert_eq!(counts.away, Duration::from_millis(1500));
        assert_eq!((counts.broken, counts.damaged, counts.lost), (1, 1, 1));
    }
}
