//! The writer's thread: its state, and its loop. `commit.rs` writes what is queued,
//! `housekeeping.rs` does what timers ask for. Another thread writes evidence; a record that names
//! new evidence is appended once that is stored. Every operation on the disk is a step of
//! [`InFlight`], which the watchdog supervises.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::active_file::ActiveFile;
use super::blob_tracker::BlobTracker;
use super::blob_writer::Kept;
use super::health::{Status, Trouble};
use super::in_flight::InFlight;
use super::log_dir::LogDir;
use super::message::{ForgetError, Job, no_answer};
use super::recover::{Active, First};
use super::reserve::Reserve;
use super::signals::{Events, Signals};
use crate::audit::config::{CurrentConfig, Sync};
use crate::audit::evidence::{self, BlobName};
use crate::audit::limits::RECORDS_WAITING_MAX;
use crate::audit::record::chain::Head;
use crate::audit::record::meta_event::EvidenceLostEvent;
use crate::audit::record::meta_record::{EvidenceLost, Notice, Recorded};
use crate::runtime::clock::{Clock, monotonic};
use crate::types::LogId;
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Records that may wait for their evidence while others are written; beyond that, all wait.
const EVIDENCE_RECORDS_WAITING_MAX: usize = 8192;

/// Names in one notice of lost evidence: its line stays under `RECORD_LINE_BYTES_MAX`.
const EVIDENCE_LOST_NAMES: usize = 500;

pub(super) struct WriterThread {
    pub(super) config: CurrentConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) file: ActiveFile,
    pub(super) log_dir: LogDir,
    pub(super) reserve: Reserve,
    /// The last line written.
    pub(super) head: Head,
    pub(super) log: LogId,
    /// The first line of the file.
    pub(super) first: Option<First>,
    /// The time of the last line written to the open file; none before the first.
    pub(super) last: Option<Timestamp>,
    pub(super) blobs: BlobTracker,
    pub(super) status: Arc<Status>,
    pub(super) events: Events,
    /// Notices to be written before any record: of a torn end that was found, and of the proxy
    /// itself. They wait until they can be written.
    pub(super) found: Vec<Notice>,
    /// Notices to be written behind all others, and behind the `gap` of lost records.
    pub(super) ending: Vec<Notice>,
    pub(super) due: Due,
    /// Records in the file since the last `totals`.
    pub(super) recorded: Recorded,
    pub(super) in_flight: Arc<InFlight>,
}

/// Timers of the writer's thread.
#[derive(Default)]
pub(super) struct Due {
    /// Sync written lines to the disk.
    pub flush: Option<Instant>,
    /// Retry what failed.
    pub retry: Option<Instant>,
    /// Check whether the directory is still at its path.
    pub place: Option<Instant>,
    /// Earliest next attempt to close a segment that could not be closed.
    pub rotate: Option<Instant>,
}

/// Why the thread woke.
enum Woken {
    Jobs,
    Evidence(Kept),
    HangUp,
    Changed,
    Timer,
    End,
}

impl WriterThread {
    pub(super) fn new(
        config: CurrentConfig,
        clock: Arc<dyn Clock>,
        active: Active,
        (head, log, log_dir): (Head, LogId, LogDir),
        in_flight: Arc<InFlight>,
        status: Arc<Status>,
        events: Events,
    ) -> io::Result<Self> {
        status.update(|health| (health.head, health.log) = (head.clone(), Some(log)));
        let blobs = {
            let config = config.load();
            BlobTracker::new(&config.dir, config.sync != Sync::None, active.in_use)?
        };
        Ok(Self {
            blobs,
            reserve: Reserve::take(&config.load().dir),
            config,
            clock,
            file: active.file,
            log_dir,
            head,
            log,
            first: active.first,
            last: None,
            status,
            events,
            found: active.torn.map(Notice::Torn).into_iter().collect(),
            ending: Vec::new(),
            due: Due::default(),
            recorded: Recorded::default(),
            in_flight,
        })
    }

    pub(super) fn run(mut self, runtime: &Runtime, signals: &Signals) {
        let mut taken = Vec::with_capacity(RECORDS_WAITING_MAX);
        let mut is_ending = false;
        self.step();
        self.commit(&mut taken, &[]);
        while !(is_ending && self.in_flight.waiting() == 0) {
            self.rest();
            let in_flight = Arc::clone(&self.in_flight);
            let woken =
                runtime.block_on(self.wait(&mut in_flight.jobs(), &mut taken, signals, is_ending));
            self.step();
            match woken {
                Woken::Jobs => self.commit(&mut taken, &[]),
                Woken::Evidence(kept) => self.settle_evidence(kept),
                Woken::HangUp => self.hang_up(),
                Woken::Changed => self.change(),
                Woken::Timer => {}
                Woken::End => {
                    is_ending = true;
                    self.commit(&mut taken, &[]);
                }
            }
            self.tend();
        }
        self.step();
        self.finish();
        self.rest();
    }

    async fn wait(
        &mut self,
        jobs: &mut mpsc::Receiver<Job>,
        taken: &mut Vec<Job>,
        signals: &Signals,
        is_ending: bool,
    ) -> Woken {
        let until = tokio::time::Instant::from_std(self.next_due());
        let has_room = self.in_flight.waiting() < EVIDENCE_RECORDS_WAITING_MAX;
        tokio::select! {
            // In this order: jobs queued after a call of `reopen` go into the new file.
            biased;
            () = signals.hang_up.notified() => Woken::HangUp,
            () = signals.changed.notified() => Woken::Changed,
            () = signals.notice.notified() => Woken::Jobs,
            kept = self.blobs.done() => Woken::Evidence(kept),
            count = jobs.recv_many(taken, RECORDS_WAITING_MAX), if has_room && !is_ending => match count {
                0 => Woken::End,
                _ => Woken::Jobs,
            },
            // After the jobs queued before.
            () = signals.end.notified() => {
                jobs.close();
                while jobs.recv_many(taken, RECORDS_WAITING_MAX).await > 0 {}
                Woken::End
            }
            () = tokio::time::sleep_until(until) => Woken::Timer,
        }
    }

    /// Begins another operation on the disk.
    pub(super) fn step(&mut self) {
        if self.in_flight.begin_step() {
            self.was_given_up();
        }
    }

    /// Marks that no operation on the disk is under way.
    fn rest(&mut self) {
        if self.in_flight.end_step() {
            self.was_given_up();
        }
    }

    /// The disk answers again: a gap notice for lost records is due now.
    fn was_given_up(&mut self) {
        self.due.retry = Some(monotonic());
    }

    /// Writes the records that have waited for this evidence, whether it could be stored or not.
    fn settle_evidence(&mut self, kept: Kept) {
        let (settled, errors) = self.blobs.settle(kept);
        self.has_not_kept(&errors);
        if errors.is_empty() && !self.blobs.is_failing() {
            self.status.end(Trouble::Evidence);
            self.note_unkept();
        }
        self.commit(&mut Vec::new(), &settled);
    }

    /// Stops waiting for evidence that takes the disk too long.
    pub(super) fn give_up_evidence(&mut self) {
        let names = self.blobs.give_up();
        let error = io::Error::new(io::ErrorKind::TimedOut, no_answer(self.in_flight.timeout()));
        self.has_not_kept(&[error]);
        self.commit(&mut Vec::new(), &names);
    }

    /// Queues a notice of the evidence that lines name, and that is not kept.
    pub(super) fn note_unkept(&mut self) {
        let unkept: Vec<_> = self.blobs.take_unkept().into_iter().collect();
        let time = self.clock.wall();
        self.found.extend(unkept.chunks(EVIDENCE_LOST_NAMES).map(|names| {
            let name = |(kind, sha256): &BlobName| evidence::name(*kind, &hex(sha256));
            Notice::EvidenceLost(EvidenceLost {
                event: EvidenceLostEvent::It,
                evidence: names.iter().map(name).collect(),
                node: None,
                prev: String::new(),
                seq: 0,
                time,
            })
        }));
    }

    /// Takes over changed settings; `tend`, called next, applies those of the file.
    fn change(&mut self) {
        self.blobs.set_durable(self.config.load().sync != Sync::None);
        // Retention may be shorter now: wake it, though no file was closed.
        self.events.files.send_modify(|_| ());
    }

    pub(super) fn has_not_kept(&mut self, errors: &[io::Error]) {
        let Some(error) = errors.first() else { return };
        self.status.update(|health| health.evidence_errors += errors.len() as u64);
        self.trouble(
            Trouble::Evidence,
            &format!("in {}: {error}", self.config.load().dir.display()),
            None,
        );
    }

    pub(super) fn forget(
        &mut self,
        names: &[BlobName],
        files: u64,
        done: oneshot::Sender<Result<u64, ForgetError>>,
    ) {
        let outcome = if files == *self.events.files.borrow() {
            let waiting = self.in_flight.names_of_waiting();
            self.blobs.forget(names, &waiting).map_err(ForgetError::Io)
        } else {
            Err(ForgetError::Outdated)
        };
        let _ = done.send(outcome);
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.in_flight.end();
        // From now on `health` must not report that all is well.
        if std::thread::panicking() {
            self.status.begin(Trouble::Records, "the writer has panicked", None);
        }
    }
}
