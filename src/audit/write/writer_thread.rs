//! The writer's thread. `commit` writes what is queued, `tend` does what timers ask for: syncing,
//! rotation, and retries. Another thread writes evidence; a record that names new evidence is
//! appended once that is stored.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::active_file::{ActiveFile, Batch, First, Reserve, Sealer};
use super::blob_tracker::{BlobTracker, Kept};
use super::health::{Loss, Status, WriteFault};
use super::recover::{Active, LogDir};
use super::writer_handle::{
    Done, EVIDENCE_TIMEOUT, Events, ForgetError, Job, NOTICES_WAITING_MAX, Signals, WriteError,
};
use crate::audit::checkpoint::{NoteSigner, origin};
use crate::audit::evidence::{self, BlobName, EvidenceIndex};
use crate::audit::record::chain::{Content, Head};
use crate::audit::record::event::EvidenceLostEvent;
use crate::audit::record::meta_record::{EvidenceLost, Notice, RecordedCounts};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::segment::{closed_name, write_head};
use crate::audit::tree::{Tiles, Tree};
use crate::audit::{AUDIT_RETRY_INTERVAL, CurrentConfig, RECORDS_WAITING_MAX, ROTATE_AGE, Sync};
use crate::runtime::clock::{Clock, monotonic};
use crate::types::LogId;
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Records that may wait for their evidence while others are written; beyond that, all wait.
const EVIDENCE_RECORDS_WAITING_MAX: usize = 8192;

/// How long writing goes on in a segment that could not be closed before the next attempt; and how
/// often its age is checked, in case the clock is set.
const ROTATION_INTERVAL: Duration = Duration::from_secs(60);

/// How long a check of the directory's path is valid for the writes after it: under load the look-up
/// of a path was 1 % of the cost of a denial.
const DIRECTORY_CHECKED_FOR: Duration = Duration::from_millis(10);

/// How long after a write the file is synced and `head.json` written, under `audit.sync = "batch"`:
/// what a power cut may take.
const AUDIT_SYNC_DELAY: Duration = Duration::from_millis(100);

/// How long before its end the writer stops waiting for evidence.
const END_TIME: Duration = Duration::from_millis(500);

/// Names in one notice of lost evidence: its line stays under `RECORD_LINE_BYTES_MAX`.
const EVIDENCE_LOST_NAMES: usize = 500;

pub(super) struct WriterThread {
    config: CurrentConfig,
    clock: Arc<dyn Clock>,
    file: ActiveFile,
    log_dir: LogDir,
    reserve: Reserve,
    /// The last line written.
    head: Head,
    log: LogId,
    /// The key of its checkpoints, and how they name it.
    signer: Option<Arc<NoteSigner>>,
    key: Option<VerifierKey>,
    /// Of the lines up to `head`; none where there are no checkpoints.
    tree: Option<Tree>,
    /// The first line of the file.
    first: Option<First>,
    /// The time of the last line written to the open file; none before the first.
    last: Option<Timestamp>,
    blobs: BlobTracker,
    status: Arc<Status>,
    events: Events,
    /// Notices to be written before any record: of a torn end that was found, and of the proxy
    /// itself. They wait until they can be written.
    found: Vec<Notice>,
    /// Evidence that they name and that is not stored yet: nothing is written before them.
    held_by: Vec<BlobName>,
    /// Notices to be written behind all others, and behind the `gap` of lost records.
    ending: Vec<Notice>,
    due: Due,
    /// Records in the file since the last `totals`.
    recorded: RecordedCounts,
    signals: Arc<Signals>,
    /// Lines that wait for their evidence.
    waiting: Vec<Waiting>,
    /// When the directory was last found in its place.
    checked: Option<Instant>,
}

/// A line that is to be written once its evidence is kept.
struct Waiting {
    line: Line,
    /// Blobs that are not stored yet.
    missing: Vec<BlobName>,
}

/// A line that is to be written, and the caller that waits for it.
struct Line {
    content: Content,
    done: Done,
}

/// Timers of the writer's thread.
#[derive(Default)]
struct Due {
    /// Sync written lines to the disk.
    flush: Option<Instant>,
    /// Check whether the directory is still at its path, and retry what failed.
    check: Option<Instant>,
    /// Earliest next attempt to close a segment that could not be closed.
    rotate: Option<Instant>,
}

/// Why the thread woke.
enum Woken {
    Jobs,
    Evidence(Kept),
    Changed,
    Timer,
    End,
}

impl WriterThread {
    /// A thread that goes on with `active`, of which the last line is `head`.
    pub fn new(
        config: CurrentConfig,
        clock: Arc<dyn Clock>,
        active: Active,
        (head, log, log_dir, signer): (Head, LogId, LogDir, Option<Arc<NoteSigner>>),
        signals: Arc<Signals>,
        status: Arc<Status>,
        events: Events,
    ) -> io::Result<Self> {
        status.update(|health| (health.head, health.log) = (head.clone(), Some(log)));
        let blobs = {
            let config = config.load();
            BlobTracker::new(&config.dir, config.sync != Sync::None, active.in_use)?
        };
        let dir = config.load().dir.clone();
        let mut writer = Self {
            blobs,
            reserve: Reserve::take(&dir),
            config,
            clock,
            file: active.file,
            log_dir,
            tree: tree(&dir, head.seq).filter(|_| signer.is_some()),
            key: None,
            signer,
            head,
            log,
            first: active.first,
            last: None,
            status,
            events,
            found: active.torn.map(Notice::Torn).into_iter().collect(),
            held_by: Vec::new(),
            ending: Vec::new(),
            due: Due::default(),
            recorded: RecordedCounts::default(),
            signals,
            waiting: Vec::new(),
            checked: None,
        };
        writer.name_key();
        Ok(writer)
    }

    /// Names the key by the log and the proxy, whose name may be another after a reload.
    fn name_key(&mut self) {
        let node = self.config.load().node.clone();
        let signer = self.signer.as_ref().filter(|_| self.tree.is_some());
        self.key = signer.map(|signer| signer.verifier_key(origin(node.as_ref(), self.log)));
    }

    /// Works until the writer is closed.
    pub fn run(mut self, runtime: &Runtime, mut jobs: mpsc::Receiver<Job>) {
        let mut taken = Vec::with_capacity(RECORDS_WAITING_MAX);
        let mut is_ending = false;
        self.commit(&mut taken, &[]);
        while !(is_ending && self.waiting.is_empty() && self.held_by.is_empty()) {
            if self.status.set_busy(false) {
                // The disk answers again: a gap notice for lost records is due now.
                self.due.check = None;
            }
            let woken = runtime.block_on(self.wait(&mut jobs, &mut taken, is_ending));
            if self.status.set_busy(true) {
                self.due.check = None;
            }
            match woken {
                Woken::Jobs => self.commit(&mut taken, &[]),
                Woken::Evidence(kept) => self.settle_evidence(kept),
                Woken::Changed => self.change(),
                Woken::Timer => {}
                Woken::End => {
                    is_ending = true;
                    self.commit(&mut taken, &[]);
                }
            }
            self.tend();
        }
        self.finish();
        self.status.set_busy(false);
    }

    async fn wait(
        &mut self,
        jobs: &mut mpsc::Receiver<Job>,
        taken: &mut Vec<Job>,
        is_ending: bool,
    ) -> Woken {
        let until = tokio::time::Instant::from_std(self.next_due());
        let has_room = self.waiting.len() < EVIDENCE_RECORDS_WAITING_MAX;
        tokio::select! {
            biased;
            () = self.signals.changed.notified() => Woken::Changed,
            () = self.signals.notice.notified() => Woken::Jobs,
            kept = self.blobs.done() => Woken::Evidence(kept),
            count = jobs.recv_many(taken, RECORDS_WAITING_MAX), if has_room && !is_ending => match count {
                0 => Woken::End,
                _ => Woken::Jobs,
            },
            // After the jobs queued before.
            () = self.signals.end.notified() => {
                jobs.close();
                while jobs.recv_many(taken, RECORDS_WAITING_MAX).await > 0 {}
                Woken::End
            }
            () = tokio::time::sleep_until(until) => Woken::Timer,
        }
    }

    /// The time of the next timer.
    fn next_due(&self) -> Instant {
        let age = self.first.map(|first| {
            let end = first.time.plus(ROTATE_AGE);
            monotonic() + self.clock.wall().until(end).min(ROTATION_INTERVAL)
        });
        // An empty file has no age, and one that could not be closed is not retried at once.
        let rotate = age.map(|age| self.due.rotate.map_or(age, |pause| age.max(pause)));
        let due = [self.due.flush, rotate, self.end_of_evidence()];
        let check = self.due.check.unwrap_or_else(monotonic);
        due.into_iter().flatten().fold(check, Instant::min)
    }

    /// When waiting for the evidence that is being stored ends: a while before the end of the
    /// writer, so that the last lines come into the log.
    fn end_of_evidence(&self) -> Option<Instant> {
        let due = self.blobs.end_of_waiting(EVIDENCE_TIMEOUT)?;
        let end = (*self.signals.end_by.lock()).and_then(|end| end.checked_sub(END_TIME));
        Some(end.map_or(due, |end| due.min(end)))
    }

    /// Runs the timers that are due.
    fn tend(&mut self) {
        let now = monotonic();
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.end_of_evidence()) {
            self.give_up_evidence();
        }
        if self.due.check.is_none_or(|due| due <= now) {
            self.check();
        }
        if is_due(self.due.flush) {
            self.flush();
        }
        if self.is_old() && self.due.rotate.is_none_or(|pause| pause <= now) {
            self.rotate();
        }
    }

    /// Looks whether the directory is in its place, and tries again what failed, so that the log heals
    /// without traffic.
    fn check(&mut self) {
        self.due.check = Some(monotonic() + AUDIT_RETRY_INTERVAL);
        self.checked = None;
        if self.check_directory().is_err() {
            return;
        }
        if self.status.has(WriteFault::Records) || self.status.loss().is_some() {
            // Nothing but the gap: a line that can be written is the proof that lines can be.
            self.commit(&mut Vec::new(), &[]);
        }
        if self.status.has(WriteFault::Disk) {
            self.flush();
        }
        if self.status.has(WriteFault::Evidence) {
            // The outcome arrives with the blob writer's answer.
            self.blobs.retry();
            if !self.blobs.is_failing() {
                self.status.end(WriteFault::Evidence);
                self.note_unkept();
            }
        }
    }

    /// An error where the directory, or the file in it, is not the one that was opened any more: no
    /// reader would look where lines would go.
    fn check_directory(&mut self) -> io::Result<()> {
        let now = monotonic();
        if self.checked.is_some_and(|checked| now < checked + DIRECTORY_CHECKED_FOR) {
            return Ok(());
        }
        let found = self.log_dir.check().and_then(|()| self.file.check_in_place());
        self.checked = found.is_ok().then_some(now);
        match &found {
            Ok(()) => self.status.end(WriteFault::Directory),
            Err(error) => self.status.begin(WriteFault::Directory, &error.to_string(), None),
        }
        found
    }

    /// Writes the records that have waited for this evidence, whether it could be stored or not.
    fn settle_evidence(&mut self, kept: Kept) {
        let (settled, errors) = self.blobs.settle(kept);
        self.has_not_kept(&errors);
        if errors.is_empty() && !self.blobs.is_failing() {
            self.status.end(WriteFault::Evidence);
            self.note_unkept();
        }
        self.commit(&mut Vec::new(), &settled);
    }

    /// Stops waiting for evidence that takes the disk too long.
    fn give_up_evidence(&mut self) {
        let names = self.blobs.give_up();
        let why = format!("the disk has not responded for {EVIDENCE_TIMEOUT:?}");
        let error = io::Error::new(io::ErrorKind::TimedOut, why);
        self.has_not_kept(&[error]);
        self.commit(&mut Vec::new(), &names);
    }

    /// Queues a notice of the evidence that lines name, and that is not kept.
    fn note_unkept(&mut self) {
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
        self.name_key();
        self.blobs.set_durable(self.config.load().sync != Sync::None);
        // Retention may be shorter now: wake it, though no file was closed.
        self.events.active.send_modify(|_| ());
    }

    fn has_not_kept(&mut self, errors: &[io::Error]) {
        let Some(error) = errors.first() else { return };
        self.status.update(|health| health.evidence_errors += errors.len() as u64);
        self.status.begin(
            WriteFault::Evidence,
            &format!("in {}: {error}", self.config.load().dir.display()),
            None,
        );
    }

    fn forget(
        &mut self,
        names: &[BlobName],
        active: u64,
        done: oneshot::Sender<Result<u64, ForgetError>>,
    ) {
        let outcome = if active == *self.events.active.borrow() {
            let waiting = self.waiting.iter().flat_map(|waiting| waiting.line.content.blobs());
            let waiting = waiting.chain(self.found.iter().flat_map(Notice::blobs));
            self.blobs.forget(names, &waiting.collect::<Vec<_>>()).map_err(ForgetError::Io)
        } else {
            Err(ForgetError::Outdated)
        };
        let _ = done.send(outcome);
    }

    // Group commit: all queued lines are appended with one write, behind the writer's own notices;
    // then their callers are answered.

    /// Writes pending notices, then the queued jobs, then answers. `settled`: evidence that no line
    /// has to wait for any more.
    fn commit(&mut self, taken: &mut Vec<Job>, settled: &[BlobName]) {
        let ready = self.check_directory();
        if ready.is_ok() && self.found.len() < NOTICES_WAITING_MAX {
            self.take_notices();
        }
        self.held_by.retain(|name| !settled.contains(name));
        let (mut lines, mut forgets) = (Vec::new(), Vec::new());
        for waiting in &mut self.waiting {
            waiting.missing.retain(|name| !settled.contains(name));
        }
        let ready_lines = self.waiting.extract_if(.., |waiting| waiting.missing.is_empty());
        lines.extend(ready_lines.map(|waiting| waiting.line));
        for job in taken.drain(..) {
            let (content, blobs, done) = match job {
                Job::Write { record, blobs, done } => (Content::Record(record), blobs, done),
                Job::Note { notice, blobs, done } => (Content::Notice(*notice), blobs, done),
                Job::Forget { names, active, done } => {
                    forgets.push((names, active, done));
                    continue;
                }
            };
            let line = Line { content, done };
            let missing = match ready {
                Ok(()) => [self.blobs.require(blobs), self.held_by.clone()].concat(),
                Err(_) => Vec::new(),
            };
            if missing.is_empty() {
                lines.push(line);
            } else {
                self.waiting.push(Waiting { line, missing });
            }
        }
        self.blobs.start();
        self.write(ready, lines);
        for (names, active, done) in forgets {
            self.forget(&names, active, done);
        }
    }

    /// Appends `lines`, behind the writer's own notices, where the directory is `ready`.
    fn write(&mut self, ready: io::Result<()>, lines: Vec<Line>) {
        let ready = ready.and_then(|()| self.file.check_as_left());
        // Lines that were there before the notices do not wait for them.
        let is_held = ready.is_ok() && !self.held_by.is_empty();
        let node = self.config.load().node.clone();
        let sealer = if is_held { None } else { self.sealer() };
        let identity = (self.log, self.key.as_ref());
        let mut batch = Batch::after(&self.head, self.recorded, node, identity, sealer);
        let loss = self.status.loss().filter(|_| !is_held);
        let gap = loss.clone().map(|loss| loss.gap(self.clock.wall()));
        let own = self.found.iter().cloned().chain(gap).chain(self.ending.iter().cloned());
        let own = own.filter(|_| !is_held);
        own.for_each(|notice| batch.push(Content::Notice(notice)));
        let own = batch.places.len();
        let mut callers = Vec::with_capacity(lines.len());
        for Line { content, done } in lines {
            callers.push(done);
            batch.push(content);
        }
        if batch.lines.is_empty() {
            return;
        }
        let durable = self.config.load().sync == Sync::Each;
        let written = ready.and_then(|()| self.file.append(&batch.lines, durable));
        let written = written.map_err(Arc::new);
        match &written {
            Ok(()) => self.has_written(&batch, loss.as_ref(), is_held),
            Err(error) => self.has_lost(&batch, error),
        }
        for (done, place) in callers.into_iter().zip(batch.places.drain(own..)) {
            // The caller may have gone; the line stands.
            let _ = done.send(written.clone().map(|()| place).map_err(WriteError::Io));
        }
    }

    /// Takes over the notices that were queued, and stores what they name.
    fn take_notices(&mut self) {
        for (notice, blobs) in std::mem::take(&mut *self.signals.notices.lock()) {
            self.held_by.extend(self.blobs.require(blobs));
            self.found.push(notice);
        }
    }

    /// Where a checkpoint is among the writer's own notices; where none can be made, they go.
    fn sealer(&mut self) -> Option<Sealer> {
        let is_checkpoint = |notice: &Notice| matches!(notice, Notice::Checkpointed(_));
        if !self.found.iter().chain(&self.ending).any(is_checkpoint) {
            return None;
        }
        let sealer = self.tree.clone().zip(self.signer.clone());
        if sealer.is_none() {
            self.found.retain(|notice| !is_checkpoint(notice));
            self.ending.retain(|notice| !is_checkpoint(notice));
        }
        sealer.map(|(tree, signer)| Sealer { tree, signer })
    }

    fn has_written(&mut self, batch: &Batch, loss: Option<&Loss>, is_held: bool) {
        self.head = batch.head.clone();
        if let Some(tree) = &mut self.tree {
            batch.leaves.iter().for_each(|leaf| tree.push(*leaf));
        }
        self.recorded = batch.recorded;
        self.first = self.first.or(batch.first);
        self.last = batch.last;
        self.blobs.use_all(batch.names.iter().copied());
        if !is_held {
            self.found.clear();
            self.ending.clear();
        }
        if let Some(loss) = loss {
            self.status.said(loss);
        }
        self.due.flush.get_or_insert_with(|| monotonic() + AUDIT_SYNC_DELAY);
        self.status.update(|health| {
            health.head = batch.head.clone();
            health.checkpoint = batch.checkpoint.clone().or(health.checkpoint.take());
            health.written += batch.records;
            health.bytes += batch.lines.len() as u64;
        });
        self.status.end(WriteFault::Records);
    }

    fn has_lost(&mut self, batch: &Batch, error: &io::Error) {
        self.status.lose(batch.records + batch.allowed, &error.to_string(), self.clock.wall());
        self.status.update(|health| health.errors += 1);
        self.status.begin(
            WriteFault::Records,
            &format!("to {}: {error}", self.file.path().display()),
            batch.id.as_deref(),
        );
    }

    /// Syncs written lines to the disk, then writes `head.json`.
    fn flush(&mut self) {
        self.due.flush = None;
        let synced = if self.config.load().sync == Sync::Batch { self.file.sync() } else { Ok(()) };
        match synced.and_then(|()| self.write_head()) {
            Ok(()) => self.status.end(WriteFault::Disk),
            Err(error) => {
                self.status.update(|health| health.errors += 1);
                let why = format!("in {}: {error}", self.config.load().dir.display());
                self.status.begin(WriteFault::Disk, &why, None);
            }
        }
    }

    fn write_head(&self) -> io::Result<()> {
        // Never beside another log.
        self.log_dir.check()?;
        let now = self.clock.wall();
        write_head(&self.config.load().dir, &self.head, self.log, self.key.clone(), now)?;
        self.status.update(|health| health.noted_head = Some((self.head.clone(), now)));
        Ok(())
    }

    fn is_old(&self) -> bool {
        let age = self.first.map(|first| self.clock.wall().since(first.time));
        let rotate_size = self.config.load().rotate_size;
        age.is_some_and(|age| age >= ROTATE_AGE || self.file.len() >= rotate_size)
    }

    /// Closes the file and goes on in an empty one. On failure, logs it and goes on in the same
    /// file.
    fn rotate(&mut self) {
        let Some(first) = self.first else { return };
        self.due.rotate = None;
        let closed = self.config.load().dir.join(closed_name(first.seq));
        // The file of this name must be ours to close.
        let in_place = self.log_dir.check().and_then(|()| self.file.check_in_place());
        if let Err(error) = in_place.and_then(|()| self.file.close_as(&closed)) {
            self.due.rotate = Some(monotonic() + ROTATION_INTERVAL);
            tracing::error!(
                "{} cannot be closed and is written on: {error}; tried again in {ROTATION_INTERVAL:?}",
                self.file.path().display()
            );
            return;
        }
        tracing::info!(file = %closed.display(), last_seq = self.head.seq, "a segment of the denial log is closed");
        self.first = None;
        let names = self.blobs.begin_file();
        if let Some(time) = self.last.take() {
            let evidence_index = EvidenceIndex { time, last: self.head.clone(), names };
            // If retention lags behind, the queue is full and it reads the file instead.
            let _ = self.events.closed.try_send((first.seq, evidence_index));
        }
        self.status.update(|health| health.segments_closed += 1);
        if let Err(error) = self.file.sync_names() {
            let why = format!("in {}: {error}", self.config.load().dir.display());
            self.status.begin(WriteFault::Disk, &why, None);
        }
        self.flush();
        self.events.active.send_replace(self.head.seq + 1);
    }

    /// Writes the last notices, and syncs the file whatever the setting.
    fn finish(&mut self) {
        let mut fails =
            self.status.has(WriteFault::Records) || self.status.has(WriteFault::Evidence);
        self.note_unkept();
        self.take_notices();
        self.held_by.clear();
        // Lost records still need their `gap` in the place where they are missing.
        self.ending.append(&mut self.signals.last_notices.lock());
        self.commit(&mut Vec::new(), &[]);
        fails |= self.status.has(WriteFault::Records);
        if self.status.has(WriteFault::Records) && self.reserve.give_back() {
            self.commit(&mut Vec::new(), &[]);
        }
        if self.status.has(WriteFault::Records) {
            tracing::error!(
                lost = self.status.health().lost,
                "the log does not say which records and which evidence it lacks"
            );
        }
        let noted = self.file.sync().and_then(|()| self.write_head()).or_else(|error| {
            fails = true;
            if self.reserve.give_back() { self.write_head() } else { Err(error) }
        });
        if let Err(error) = noted {
            tracing::error!("denial records may not have reached the disk: {error}");
        }
        self.status.update(|health| health.ended_failing = fails);
    }
}

/// The tree of the lines so far; an error is said, and there are no checkpoints.
fn tree(dir: &Path, size: u64) -> Option<Tree> {
    let tree = Tiles::of(dir).cut(size).and_then(|()| Tree::of_log(dir, size));
    tree.inspect_err(|error| {
        tracing::error!(
            "the denial log in {} has no checkpoints, for the tree of its lines cannot be made: {error}",
            dir.display()
        );
    })
    .ok()
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // From now on `health` must not report that all is well.
        if std::thread::panicking() {
            self.status.begin(WriteFault::Records, "the writer has panicked", None);
        }
    }
}
