//! The writer's thread: all that waits goes into the file with one write (group commit), then the
//! answers go out; what else the file needs, by its own timers, is in `tend.rs`.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::config::{Current, Sync};
use super::exhibits::{ExhibitName, Exhibits};
use super::health::{Status, Trouble};
use super::journal::Journal;
use super::keeper::Closing;
use super::line::Head;
use super::notice::{Gap, GapEvent, Notice};
use super::page::Page;
use super::start::{Active, First};
use super::writer::{ForgetError, Job, WriteError};
use crate::clock::{Clock, monotonic};
use crate::limits::RECORDS_WAITING_MAX;
use crate::moment::Moment;

pub(super) struct Scribe {
    pub(super) config: Current,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) journal: Journal,
    /// Held as long as the file may be written.
    _lock: File,
    /// The last line written.
    pub(super) head: Head,
    /// The first line of the file.
    pub(super) first: Option<First>,
    /// The time of the last line, once one has been written to the file that is open.
    pub(super) last: Option<Moment>,
    pub(super) exhibits: Exhibits,
    pub(super) status: Arc<Status>,
    pub(super) news: News,
    /// Lines to be written before any record: what was found at the end of a file.
    pub(super) found: Vec<Notice>,
    loss: Option<Loss>,
    pub(super) due: Due,
}

/// What others hear of the files.
pub(super) struct News {
    /// How many have been begun.
    pub files: watch::Sender<u64>,
    /// What each had that has been closed.
    pub closed: mpsc::Sender<Closing>,
}

/// What could not be written.
struct Loss {
    records: u64,
    since: Moment,
    why: String,
}

/// When something is to be done without being asked.
#[derive(Default)]
pub(super) struct Due {
    /// What was written is to be brought to the disk.
    pub flush: Option<Instant>,
    /// What failed is to be tried again.
    pub retry: Option<Instant>,
    /// Before that, a segment that could not be closed is not tried again.
    pub rotate: Option<Instant>,
}

/// What the thread is called by, beside its jobs.
#[derive(Debug, Default)]
pub(super) struct Bells {
    /// Another program may have taken the file away.
    pub hang_up: Notify,
    /// The settings are others.
    pub changed: Notify,
}

/// What the thread was woken by.
enum Woken {
    Jobs,
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
        head: Head,
        lock: File,
        status: Arc<Status>,
        news: News,
    ) -> Self {
        status.update(|health| health.head = head.clone());
        let exhibits = {
            let config = config.load();
            Exhibits::new(&config.dir, config.sync != Sync::None, active.in_use)
        };
        Self {
            exhibits,
            config,
            clock,
            journal: active.journal,
            _lock: lock,
            head,
            first: active.first,
            last: None,
            status,
            news,
            found: active.torn.map(Notice::Torn).into_iter().collect(),
            loss: None,
            due: Due::default(),
        }
    }

    pub(super) fn run(mut self, runtime: &Runtime, mut jobs: mpsc::Receiver<Job>, bells: &Bells) {
        let mut batch = Vec::with_capacity(RECORDS_WAITING_MAX);
        self.commit(&mut batch);
        loop {
            match runtime.block_on(self.wait(&mut jobs, &mut batch, bells)) {
                Woken::Jobs => self.commit(&mut batch),
                Woken::HangUp => self.hang_up(),
                Woken::Changed => self.change(),
                Woken::Timer => {}
                Woken::End => break,
            }
            self.tend();
        }
        self.finish();
    }

    async fn wait(&self, jobs: &mut mpsc::Receiver<Job>, batch: &mut Vec<Job>, bells: &Bells) -> Woken {
        let until = tokio::time::Instant::from_std(self.next_due());
        tokio::select! {
            // In this order: what is asked after a call of `reopen` goes into the other file.
            biased;
            () = bells.hang_up.notified() => Woken::HangUp,
            () = bells.changed.notified() => Woken::Changed,
            count = jobs.recv_many(batch, RECORDS_WAITING_MAX) => match count {
                0 => Woken::End,
                _ => Woken::Jobs,
            },
            () = tokio::time::sleep_until(until) => Woken::Timer,
        }
    }

    /// Writes what was found or lost before, then what is asked for; then answers.
    pub(super) fn commit(&mut self, batch: &mut Vec<Job>) {
        let ready = self.check_file();
        let mut page = Page::after(&self.head);
        self.found.iter().for_each(|notice| page.notice(notice.clone(), None));
        if let Some(loss) = &self.loss {
            page.notice(loss.gap(self.clock.wall()), None);
        }
        let (mut exhibits, mut forgets) = (Vec::new(), Vec::new());
        for job in batch.drain(..) {
            match job {
                Job::Write { record, exhibits: named, done } => {
                    exhibits.extend(named);
                    page.record(record, done);
                }
                Job::Note { notice, done } => page.notice(notice, Some(done)),
                Job::Forget { names, files, done } => forgets.push((names, files, done)),
            }
        }
        // Before the lines: a record that is there can be checked.
        let errors = self.exhibits.keep(exhibits);
        self.has_not_kept(&errors);
        if !page.lines.is_empty() {
            let durable = self.config.load().sync == Sync::Each;
            let outcome = ready.and_then(|()| self.journal.append(&page.lines, durable)).map_err(Arc::new);
            match &outcome {
                Ok(()) => self.has_written(&page),
                Err(error) => self.has_lost(&page, error),
            }
            page.answer(&outcome.map_err(WriteError::Io));
        }
        for (names, files, done) in forgets {
            self.forget(&names, files, done);
        }
    }

    /// The settings are others: what they say of the file is done at the next look at it, which is now.
    fn change(&mut self) {
        self.exhibits.set_durable(self.config.load().sync != Sync::None);
        // Files may be kept for less long: the keeper looks again, though none was closed.
        self.news.files.send_modify(|_| ());
    }

    fn has_written(&mut self, page: &Page) {
        self.head = page.head.clone();
        self.first = self.first.or(page.first);
        self.last = page.last;
        self.exhibits.use_all(page.names.iter().copied());
        self.found.clear();
        self.loss = None;
        self.due.flush.get_or_insert_with(|| monotonic() + crate::limits::AUDIT_SYNC_DELAY);
        self.status.update(|health| {
            health.head = page.head.clone();
            health.written += page.records;
            health.bytes += page.lines.len() as u64;
        });
        self.status.end(Trouble::Records);
    }

    fn has_lost(&mut self, page: &Page, error: &io::Error) {
        let now = self.clock.wall();
        let loss = self.loss.get_or_insert_with(|| Loss { records: 0, since: now, why: error.to_string() });
        loss.records += page.records;
        self.status.update(|health| {
            health.errors += 1;
            health.lost += page.records;
        });
        self.trouble(
            Trouble::Records,
            &format!("to {}: {error}", self.journal.path().display()),
            page.id.as_deref(),
        );
    }

    pub(super) fn has_not_kept(&mut self, errors: &[io::Error]) {
        let Some(error) = errors.first() else { return };
        self.status.update(|health| health.evidence_errors += errors.len() as u64);
        self.trouble(Trouble::Evidence, &format!("in {}: {error}", self.config.load().dir.display()), None);
    }

    fn forget(&mut self, names: &[ExhibitName], files: u64, done: oneshot::Sender<Result<u64, ForgetError>>) {
        let outcome = if files == *self.news.files.borrow() {
            self.exhibits.forget(names).map_err(ForgetError::Io)
        } else {
            Err(ForgetError::Outdated)
        };
        let _ = done.send(outcome);
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        // Whoever asks then must not be told that all is well.
        if std::thread::panicking() {
            self.status.begin(Trouble::Records, "the writer has panicked", None);
        }
    }
}

impl Loss {
    fn gap(&self, now: Moment) -> Notice {
        Notice::Gap(Gap {
            event: GapEvent::It,
            lost: self.records,
            prev: String::new(),
            seq: 0,
            since: self.since,
            time: now,
            why: self.why.clone(),
        })
    }
}
