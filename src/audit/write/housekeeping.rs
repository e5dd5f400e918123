//! Timed work on the active file: syncing, rotation, reopening after another program has renamed
//! it, and retries.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use super::health::Trouble;
use super::recover::{Active, LogDir, open_active};
use super::writer_thread::WriterThread;
use crate::audit::evidence::EvidenceIndex;
use crate::audit::record::meta_record::Notice;
use crate::audit::segment::{closed_name, write_head};
use crate::audit::{AUDIT_RETRY_INTERVAL, Sync};
use crate::runtime::clock::monotonic;

/// How often the path of the log's directory is checked without traffic; with traffic, before
/// writes.
const AUDIT_PLACE_INTERVAL: Duration = Duration::from_secs(1);

/// How long writing goes on in a segment that could not be closed before the next attempt; and how
/// often its age is checked, in case the clock is set.
const ROTATION_INTERVAL: Duration = Duration::from_secs(60);

/// How long a check of the directory's path is valid for the writes after it.
const PLACE_CHECKED_FOR: Duration = Duration::from_millis(10);

impl WriterThread {
    /// The time of the next timer.
    pub(super) fn next_due(&self) -> Instant {
        let age = self.first.map(|first| {
            let end = first.time.plus(self.config.load().rotate_age);
            monotonic() + self.clock.wall().until(end).min(ROTATION_INTERVAL)
        });
        // An empty file has no age, and one that could not be closed is not retried at once.
        let rotate = age.map(|age| self.due.rotate.map_or(age, |pause| age.max(pause)));
        let evidence = self.end_of_evidence();
        let due = [self.due.flush, self.due.retry, self.due.place, rotate, evidence];
        due.into_iter().flatten().min().unwrap_or_else(monotonic)
    }

    /// When waiting for the evidence that is being stored ends.
    fn end_of_evidence(&self) -> Option<Instant> {
        let due = self.blobs.end_of_waiting(self.config.load().write_timeout)?;
        Some(self.in_flight.end_of_evidence().map_or(due, |end| due.min(end)))
    }

    /// Runs the timers that are due.
    pub(super) fn tend(&mut self) {
        let now = monotonic();
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.end_of_evidence()) {
            self.step();
            self.give_up_evidence();
        }
        if self.due.place.is_none_or(|due| due <= now) {
            self.step();
            self.check_place();
        }
        if is_due(self.due.retry) {
            self.step();
            self.retry();
        }
        if is_due(self.due.flush) {
            self.step();
            self.flush();
        }
        if self.is_old() && self.due.rotate.is_none_or(|pause| pause <= now) {
            self.step();
            self.rotate();
        }
    }

    /// Writes the last notices, and syncs the file whatever the setting.
    pub(super) fn finish(&mut self) {
        let mut fails = self.status.has(Trouble::Records) || self.status.has(Trouble::Evidence);
        self.note_unkept();
        self.found.extend(self.in_flight.take_notices(0));
        self.ending.extend(self.in_flight.take_last_notices());
        let is_all = self.found.is_empty() && self.ending.is_empty();
        if !is_all || self.status.has(Trouble::Records) {
            // Lost records still need their `gap` in the place where they are missing.
            self.commit(&mut Vec::new(), &[]);
        }
        fails |= self.status.has(Trouble::Records);
        if self.status.has(Trouble::Records) && self.reserve.give_back() {
            self.commit(&mut Vec::new(), &[]);
        }
        if self.status.has(Trouble::Records) {
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

    /// Reports a failure and schedules a retry.
    pub(super) fn trouble(&mut self, trouble: Trouble, why: &str, cost: Option<&str>) {
        self.due.retry.get_or_insert_with(|| monotonic() + AUDIT_RETRY_INTERVAL);
        self.status.begin(trouble, why, cost);
    }

    fn retry(&mut self) {
        self.due.retry = None;
        if self.status.has(Trouble::Records) {
            // Nothing but the gap: a line that can be written is the proof that lines can be.
            self.commit(&mut Vec::new(), &[]);
        }
        if self.status.has(Trouble::Disk) {
            self.flush();
        }
        if self.status.has(Trouble::Evidence) {
            // The outcome arrives with the blob writer's answer.
            self.blobs.retry();
            if !self.blobs.is_failing() {
                self.status.end(Trouble::Evidence);
                self.note_unkept();
            }
        }
    }

    /// Syncs written lines to the disk, then writes `head.json`.
    fn flush(&mut self) {
        self.due.flush = None;
        let synced = if self.config.load().sync == Sync::Batch { self.file.sync() } else { Ok(()) };
        match synced.and_then(|()| self.write_head()) {
            Ok(()) => self.status.end(Trouble::Disk),
            Err(error) => {
                self.status.update(|health| health.errors += 1);
                let why = format!("in {}: {error}", self.config.load().dir.display());
                self.trouble(Trouble::Disk, &why, None);
            }
        }
    }

    fn write_head(&self) -> io::Result<()> {
        let now = self.clock.wall();
        write_head(&self.config.load().dir, &self.head, self.log, now)?;
        self.status.update(|health| health.noted_head = Some((self.head.clone(), now)));
        Ok(())
    }

    fn is_old(&self) -> bool {
        let (age, config) =
            (self.first.map(|first| self.clock.wall().since(first.time)), self.config.load());
        age.is_some_and(|age| age >= config.rotate_age || self.file.len() >= config.rotate_size)
    }

    /// Closes the file and goes on in an empty one. On failure, logs it and goes on in the same
    /// file.
    fn rotate(&mut self) {
        let Some(first) = self.first else { return };
        self.due.rotate = None;
        let closed = self.config.load().dir.join(closed_name(first.seq));
        let outcome = match self.file.is_in_place() {
            Ok(true) => self.file.close_as(&closed),
            // The file of this name is another now, and not ours to close.
            Ok(false) => {
                let taken_up = self.take_up("another program has taken it away");
                return taken_up.unwrap_or_else(|error| self.cannot_rotate(&error));
            }
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            return self.cannot_rotate(&error);
        }
        tracing::info!(file = %closed.display(), last_seq = self.head.seq, "a segment of the denial log is closed");
        self.first = None;
        let names = self.blobs.begin_file(HashSet::new());
        if let Some(time) = self.last.take() {
            let evidence_index = EvidenceIndex { time, last: self.head.clone(), names };
            // If retention lags behind, the queue is full and it reads the file instead.
            let _ = self.events.closed.try_send((first.seq, evidence_index));
        }
        self.status.update(|health| health.segments_closed += 1);
        if let Err(error) = self.file.sync_names() {
            let why = format!("in {}: {error}", self.config.load().dir.display());
            self.trouble(Trouble::Disk, &why, None);
        }
        self.flush();
        self.events.files.send_modify(|files| *files += 1);
    }

    fn cannot_rotate(&mut self, error: &io::Error) {
        self.due.rotate = Some(monotonic() + ROTATION_INTERVAL);
        tracing::error!(
            "{} cannot be closed and is written on: {error}; tried again in {ROTATION_INTERVAL:?}",
            self.file.path().display()
        );
    }

    /// Switches to the file at the path, if it is another. If that fails, writing goes on in this
    /// one.
    pub(super) fn hang_up(&mut self) {
        self.check_place();
        if self.file.is_in_place().is_ok_and(|is_in_place| is_in_place) {
            tracing::info!("the denial log is the same");
        } else {
            let _ = self.take_up("reopened");
        }
    }

    /// Before a write: a program that copies and truncates the log (logrotate's `copytruncate`)
    /// leaves a file shorter than what was written; one that compresses it removes it. The chain
    /// goes on.
    pub(super) fn check_file(&mut self) -> io::Result<()> {
        if self.file.is_as_left()? {
            Ok(())
        } else {
            self.take_up("another program has truncated, extended or removed it")
        }
    }

    /// Before a write, but under load not before each one: the look-up of a path was 1 % of the
    /// cost of a denial.
    pub(super) fn check_place_now_and_then(&mut self) {
        let is_recent = |due: Instant| due > monotonic() + AUDIT_PLACE_INTERVAL - PLACE_CHECKED_FOR;
        if !self.due.place.is_some_and(is_recent) {
            self.check_place();
        }
    }

    /// Switches to the directory at the path, if it is another than before: no reader would look in
    /// the former one. Until it can be used, lines go to the former one.
    pub(super) fn check_place(&mut self) {
        self.due.place = Some(monotonic() + AUDIT_PLACE_INTERVAL);
        let moved = self
            .log_dir
            .is_at_its_path()
            .and_then(|is_there| if is_there { Ok(()) } else { self.take_up_directory() });
        match moved {
            Ok(()) => self.status.end(Trouble::Place),
            Err(error) => {
                let why = format!("{}: {error}", self.config.load().dir.display());
                self.status.begin(Trouble::Place, &why, None);
            }
        }
    }

    fn take_up_directory(&mut self) -> io::Result<()> {
        let dir = self.config.load().dir.clone();
        // A reader that checks for a writer holds the lock for an instant; the next check comes
        // soon.
        let log_dir = LogDir::take(&dir, Duration::ZERO)?;
        let log_dir = log_dir.ok_or_else(|| io::Error::other("another courtesy uses it"))?;
        let active = open_active(&dir, self.clock.wall())?;
        self.log_dir = log_dir;
        self.blobs.begin_directory();
        self.go_on_in(active, "its directory has been moved away");
        Ok(())
    }

    /// Switches to the file that has the name now; logs an error if it cannot be opened.
    fn take_up(&mut self, why: &str) -> io::Result<()> {
        let path = self.file.path().to_owned();
        let active =
            open_active(&self.config.load().dir, self.clock.wall()).inspect_err(|error| {
                tracing::error!("{}: {why}, and cannot be opened anew: {error}", path.display());
            })?;
        self.go_on_in(active, why);
        Ok(())
    }

    fn go_on_in(&mut self, active: Active, why: &str) {
        if let Err(error) = self.file.sync() {
            tracing::error!("the last denial records may not have reached the disk: {error}");
        }
        tracing::info!(
            next_seq = self.head.seq + 1,
            "{}: {why}; the chain goes on in the file that is there now",
            self.file.path().display()
        );
        self.file = active.file;
        self.first = active.first;
        self.last = None;
        self.found.extend(active.torn.map(Notice::Torn));
        self.blobs.begin_file(active.in_use);
        self.events.files.send_modify(|files| *files += 1);
    }
}
