//! The writer's thread: all that waits goes into the file with one write (group commit), then the
//! answers go out; what else the file needs, by its own timers, is in `tend.rs`. Evidence is written by
//! another thread, and a record that names some that is new comes into the file when it is kept.
//! Whatever asks the disk is a step of the [`Work`], which a watchdog looks at.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::active_file::Journal;
use super::batch::Page;
use super::blob_tracker::Exhibits;
use super::blob_writer::Kept;
use super::directory::Place;
use super::health::{Loss, Status, Trouble};
use super::in_flight::{Unanswered, Waiting, Work, answer};
use super::message::{ForgetError, Job, WriteError, no_answer};
use super::recover::{Active, First};
use super::signals::{Bells, News};
use crate::audit::config::{Current, Sync};
use crate::audit::evidence::ExhibitName;
use crate::audit::limits::RECORDS_WAITING_MAX;
use crate::audit::record::chain::{Content, Head};
use crate::audit::record::meta_record::{Notice, Recorded};
use crate::runtime::clock::{Clock, monotonic};
use crate::types::timestamp::Timestamp;

/// How long after a write it is brought to the disk, and the head written down beside it, under
/// `audit.sync = "batch"`: what a power cut may take.
const AUDIT_SYNC_DELAY: Duration = Duration::from_millis(100);

/// Records that wait for their evidence while others are written; with more, all wait.
const EVIDENCE_RECORDS_WAITING_MAX: usize = 8192;

pub(super) struct Scribe {
    pub(super) config: Current,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) journal: Journal,
    pub(super) place: Place,
    /// The last line written.
    pub(super) head: Head,
    /// The first line of the file.
    pub(super) first: Option<First>,
    /// The time of the last line, once one has been written to the file that is open.
    pub(super) last: Option<Timestamp>,
    pub(super) exhibits: Exhibits,
    pub(super) status: Arc<Status>,
    pub(super) news: News,
    /// Lines to be written before any record: what was found at the end of a file, and what is to be said of the
    /// proxy itself. They wait until they can be written.
    pub(super) found: Vec<Notice>,
    pub(super) due: Due,
    /// Records in the file since the last `totals`.
    recorded: Recorded,
    pub(super) work: Arc<Work>,
}

/// When something is to be done without being asked.
#[derive(Default)]
pub(super) struct Due {
    /// What was written is to be brought to the disk.
    pub flush: Option<Instant>,
    /// What failed is to be tried again.
    pub retry: Option<Instant>,
    /// It is to be seen whether the directory is where it was.
    pub place: Option<Instant>,
    /// Before that, a segment that could not be closed is not tried again.
    pub rotate: Option<Instant>,
}

/// What the thread was woken by.
enum Woken {
    Jobs,
    Evidence(Kept),
    HangUp,
    Changed,
    Timer,
    End,
}

impl Scribe {
    pub(super) fn new(
        config: Current,
        clock: Arc<dyn Clock>,
        active: Active,
        (head, place): (Head, Place),
        work: Arc<Work>,
        status: Arc<Status>,
        news: News,
    ) -> io::Result<Self> {
        status.update(|health| health.head = head.clone());
        let exhibits = {
            let config = config.load();
            Exhibits::new(&config.dir, config.sync != Sync::None, active.in_use)?
        };
        Ok(Self {
            exhibits,
            config,
            clock,
            journal: active.journal,
            place,
            head,
            first: active.first,
            last: None,
            status,
            news,
            found: active.torn.map(Notice::Torn).into_iter().collect(),
            due: Due::default(),
            recorded: Recorded::default(),
            work,
        })
    }

    pub(super) fn run(mut self, runtime: &Runtime, bells: &Bells) {
        let mut batch = Vec::with_capacity(RECORDS_WAITING_MAX);
        let mut is_ending = false;
        self.step();
        self.commit(&mut batch, &[]);
        while !(is_ending && self.work.waiting() == 0) {
            self.rest();
            let work = Arc::clone(&self.work);
            let woken = runtime.block_on(self.wait(&mut work.jobs(), &mut batch, bells, is_ending));
            self.step();
            match woken {
                Woken::Jobs => self.commit(&mut batch, &[]),
                Woken::Evidence(kept) => self.settle_evidence(kept),
                Woken::HangUp => self.hang_up(),
                Woken::Changed => self.change(),
                Woken::Timer => {}
                Woken::End => {
                    is_ending = true;
                    self.commit(&mut batch, &[]);
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
        batch: &mut Vec<Job>,
        bells: &Bells,
        is_ending: bool,
    ) -> Woken {
        let until = tokio::time::Instant::from_std(self.next_due());
        let has_room = self.work.waiting() < EVIDENCE_RECORDS_WAITING_MAX;
        tokio::select! {
            // In this order: what is asked after a call of `reopen` goes into the other file.
            biased;
            () = bells.hang_up.notified() => Woken::HangUp,
            () = bells.changed.notified() => Woken::Changed,
            () = bells.notice.notified() => Woken::Jobs,
            kept = self.exhibits.done() => Woken::Evidence(kept),
            count = jobs.recv_many(batch, RECORDS_WAITING_MAX), if has_room && !is_ending => match count {
                0 => Woken::End,
                _ => Woken::Jobs,
            },
            // After what was asked before.
            () = bells.end.notified() => {
                jobs.close();
                while jobs.recv_many(batch, RECORDS_WAITING_MAX).await > 0 {}
                Woken::End
            }
            () = tokio::time::sleep_until(until) => Woken::Timer,
        }
    }

    /// Another thing is asked of the disk.
    pub(super) fn step(&mut self) {
        if self.work.begin_step() {
            self.was_given_up();
        }
    }

    /// Nothing is asked of the disk for now.
    fn rest(&mut self) {
        if self.work.end_step() {
            self.was_given_up();
        }
    }

    /// The disk answers again: what is lost is said as soon as possible.
    fn was_given_up(&mut self) {
        self.due.retry = Some(monotonic());
    }

    /// Writes what was found or lost before, then what is asked for; then answers. `settled`: evidence that
    /// nothing has to wait for any more.
    pub(super) fn commit(&mut self, batch: &mut Vec<Job>, settled: &[ExhibitName]) {
        // Held while the disk is asked: it may not answer.
        self.work.put_jobs(batch);
        self.check_place_now_and_then();
        self.work.take_jobs(batch);
        let (mut lines, mut unanswered, mut forgets) = (Vec::new(), Vec::new(), Vec::new());
        let mut take = |content, done| {
            unanswered.push(Unanswered {
                done: Some(done),
                is_record: matches!(content, Content::Record(_)),
            });
            lines.push(content);
        };
        for waiting in self.work.take_ready(settled) {
            take(waiting.content, waiting.done);
        }
        for job in batch.drain(..) {
            let (content, exhibits, done) = match job {
                Job::Write { record, exhibits, done } => (Content::Record(record), exhibits, done),
                Job::Note { notice, exhibits, done } => (Content::Notice(*notice), exhibits, done),
                Job::Forget { names, files, done } => {
                    forgets.push((names, files, done));
                    continue;
                }
            };
            let missing = self.exhibits.require(exhibits);
            if missing.is_empty() {
                take(content, done);
            } else {
                self.work.wait_for_evidence(Waiting { content, done, missing });
            }
        }
        self.exhibits.start();
        self.work.hold(unanswered);
        self.write(lines);
        for (names, files, done) in forgets {
            self.step();
            self.forget(&names, files, done);
        }
    }

    /// The lines, behind those that the writer itself has to say.
    fn write(&mut self, lines: Vec<Content>) {
        let ready = self.check_file();
        self.found.extend(self.work.take_notices(self.found.len()));
        let mut page = Page::after(&self.head, self.recorded, self.config.load().node.clone());
        let loss = self.status.loss();
        let gap = loss.clone().map(|loss| loss.gap(self.clock.wall()));
        let own = self.found.iter().cloned().chain(gap);
        own.for_each(|notice| page.push(Content::Notice(notice)));
        let own = page.places.len();
        for content in lines {
            match content {
                Content::Record(record) => page.record(record),
                notice @ Content::Notice(_) => page.push(notice),
            }
        }
        if page.lines.is_empty() {
            return;
        }
        let durable = self.config.load().sync == Sync::Each;
        let written = ready.and_then(|()| self.journal.append(&page.lines, durable));
        let Some(unanswered) = self.work.release() else {
            // Those who waited have been told that nothing was written: so be it.
            let taken_back = written.and_then(|()| self.journal.take_back(page.lines.len() as u64));
            taken_back.unwrap_or_else(|error| tracing::error!("in the denial log: {error}"));
            return;
        };
        let written = written.map_err(Arc::new);
        match &written {
            Ok(()) => self.has_written(&page, loss.as_ref()),
            Err(error) => self.has_lost(&page, error),
        }
        let places = page.places.split_off(own);
        answer(unanswered, &written.map(|()| places).map_err(WriteError::Io));
    }

    /// Writes the records that have waited for this evidence, whether it could be kept or not.
    fn settle_evidence(&mut self, kept: Kept) {
        let (settled, errors) = self.exhibits.settle(kept);
        self.has_not_kept(&errors);
        if errors.is_empty() && !self.exhibits.is_failing() {
            self.status.end(Trouble::Evidence);
        }
        self.commit(&mut Vec::new(), &settled);
    }

    /// The disk takes too long for evidence: records no longer wait for it.
    pub(super) fn give_up_evidence(&mut self) {
        let names = self.exhibits.give_up();
        let error = io::Error::new(io::ErrorKind::TimedOut, no_answer(self.work.timeout()));
        self.has_not_kept(&[error]);
        self.commit(&mut Vec::new(), &names);
    }

    /// The settings are others: what they say of the file is done at the next look at it, which is now.
    fn change(&mut self) {
        self.exhibits.set_durable(self.config.load().sync != Sync::None);
        // Files may be kept for less long: the keeper looks again, though none was closed.
        self.news.files.send_modify(|_| ());
    }

    fn has_written(&mut self, page: &Page, loss: Option<&Loss>) {
        self.head = page.head.clone();
        self.recorded = page.recorded;
        self.first = self.first.or(page.first);
        self.last = page.last;
        self.exhibits.use_all(page.names.iter().copied());
        self.found.clear();
        if let Some(loss) = loss {
            self.status.said(loss);
        }
        self.due.flush.get_or_insert_with(|| monotonic() + AUDIT_SYNC_DELAY);
        self.status.update(|health| {
            health.head = page.head.clone();
            health.written += page.records;
            health.bytes += page.lines.len() as u64;
        });
        self.status.end(Trouble::Records);
    }

    fn has_lost(&mut self, page: &Page, error: &io::Error) {
        self.status.lose(page.records, &error.to_string(), self.clock.wall());
        self.status.update(|health| health.errors += 1);
        self.trouble(
            Trouble::Records,
            &format!("to {}: {error}", self.journal.path().display()),
            page.id.as_deref(),
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
        names: &[ExhibitName],
        files: u64,
        done: oneshot::Sender<Result<u64, ForgetError>>,
    ) {
        let outcome = if files == *self.news.files.borrow() {
            let waiting = self.work.names_of_waiting();
            self.exhibits.forget(names, &waiting).map_err(ForgetError::Io)
        } else {
            Err(ForgetError::Outdated)
        };
        let _ = done.send(outcome);
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.work.end();
        // Whoever asks then must not be told that all is well.
        if std::thread::panicking() {
            self.status.begin(Trouble::Records, "the writer has panicked", None);
        }
    }
}
