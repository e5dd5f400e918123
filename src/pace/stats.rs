//! The counts that are exported as metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::no_turn::{NoTurn, WaitReason, Waited};
use crate::runtime::counters::{Counters, Histogram, HistogramCounts};
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Counters that workers write to.
#[derive(Debug, Default)]
pub(super) struct Stats {
    /// Waits, in the order of [`WaitReason::ALL`].
    waits: [Histogram; WaitReason::ALL.len()],
    /// Waits that there would be, where the mode is to observe.
    would_wait: Histogram,
    /// Refusals, in the order of [`Counts::REFUSALS`].
    refusals: Counters<3>,
    /// Requests whose delay the robots.txt asks to be longer than it may be.
    clamped: Counters<1>,
    /// Times that lanes were written to the store.
    writes: Counters<1>,
    /// Lanes that were forgotten for want of memory.
    forgotten: Counters<1>,
    longest: Lock<Option<(Origin, Waited)>>,
    /// How long requests waited that got no exchange at once.
    pub exchange_waits: Histogram,
    /// Requests that got no exchange in time.
    pub exchanges_rejected: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Waits, in the order of [`WaitReason::ALL`].
    pub waits: [HistogramCounts; WaitReason::ALL.len()],
    pub would_wait: HistogramCounts,
    /// In the order of [`Self::REFUSALS`].
    pub refusals: [u64; 3],
    pub clamped: u64,
    /// Times that lanes were written to the store.
    pub writes: u64,
    /// Lanes that were forgotten for want of memory.
    pub forgotten: u64,
    /// The longest wait, and where it was.
    pub longest: Option<(Origin, Waited)>,
    /// Origins whose pace is remembered.
    pub lanes: usize,
    /// Origins that are left alone.
    pub holds: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that wait for an exchange.
    pub exchanges_waiting: usize,
    /// How long requests waited that got no exchange at once.
    pub exchange_waits: HistogramCounts,
    /// Requests that got no exchange in time.
    pub exchanges_rejected: u64,
}

/// The waits since the start, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// Requests that waited.
    pub held: u64,
    /// The sum of their waits.
    pub waited: Duration,
    /// Requests that were answered 429 or 503, with the time in Retry-After.
    pub refused: u64,
}

impl Counts {
    /// The sum of all waits.
    pub fn waited(&self) -> Duration {
        Duration::from_secs_f64(self.waits.iter().map(HistogramCounts::sum).sum())
    }

    /// The reasons of refusals.
    pub const REFUSALS: [&'static str; 3] = ["too_long", "held", "full"];
}

impl Stats {
    pub(super) fn note_wait(&self, origin: &Origin, waited: Waited) {
        let is_it = |by: &WaitReason| *by == waited.by;
        let index = WaitReason::ALL.iter().position(is_it).unwrap_or_default();
        self.waits[index].note(waited.time);
        let mut longest = self.longest.lock();
        if longest.as_ref().is_none_or(|(_, former)| former.time < waited.time) {
            *longest = Some((origin.clone(), waited));
        }
    }

    pub(super) fn note_would_wait(&self, time: Duration) {
        self.would_wait.note(time);
    }

    pub(super) fn note_clamped(&self) {
        self.clamped.add(0, 1);
    }

    pub(super) fn note_write(&self) {
        self.writes.add(0, 1);
    }

    pub(super) fn note_forgotten(&self, lanes: usize) {
        self.forgotten.add(0, lanes as u64);
    }

    pub(super) fn note_no_turn(&self, no_turn: &NoTurn) {
        let index = match no_turn {
            NoTurn::TooLong { .. } => 0,
            NoTurn::Held { .. } | NoTurn::OutsideVisitTime { .. } | NoTurn::EngineAway => 1,
            NoTurn::Full | NoTurn::Stopping => 2,
        };
        self.refusals.add(index, 1);
    }

    pub(super) fn totals(&self) -> WaitTotals {
        let waits: Vec<_> = self.waits.iter().map(Histogram::counts).collect();
        let [too_long, held, _] = self.refusals.values();
        WaitTotals {
            held: waits.iter().map(HistogramCounts::count).sum(),
            waited: Duration::from_secs_f64(waits.iter().map(HistogramCounts::sum).sum()),
            refused: too_long + held,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            waits: std::array::from_fn(|index| self.waits[index].counts()),
            would_wait: self.would_wait.counts(),
            refusals: self.refusals.values(),
            clamped: self.clamped.value(0),
            writes: self.writes.value(0),
            forgotten: self.forgotten.value(0),
            longest: self.longest.lock().clone(),
            exchange_waits: self.exchange_waits.counts(),
            exchanges_rejected: self.exchanges_rejected.load(Ordering::Relaxed),
            ..Counts::default()
        }
    }
}
