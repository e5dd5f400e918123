//! The thread that compares changed files and writes the notices, one after the other. A slow log
//! delays only this queue.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::budget::{Budget, Omitted};
use super::compare::Pending;
use super::{Watch, Work};
use crate::audit::evidence::Blob;
use crate::audit::{Changed, ChangesOmitted, ChangesOmittedEvent, Notice, Omission, Writer};
use crate::policy::change::Kind;
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;

/// How long the queue may take to drain at shutdown.
const CHANGES_WAIT: Duration = Duration::from_secs(2);

/// The interval of notices about omitted changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// The thread.
#[derive(Debug)]
pub struct Watching {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
    /// Ends when all has been written.
    written: Lock<Receiver<()>>,
}

struct Thread {
    watch: Arc<Watch>,
    audit: Arc<Writer>,
    clock: Arc<dyn Clock>,
    budget: Budget,
    is_failing: bool,
}

impl Watching {
    /// Starts the thread of `watch`, of which there is one at a time.
    pub fn start(
        watch: &Arc<Watch>,
        audit: &Arc<Writer>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let taken = || watch.pending.lock();
        let (end, (sender, written)) = (CancellationToken::new(), channel());
        let written = Lock::new(written);
        let Some(mut pending) = taken().take() else {
            return Ok(Self { end, thread: None, written });
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut thread = Thread {
            watch: Arc::clone(watch),
            audit: Arc::clone(audit),
            clock: Arc::clone(clock),
            budget: Budget::new(clock.wall()),
            is_failing: false,
        };
        let ended = end.clone();
        let run = move || {
            runtime.block_on(thread.run(&mut pending, ended));
            // For the next server, should there be one.
            *thread.watch.pending.lock() = Some(pending);
            drop(sender);
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Self { end, thread: Some(thread), written })
    }

    /// Has the last notices written, and waits for that no longer than `CHANGES_WAIT`, and not
    /// beyond `deadline`.
    pub fn end(&mut self, deadline: Instant) {
        self.end.cancel();
        let left = deadline.saturating_duration_since(monotonic());
        let has_ended = self.written.lock().recv_timeout(left) != Err(RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            let _ = thread.join();
        }
    }
}

impl Thread {
    async fn run(&mut self, pending: &mut mpsc::Receiver<Work>, end: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => break,
                next = pending.recv() => match next {
                    Some(next) => self.work(next, &end).await,
                    None => break,
                },
                () = sleep(LOOK_INTERVAL) => {}
            }
            self.say_omitted(false, &end).await;
        }
        let rest = async {
            let never = CancellationToken::new();
            while let Ok(next) = pending.try_recv() {
                self.work(next, &never).await;
            }
            self.say_omitted(true, &never).await;
        };
        if timeout(CHANGES_WAIT, rest).await.is_err() {
            warn!(
                "the writer of denial records takes long; notices of robots.txt files, their changes and their delays may be missing"
            );
        }
    }

    async fn work(&mut self, work: Work, end: &CancellationToken) {
        match work {
            Work::Compare(pending) => self.note(&pending, end).await,
            Work::Daily { number, notice, blobs, _held } => {
                if !self.write(*notice, blobs, end).await {
                    self.watch.today.forget(number);
                }
            }
        }
    }

    async fn note(&mut self, pending: &Pending, end: &CancellationToken) {
        let fetch = &pending.fetch;
        let sample = self.watch.samples.of(&fetch.origin);
        let Some(compared) = pending.compare(&sample) else { return };
        self.watch.count(compared.kind);
        if compared.kind == Kind::Cosmetic {
            return;
        }
        let now = self.clock.wall();
        if !self.budget.take(&fetch.origin, &fetch.client, pending.evidence_bytes(), now) {
            self.watch.omitted.fetch_add(1, Relaxed);
            return;
        }
        let is_redacted = self.watch.is_redacted.load(Relaxed);
        let Some((changed, blobs)) = pending.notice(compared, &sample, is_redacted, now) else {
            return;
        };
        say(&changed);
        if !self.write(Notice::Changed(changed), blobs, end).await {
            self.watch.omitted.fetch_add(1, Relaxed);
            self.budget.omit(Omission::Unwritten, 1, now);
        }
    }

    /// Says how many changes had no notice, where that is due.
    async fn say_omitted(&mut self, is_last: bool, end: &CancellationToken) {
        let now = self.clock.wall();
        self.budget.omit(Omission::Overload, self.watch.unsaid.swap(0, Relaxed), now);
        for omitted in self.budget.due(now, is_last) {
            let Omitted { origin, since, count, why } = omitted;
            let notice = ChangesOmitted {
                event: ChangesOmittedEvent::It,
                node: None,
                omitted: count,
                origin: origin.as_ref().map(ToString::to_string),
                prev: String::new(),
                seq: 0,
                since,
                time: now,
                why,
            };
            warn!(
                origin = notice.origin,
                count, "changes of robots.txt files have no notice of their own"
            );
            if !self.write(Notice::ChangesOmitted(notice), Vec::new(), end).await {
                self.budget.omit(why, count, since);
            }
        }
    }

    /// Writes a notice; returns whether it is in the log. While records cannot be written, it is
    /// dropped; that is logged once.
    async fn write(&mut self, notice: Notice, blobs: Vec<Blob>, end: &CancellationToken) -> bool {
        let written = tokio::select! {
            written = self.audit.note_with(notice, blobs) => written.map(|_| ()),
            // It may yet be written; there is another thread that waits for this one to end.
            () = async { end.cancelled().await; sleep(CHANGES_WAIT).await } => return true,
        };
        if let Err(error) = &written
            && !self.is_failing
        {
            warn!(
                "notices of robots.txt files, their changes and their delays are missing: {error}"
            );
        }
        self.is_failing = written.is_err();
        written.is_ok()
    }
}

/// In the log of the process.
fn say(changed: &Changed) {
    info!(
        origin = changed.origin,
        kind = changed.kind.word(),
        agent_asked = changed.agent_asked,
        added = changed.added,
        removed = changed.removed,
        sampled = changed.sampled.seen,
        now_denied = changed.sampled.now_denied,
        "robots.txt has changed"
    );
}
