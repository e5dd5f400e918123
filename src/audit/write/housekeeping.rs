//! What the file needs besides lines: the disk, an end in time, another file where somebody took it
//! away, and a new attempt where something failed.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use super::directory::Place;
use super::health::Trouble;
use super::recover::{Active, open_active};
use super::writer_thread::Scribe;
use crate::audit::config::Sync;
use crate::audit::evidence::Inventory;
use crate::audit::limits::AUDIT_RETRY_INTERVAL;
use crate::audit::record::chain_head::write_head;
use crate::audit::record::meta_record::Notice;
use crate::audit::segment::closed_name;
use crate::runtime::clock::monotonic;

/// How often it is looked whether the directory of the log is still where it was, without traffic; with
/// it, before each write.
const AUDIT_PLACE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a segment that could not be closed is written on before that is tried again; and how
/// often its age is looked at, for clocks that are set.
const ROTATION_INTERVAL: Duration = Duration::from_secs(60);

/// How long a look at where the path of the directory leads holds for the writes after it.
const PLACE_CHECKED_FOR: Duration = Duration::from_millis(10);

impl Scribe {
    /// When to be woken at the latest.
    pub(super) fn next_due(&self) -> Instant {
        let age = self.first.map(|first| {
            let end = first.time.plus(self.config.load().rotate_age);
            monotonic() + self.clock.wall().until(end).min(ROTATION_INTERVAL)
        });
        // An empty file has no age, and one that cannot be closed is left alone for a while.
        let rotate = age.map(|age| self.due.rotate.map_or(age, |pause| age.max(pause)));
        let evidence = self.exhibits.end_of_waiting(self.config.load().write_timeout);
        let due = [self.due.flush, self.due.retry, self.due.place, rotate, evidence];
        due.into_iter().flatten().min().unwrap_or_else(monotonic)
    }

    /// Does what is due.
    pub(super) fn tend(&mut self) {
        let now = monotonic();
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.exhibits.end_of_waiting(self.config.load().write_timeout)) {
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

    /// The last words: what was written is on the disk, whatever the setting.
    pub(super) fn finish(&mut self) {
        self.found.extend(self.work.take_last_notices());
        if !self.found.is_empty() || self.status.has(Trouble::Records) {
            // What is lost is still to be said where it is missing.
            self.commit(&mut Vec::new(), &[]);
        }
        if self.status.has(Trouble::Records) {
            tracing::error!(
                lost = self.status.health().lost,
                "the log does not say which records it lacks"
            );
        }
        if let Err(error) = self.journal.sync().and_then(|()| self.write_head()) {
            tracing::error!("denial records may not have reached the disk: {error}");
        }
    }

    /// Says what cannot be done, and tries it again later.
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
            // How it goes is seen when it is done.
            self.exhibits.retry();
            if !self.exhibits.is_failing() {
                self.status.end(Trouble::Evidence);
            }
        }
    }

    /// Brings what was written to the disk, and writes down how far that is.
    fn flush(&mut self) {
        self.due.flush = None;
        let synced =
            if self.config.load().sync == Sync::Batch { self.journal.sync() } else { Ok(()) };
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
        write_head(&self.config.load().dir, &self.head, self.clock.wall())
    }

    fn is_old(&self) -> bool {
        let (age, config) =
            (self.first.map(|first| self.clock.wall().since(first.time)), self.config.load());
        age.is_some_and(|age| age >= config.rotate_age || self.journal.len() >= config.rotate_size)
    }

    /// Closes the file, and goes on in an empty one. What fails is said, and the file goes on.
    fn rotate(&mut self) {
        let Some(first) = self.first else { return };
        self.due.rotate = None;
        let closed = self.config.load().dir.join(closed_name(first.seq));
        let outcome = match self.journal.is_in_place() {
            Ok(true) => self.journal.close_as(&closed),
            // What has this name now is another file, and not ours to close.
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
        let names = self.exhibits.begin_file(HashSet::new());
        if let Some(time) = self.last.take() {
            let inventory = Inventory { time, last: self.head.clone(), names };
            // Whoever puts it away has not kept up: then it is read.
            let _ = self.news.closed.try_send((first.seq, inventory));
        }
        self.status.update(|health| health.segments_closed += 1);
        if let Err(error) = self.journal.sync_names() {
            let why = format!("in {}: {error}", self.config.load().dir.display());
            self.trouble(Trouble::Disk, &why, None);
        }
        self.flush();
        self.news.files.send_modify(|files| *files += 1);
    }

    fn cannot_rotate(&mut self, error: &io::Error) {
        self.due.rotate = Some(monotonic() + ROTATION_INTERVAL);
        tracing::error!(
            "{} cannot be closed and is written on: {error}; tried again in {ROTATION_INTERVAL:?}",
            self.journal.path().display()
        );
    }

    /// Takes up the file that is there now, if it is another. If it cannot be, this one is written on.
    pub(super) fn hang_up(&mut self) {
        self.check_place();
        if self.journal.is_in_place().is_ok_and(|is_in_place| is_in_place) {
            tracing::info!("the denial log is the same");
        } else {
            let _ = self.take_up("reopened");
        }
    }

    /// Before a write: who copies a log and then truncates it leaves a file that is shorter than what
    /// was written, and who compresses it without a word, one that is gone. The chain goes on.
    pub(super) fn check_file(&mut self) -> io::Result<()> {
        if self.journal.is_as_left()? {
            Ok(())
        } else {
            self.take_up("another program has truncated, extended or removed it")
        }
    }

    /// Before a write. Under load not before each one: to look a path up for each was 1 % of what a denial costs.
    pub(super) fn check_place_now_and_then(&mut self) {
        let is_recent = |due: Instant| due > monotonic() + AUDIT_PLACE_INTERVAL - PLACE_CHECKED_FOR;
        if !self.due.place.is_some_and(is_recent) {
            self.check_place();
        }
    }

    /// Goes on in the directory that is at the path now, where that is another than before: in the former
    /// one nobody would look. Until that one can be used, lines go to the former one.
    pub(super) fn check_place(&mut self) {
        self.due.place = Some(monotonic() + AUDIT_PLACE_INTERVAL);
        let moved = self
            .place
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
        // Whoever only asks whether it is written has it for an instant; there is another look soon.
        let place = Place::take(&dir, Duration::ZERO)?;
        let place = place.ok_or_else(|| io::Error::other("another courtesy uses it"))?;
        let active = open_active(&dir, self.clock.wall())?;
        self.place = place;
        self.exhibits.begin_directory();
        self.go_on_in(active, "its directory has been moved away");
        Ok(())
    }

    /// Goes on in the file that has the name now. That it cannot be opened is said here.
    fn take_up(&mut self, why: &str) -> io::Result<()> {
        let path = self.journal.path().to_owned();
        let active =
            open_active(&self.config.load().dir, self.clock.wall()).inspect_err(|error| {
                tracing::error!("{}: {why}, and cannot be opened anew: {error}", path.display());
            })?;
        self.go_on_in(active, why);
        Ok(())
    }

    fn go_on_in(&mut self, active: Active, why: &str) {
        if let Err(error) = self.journal.sync() {
            tracing::error!("the last denial records may not have reached the disk: {error}");
        }
        tracing::info!(
            next_seq = self.head.seq + 1,
            "{}: {why}; the chain goes on in the file that is there now",
            self.journal.path().display()
        );
        self.journal = active.journal;
        self.first = active.first;
        self.last = None;
        self.found.extend(active.torn.map(Notice::Torn));
        self.exhibits.begin_file(active.in_use);
        self.news.files.send_modify(|files| *files += 1);
    }
}
