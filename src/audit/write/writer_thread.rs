//! The writer's thread: its state, and its loop. `commit` writes what is queued,
//! `housekeeping.rs` does what timers ask for. Another thread writes evidence; a record that names
//! new evidence is appended once that is stored. Every operation on the disk is a step of
//! [`InFlight`], which the watchdog supervises.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::active_file::{ActiveFile, Reserve};
use super::blob_tracker::{BlobTracker, Kept};
use super::health::{Loss, Status, Trouble};
use super::in_flight::{
    Events, ForgetError, InFlight, Job, Signals, Unanswered, Waiting, WriteError, Written, answer,
    no_answer,
};
use super::recover::{Active, First, LogDir};
use crate::audit::evidence::{self, BlobName};
use crate::audit::record::Node;
use crate::audit::record::chain::{Content, Head};
use crate::audit::record::denial_record::Record;
use crate::audit::record::event::EvidenceLostEvent;
use crate::audit::record::meta_record::{EvidenceLost, Notice, Recorded};
use crate::audit::{CurrentConfig, RECORDS_WAITING_MAX, Sync};
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

// Group commit: all queued lines are appended with one write, behind the writer's own notices; then
// their callers are answered.

/// How long after a write the file is synced and `head.json` written, under `audit.sync = "batch"`:
/// what a power cut may take.
const AUDIT_SYNC_DELAY: Duration = Duration::from_millis(100);

impl WriterThread {
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
        let node = self.config.load().node.clone();
        let mut batch = Batch::after(&self.head, self.recorded, node, self.log);
        let loss = self.status.loss();
        let gap = loss.clone().map(|loss| loss.gap(self.clock.wall()));
        let own = self.found.iter().cloned().chain(gap).chain(self.ending.iter().cloned());
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

    fn has_written(&mut self, batch: &Batch, loss: Option<&Loss>) {
        self.head = batch.head.clone();
        self.recorded = batch.recorded;
        self.first = self.first.or(batch.first);
        self.last = batch.last;
        self.blobs.use_all(batch.names.iter().copied());
        self.found.clear();
        self.ending.clear();
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
}

#[derive(Debug)]
pub(super) struct Batch {
    /// The name of this proxy.
    node: Option<Node>,
    log: LogId,
    /// Where the chain stands after these lines.
    pub head: Head,
    pub lines: Vec<u8>,
    pub first: Option<First>,
    /// When the last of them was written.
    pub last: Option<Timestamp>,
    /// The first record's.
    pub id: Option<String>,
    /// Records among the lines.
    pub records: u64,
    /// Records since the last `totals`, these lines included.
    pub recorded: Recorded,
    /// The evidence that they name.
    pub names: Vec<BlobName>,
    /// Of each line, in their order.
    pub places: Vec<Written>,
}

impl Batch {
    /// `recorded`: the records since the last `totals` before them.
    pub fn after(head: &Head, recorded: Recorded, node: Option<Node>, log: LogId) -> Self {
        Self {
            node,
            log,
            head: head.clone(),
            lines: Vec::new(),
            first: None,
            last: None,
            id: None,
            records: 0,
            recorded,
            names: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Adds a record.
    pub fn record(&mut self, record: Box<Record>) {
        self.records += 1;
        self.recorded.add(record.event);
        self.id.get_or_insert_with(|| record.id.clone());
        self.push(Content::Record(record));
    }

    /// Adds a line.
    pub fn push(&mut self, mut content: Content) {
        content.set_node(self.node.clone());
        content.set_log(self.log);
        if let Content::Notice(Notice::Totals(totals)) = &mut content {
            totals.recorded = Some(std::mem::take(&mut self.recorded));
        }
        self.names.extend(content.blobs());
        let time = content.time();
        self.head.push(content, &mut self.lines);
        self.first.get_or_insert(First { seq: self.head.seq, time });
        self.last = Some(time);
        self.places.push(Written { seq: self.head.seq });
    }
}
