//! Group commit: all queued lines are appended with one write, behind the writer's own notices; then
//! their callers are answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::health::{Loss, Trouble};
use super::in_flight::{Unanswered, Waiting, answer};
use super::message::{Job, WriteError};
use super::writer_thread::WriterThread;
use crate::audit::config::Sync;
use crate::audit::evidence::BlobName;
use crate::audit::record::chain::Content;
use crate::runtime::clock::monotonic;

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
