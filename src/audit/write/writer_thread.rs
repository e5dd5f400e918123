//! The writer's thread: appends all queued lines with one write (group commit), then answers their
//! callers. `housekeeping.rs` does what timers ask for. Another thread writes evidence; a record
//! that names new evidence is appended once that is stored. Every operation on the disk is a step
//! of [`InFlight`], which the watchdog supervises.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::active_file::ActiveFile;
use super::batch::Batch;
use super::blob_tracker::BlobTracker;
use super::blob_writer::Kept;
use super::health::{Loss, Status, Trouble};
use super::in_flight::{InFlight, Unanswered, Waiting, answer};
use super::log_dir::LogDir;
use super::message::{ForgetError, Job, WriteError, no_answer};
use super::recover::{Active, First};
use super::signals::{Events, Signals};
use crate::audit::config::{Current, Sync};
use crate::audit::evidence::BlobName;
use crate::audit::limits::RECORDS_WAITING_MAX;
use crate::audit::record::chain::{Content, Head};
use crate::audit::record::meta_record::{Notice, Recorded};
use crate::runtime::clock::{Clock, monotonic};
use crate::types::timestamp::Timestamp;

/// How long after a write the file is synced and `head.json` written, under `audit.sync = "batch"`:
/// what a power cut may take.
const AUDIT_SYNC_DELAY: Duration = Duration::from_millis(100);

/// Records that may wait for their evidence while others are written; beyond that, all wait.
const EVIDENCE_RECORDS_WAITING_MAX: usize = 8192;

pub(super) struct WriterThread {
    pub(super) config: Current,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) file: ActiveFile,
    pub(super) log_dir: LogDir,
    /// The last line written.
    pub(super) head: Head,
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
    pub(super) due: Due,
    /// Records in the file since the last `totals`.
    recorded: Recorded,
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
        config: Current,
        clock: Arc<dyn Clock>,
        active: Active,
        (head, log_dir): (Head, LogDir),
        in_flight: Arc<InFlight>,
        status: Arc<Status>,
        events: Events,
    ) -> io::Result<Self> {
        status.update(|health| health.head = head.clone());
        let blobs = {
            let config = config.load();
            BlobTracker::new(&config.dir, config.sync != Sync::None, active.in_use)?
        };
        Ok(Self {
            blobs,
            config,
            clock,
            file: active.file,
            log_dir,
            head,
            first: active.first,
            last: None,
            status,
            events,
            found: active.torn.map(Notice::Torn).into_iter().collect(),
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

    /// Writes pending notices, then the queued jobs, then answers. `settled`: evidence that no line
    /// has to wait for any more.
    pub(super) fn commit(&mut self, taken: &mut Vec<Job>, settled: &[BlobName]) {
        // Shared with the watchdog while the disk is used: it may not answer.
        self.in_flight.put_jobs(taken);
        self.check_place_now_and_then();
        self.in_flight.take_jobs(taken);
        let (mut lines, mut unanswered, mut forgets) = (Vec::new(), Vec::new(), Vec::new());
        let mut take = |content, done| {
            unanswered.push(Unanswered {
                done: Some(done),
                is_record: matches!(content, Content::Record(_)),
            });
            lines.push(content);
        };
        for waiting in self.in_flight.take_ready(settled) {
            take(waiting.content, waiting.done);
        }
        for job in taken.drain(..) {
            let (content, blobs, done) = match job {
                Job::Write { record, blobs, done } => (Content::Record(record), blobs, done),
                Job::Note { notice, blobs, done } => (Content::Notice(*notice), blobs, done),
                Job::Forget { names, files, done } => {
                    forgets.push((names, files, done));
                    continue;
                }
            };
            let missing = self.blobs.require(blobs);
            if missing.is_empty() {
                take(content, done);
            } else {
                self.in_flight.wait_for_evidence(Waiting { content, done, missing });
            }
        }
        self.blobs.start();
        self.in_flight.hold(unanswered);
        self.write(lines);
        for (names, files, done) in forgets {
            self.step();
            self.forget(&names, files, done);
        }
    }

    /// Appends `lines`, behind the writer's own notices.
    fn write(&mut self, lines: Vec<Content>) {
        let ready = self.check_file();
        self.found.extend(self.in_flight.take_notices(self.found.len()));
        let mut batch = Batch::after(&self.head, self.recorded, self.config.load().node.clone());
        let loss = self.status.loss();
        let gap = loss.clone().map(|loss| loss.gap(self.clock.wall()));
        let own = self.found.iter().cloned().chain(gap);
        own.for_each(|notice| batch.push(Content::Notice(notice)));
        let own = batch.places.len();
        for content in lines {
            match content {
                Content::Record(record) => batch.record(record),
                notice @ Content::Notice(_) => batch.push(notice),
            }
        }
        if batch.lines.is_empty() {
            return;
        }
        let durable = self.config.load().sync == Sync::Each;
        let written = ready.and_then(|()| self.file.append(&batch.lines, durable));
        let Some(unanswered) = self.in_flight.release() else {
            // The watchdog has answered that nothing was written: take the lines back.
            let taken_back = written.and_then(|()| self.file.take_back(batch.lines.len() as u64));
            taken_back.unwrap_or_else(|error| tracing::error!("in the denial log: {error}"));
            return;
        };
        let written = written.map_err(Arc::new);
        match &written {
            Ok(()) => self.has_written(&batch, loss.as_ref()),
            Err(error) => self.has_lost(&batch, error),
        }
        let places = batch.places.split_off(own);
        answer(unanswered, &written.map(|()| places).map_err(WriteError::Io));
    }

    /// Writes the records that have waited for this evidence, whether it could be stored or not.
    fn settle_evidence(&mut self, kept: Kept) {
        let (settled, errors) = self.blobs.settle(kept);
        self.has_not_kept(&errors);
        if errors.is_empty() && !self.blobs.is_failing() {
            self.status.end(Trouble::Evidence);
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

    /// Takes over changed settings; `tend`, called next, applies those of the file.
    fn change(&mut self) {
        self.blobs.set_durable(self.config.load().sync != Sync::None);
        // Retention may be shorter now: wake it, though no file was closed.
        self.events.files.send_modify(|_| ());
    }

    fn has_written(&mut self, batch: &Batch, loss: Option<&Loss>) {
        self.head = batch.head.clone();
        self.recorded = batch.recorded;
        self.first = self.first.or(batch.first);
        self.last = batch.last;
        self.blobs.use_all(batch.names.iter().copied());
        self.found.clear();
        if let Some(loss) = loss {
            self.status.said(loss);
        }
        self.due.flush.get_or_insert_with(|| monotonic() + AUDIT_SYNC_DELAY);
        self.status.update(|health| {
            health.head = batch.head.clone();
            health.written += batch.records;
            health.bytes += batch.lines.len() as u64;
        });
        self.status.end(Trouble::Records);
    }

    fn has_lost(&mut self, batch: &Batch, error: &io::Error) {
        self.status.lose(batch.records, &error.to_string(), self.clock.wall());
        self.status.update(|health| health.errors += 1);
        self.trouble(
            Trouble::Records,
            &format!("to {}: {error}", self.file.path().display()),
            batch.id.as_deref(),
        );
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

    fn forget(
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
