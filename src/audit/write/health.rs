//! The health of the writer: counted by its thread, read by others. A failure is logged once when
//! it begins and once when it ends, however many records it costs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::writer_handle::{WriteError, no_answer};
use crate::audit::OnFailure;
use crate::audit::record::chain::Head;
use crate::audit::record::event::GapEvent;
use crate::audit::record::meta_record::{Gap, Notice};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// The numbers are of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Bytes of lines written.
    pub bytes: u64,
    /// The writer has ended while something could not be written.
    pub ended_failing: bool,
    /// Attempts to write to the log, or to bring it to the disk, that failed.
    pub errors: u64,
    /// Attempts to keep a piece of evidence that failed.
    pub evidence_errors: u64,
    /// What cannot be done, and why; none while all is well.
    pub failing: Option<String>,
    /// The last checkpoint that stands in the log; none before the first of this process.
    pub checkpoint: Option<Arc<str>>,
    /// Checkpoints that the command of `audit.publish` has taken, and how often that failed.
    pub published: u64,
    /// See above.
    pub publish_failures: u64,
    /// The last line.
    pub head: Head,
    /// The identity of the log; none before the writer is open.
    pub log: Option<LogId>,
    /// The head in `head.json`, which is on the disk, and when it was noted there; none before the
    /// first of this process.
    pub noted_head: Option<(Head, Timestamp)>,
    /// Records that could not be written. A `gap` counts them in the log later.
    pub lost: u64,
    /// The log lacks lines that a witness has seen; none while none is known to be missing.
    pub rewound: Option<String>,
    /// Files of the log that were closed.
    pub segments_closed: u64,
    /// Records written.
    pub written: u64,
}

/// What can go wrong, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteFault {
    /// The disk does not answer: no record is taken until it does.
    NoAnswer,
    /// The directory, or the file in it, is not the one that was opened any more: no reader would look
    /// where lines would go, so none are written.
    Directory,
    /// Lines cannot be handed to the operating system.
    Records,
    /// They cannot be brought to the disk, or the head cannot be written down beside them.
    Disk,
    /// Pieces of evidence cannot be kept.
    Evidence,
}

#[derive(Debug)]
pub(super) struct Status {
    state: Lock<State>,
    /// Apart from the rest: every request asks for it.
    is_stopped: AtomicBool,
    /// [`WriteFault::NoAnswer`] lasts: every record asks for it.
    is_hanging: AtomicBool,
    /// Since when the writer's thread has been at work; none while it waits for some.
    busy_since: Lock<Option<Instant>>,
}

#[derive(Debug)]
struct State {
    on_failure: OnFailure,
    health: Health,
    faults: BTreeMap<WriteFault, String>,
    loss: Option<Loss>,
}

/// Lost records that no `gap` in the log counts yet.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    records: u64,
    since: Timestamp,
    why: String,
}

impl WriteFault {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NoAnswer | Self::Records => {
                ("cannot write denial records", "denial records can be written again")
            }
            Self::Directory => (
                "denial records are refused: their directory is not the one that was opened",
                "the directory of denial records is in its place again",
            ),
            Self::Disk => (
                "cannot bring denial records to the disk",
                "denial records can be brought to the disk again",
            ),
            Self::Evidence => ("cannot keep evidence", "evidence can be kept again"),
        }
    }
}

impl Status {
    /// The status of a log without faults.
    pub fn new(on_failure: OnFailure) -> Self {
        let state =
            State { on_failure, health: Health::default(), faults: BTreeMap::new(), loss: None };
        Self {
            state: Lock::new(state),
            is_stopped: AtomicBool::new(false),
            is_hanging: AtomicBool::new(false),
            busy_since: Lock::default(),
        }
    }

    /// The current health.
    pub fn health(&self) -> Health {
        self.locked().health.clone()
    }

    /// Whether requests are refused, as `audit.on_failure = "stop"` asks.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Whether the disk has kept a caller waiting for too long, and has not answered since.
    pub fn is_hanging(&self) -> bool {
        self.is_hanging.load(Ordering::Relaxed)
    }

    /// A caller has waited for its record for as long as one may.
    pub fn note_no_answer(&self) -> WriteError {
        self.update(|health| health.errors += 1);
        self.begin(WriteFault::NoAnswer, &no_answer(), None);
        WriteError::NoAnswer
    }

    /// The writer's thread begins to work, or has done what there was. Returns whether the disk had
    /// been taken to hang.
    pub fn set_busy(&self, is_busy: bool) -> bool {
        *self.busy_since.lock() = is_busy.then(monotonic);
        let was_hanging = self.is_hanging();
        if was_hanging {
            self.end(WriteFault::NoAnswer);
        }
        was_hanging
    }

    /// How long the writer's thread has been at work.
    pub fn busy_for(&self) -> Duration {
        self.busy_since.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Changes the health.
    pub fn update(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.locked().health);
    }

    /// Counts lost records, and notes `why`.
    pub fn lose(&self, records: u64, why: &str, now: Timestamp) {
        let mut state = self.locked();
        state.health.lost += records;
        let loss =
            state.loss.get_or_insert_with(|| Loss { records: 0, since: now, why: why.to_owned() });
        loss.records += records;
    }

    /// Lost records that no `gap` counts yet.
    pub fn loss(&self) -> Option<Loss> {
        self.locked().loss.clone()
    }

    /// A `gap` with `said` was written. Records lost since then remain.
    pub fn said(&self, said: &Loss) {
        let mut state = self.locked();
        state.loss.take_if(|loss| loss.records <= said.records);
        if let Some(loss) = &mut state.loss {
            loss.records -= said.records;
        }
    }

    /// Whether `fault` lasts.
    pub fn has(&self, fault: WriteFault) -> bool {
        self.locked().faults.contains_key(&fault)
    }

    /// `why` names the path, too; `cost`: the id of the first record lost by it.
    pub fn begin(&self, fault: WriteFault, why: &str, cost: Option<&str>) {
        let what = fault.words().0;
        let mut state = self.locked();
        let has_begun = state.faults.insert(fault, format!("{what}: {why}")).is_none();
        self.settle(&mut state);
        drop(state);
        if has_begun {
            tracing::error!(record = cost, "{what}: {why}");
        }
    }

    /// Notes that `fault` is over.
    pub fn end(&self, fault: WriteFault) {
        let mut state = self.locked();
        if state.faults.remove(&fault).is_some() {
            self.settle(&mut state);
            drop(state);
            tracing::info!("{}", fault.words().1);
        }
    }

    /// Takes over `audit.on_failure`.
    pub fn change(&self, on_failure: OnFailure) {
        let mut state = self.locked();
        state.on_failure = on_failure;
        self.settle(&mut state);
    }

    fn settle(&self, state: &mut State) {
        state.health.failing = state.faults.values().next().cloned();
        // A record without its evidence still tells what was decided: that stops nothing.
        let is_grave = state.faults.keys().any(|fault| *fault <= WriteFault::Disk);
        let is_hanging = state.faults.contains_key(&WriteFault::NoAnswer);
        self.is_hanging.store(is_hanging, Ordering::Relaxed);
        self.is_stopped.store(is_grave && state.on_failure == OnFailure::Stop, Ordering::Relaxed);
    }

    /// Counters stay right even if a holder of the lock panicked.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Loss {
    /// The notice of the loss.
    pub fn gap(self, now: Timestamp) -> Notice {
        Notice::Gap(Gap {
            event: GapEvent::It,
            lost: self.records,
            node: None,
            prev: String::new(),
            seq: 0,
            since: self.since,
            time: now,
            why: self.why,
        })
    }
}
