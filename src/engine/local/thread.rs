//! The thread that works on the file, and what it shares with the handle.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::file::{self, StateFile, begin};
use super::rows::{self, Rows};
use crate::engine::clock::Micros;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::members::{Heartbeat, Members};
use crate::engine::stats::{Operation, Stats};
use crate::engine::{Config, HoldListener, bounded_micros};
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;

/// Operations that wait for the thread; further ones fail at once.
const JOBS_MAX: usize = 4096;
/// Operations of one transaction: others wait for the file meanwhile.
const BATCH_MAX: usize = 16;
/// How often the file is looked at for what other processes have written.
const LOOK: Duration = Duration::from_millis(100);
/// A process that has asked nothing for so long looks at nothing: longer than the time between two
/// announcements at an origin that it uses.
const IDLE: Duration = Duration::from_secs(20);
/// How often the clock and the process are marked as seen.
const MARK: Duration = Duration::from_secs(1);
/// Times that the oldest origins are evicted in one look, each in a transaction of its own: faster than
/// robots.txt files can be fetched and written.
const EVICTIONS_MAX: usize = 32;
/// Above that the log is emptied, and above the second its readers are waited for.
const LOG_BYTES: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Without the file for so long, a process goes on alone, and asks again each [`PROBE`].
const ALONE_AFTER: Duration = Duration::from_secs(1);
const PROBE: Duration = Duration::from_millis(500);
/// How often that is said at most.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Where the file is, and its bound.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    pub state_dir: PathBuf,
    /// Bytes; the origins that were not used for longest go first (`store.max_size`).
    pub size_max: u64,
    /// How far it was advanced by hand, the file's time is, too.
    pub clock: Arc<dyn Clock>,
}

/// What the thread tells the handle.
#[derive(Debug)]
pub(super) struct Shared {
    pub stats: Stats,
    pub members: Lock<Members>,
    /// The time of the file when this process was last marked in it, but for how far the clock was
    /// advanced by hand then.
    pub marked: Lock<Option<(Duration, Instant)>>,
    pub clock: Arc<dyn Clock>,
    pub health: Lock<Connectivity>,
    pub listener: OnceLock<HoldListener>,
    pub path: PathBuf,
    /// Bytes of the file at most (`store.max_size`).
    pub size_max: AtomicU64,
    pub counts: FileCounts,
    /// Bytes of the entries that wait to be written.
    pub waiting_bytes: AtomicUsize,
}

/// What operators see of the file.
#[derive(Debug, Default)]
pub(super) struct FileCounts {
    pub used_bytes: AtomicU64,
    pub file_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub dropped: AtomicU64,
    pub evicted: AtomicU64,
    pub broken: AtomicU64,
    pub loads: AtomicU64,
    pub load_hits: AtomicU64,
}

/// The state of the file, for metrics and readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalHealth {
    /// Whether there is a file (`store.enabled`).
    pub enabled: bool,
    /// Why it cannot be used at present.
    pub failing: Option<String>,
    /// Bytes of what is kept.
    pub bytes: u64,
    /// Bytes of the file, free pages included.
    pub file_bytes: u64,
    /// Origins written by this process.
    pub writes: u64,
    /// Origins that were not written, because too many waited or the file could not be used.
    pub dropped: u64,
    /// Origins evicted by this process to keep the file within its bound.
    pub evicted: u64,
    /// Rows of origins that were not what had been written.
    pub broken: u64,
    /// Operations that have failed.
    pub errors: u64,
    /// Lookups of origins that are not in memory.
    pub loads: u64,
    /// Those that found the origin.
    pub load_hits: u64,
}

/// Whether the file responds.
#[derive(Debug, Default)]
pub(super) struct Connectivity {
    /// Since when each operation has failed.
    pub failing: Option<(Instant, Error)>,
    /// When the last probe of a process alone was sent.
    probed: Option<Instant>,
    pub was_reached: bool,
    /// When it was last said that the file cannot be used.
    told: Option<Instant>,
    /// The mean of late.
    pub round_trip: Duration,
}

/// An operation, and what sends its response when the transaction is committed, or is not.
pub(super) type Job = Box<dyn FnOnce(Result<&Rows<'_>, &Error>) -> Reply + Send>;
pub(super) type Reply = Box<dyn FnOnce(Option<&Error>) + Send>;

impl Shared {
    /// Notes that this process was marked in the file, at this time of it.
    pub(super) fn note_heartbeat(&self, heartbeat: Heartbeat, now: Micros) {
        let now = Duration::from_micros(now);
        self.members.lock().note(heartbeat, (now, now), false);
        *self.marked.lock() = Some((now.saturating_sub(self.clock.advanced()), monotonic()));
    }

    /// The time that the file would have now; `None`: it was never used.
    pub(super) fn time(&self) -> Option<Duration> {
        let (time, at) = (*self.marked.lock())?;
        Some(time + (monotonic() - at) + self.clock.advanced())
    }

    /// Refuses at once while the process is alone, but for a probe.
    pub(super) fn may_ask(&self, now: Instant) -> Result<(), Error> {
        let mut health = self.health.lock();
        let Some((since, error)) = &health.failing else { return Ok(()) };
        let is_due = health.probed.is_none_or(|probed| now - probed >= PROBE);
        if now - *since < ALONE_AFTER {
            return Ok(());
        }
        if !is_due {
            return Err(ErrorKind::Broken.with(error.to_string()));
        }
        health.probed = Some(now);
        Ok(())
    }

    pub(super) fn note(&self, operation: Operation, sent: Instant, result: Result<(), &Error>) {
        let now = monotonic();
        let mut health = self.health.lock();
        match result {
            Ok(()) => {
                self.stats.note_time(operation, now - sent);
                if let Some((since, _)) =
                    health.failing.take().filter(|(since, _)| now - *since >= ALONE_AFTER)
                {
                    self.stats.note_away(now - since);
                    tracing::info!("{} can be used again", self.path.display());
                }
                health.probed = None;
                health.round_trip = (7 * health.round_trip + (now - sent)) / 8;
                health.was_reached = true;
            }
            Err(error) => {
                self.stats.note_error(error.kind);
                tracing::debug!(%error, operation = operation.word(), "an operation on the file has failed");
                // What is not written is fetched again: a full disk ends no pace that can be kept.
                let is_pace = !matches!(operation, Operation::Publish | Operation::PutFile);
                if is_pace {
                    let since = health.failing.as_ref().map_or(sent, |(since, _)| *since);
                    // Others may be slow; what else is wrong lasts.
                    let lasts = error.kind == ErrorKind::Persistence;
                    let since = if lasts { since.min(now - ALONE_AFTER) } else { since };
                    if !health.is_alone(now) && now - since >= ALONE_AFTER {
                        self.stats.note_broken();
                    }
                    health.failing = Some((since, error.clone()));
                }
                let is_told = error.kind == ErrorKind::Persistence || health.is_alone(now);
                if is_told && health.told.is_none_or(|told| now - told >= TOLD_AGAIN) {
                    health.told = Some(now);
                    tracing::error!(
                        "{} cannot be used ({error}); origins are stored in memory only, and this process keeps \
                         the pace alone",
                        self.path.display()
                    );
                }
            }
        }
    }

    /// The file was damaged, and another one is in its place.
    fn note_replaced(&self) {
        self.health.lock().failing = None;
    }
}

impl Connectivity {
    pub(super) fn is_alone(&self, now: Instant) -> bool {
        self.failing.as_ref().is_some_and(|(since, _)| now - *since >= ALONE_AFTER)
    }
}

/// The thread that works on the file.
pub(super) struct Thread {
    config: Config,
    /// How this process is known among those of the file.
    process: String,
    file_config: LocalConfig,
    shared: Arc<Shared>,
    file: Option<StateFile>,
    /// What was seen of the file: other processes' commits change its version.
    version: i64,
    /// The last hold that was told.
    seq: u64,
    looked: Option<Instant>,
    marked: Option<Instant>,
    asked: Instant,
}

impl Thread {
    /// Starts it: where jobs are sent, and what is disconnected at its end.
    pub(super) fn start(
        config: Config,
        file_config: LocalConfig,
        shared: Arc<Shared>,
    ) -> io::Result<(SyncSender<Job>, Receiver<()>)> {
        let (jobs, received) = sync_channel(JOBS_MAX);
        let (end, ended): (Sender<()>, _) = channel();
        let thread = Self {
            process: config.member(),
            config,
            file_config,
            shared,
            file: None,
            version: 0,
            seq: 0,
            looked: None,
            marked: None,
            asked: monotonic(),
        };
        let run = move || {
            let _end = end;
            thread.run(&received);
        };
        std::thread::Builder::new().name("state".into()).spawn(run)?;
        Ok((jobs, ended))
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let is_idle = monotonic() - self.asked > IDLE;
            let job = if is_idle {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(LOOK)
            };
            match job {
                Ok(job) => {
                    self.asked = monotonic();
                    let others = jobs.try_iter().take(BATCH_MAX - 1);
                    self.work(std::iter::once(job).chain(others).collect());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            self.look();
        }
    }

    /// Runs operations in one transaction, and sends their responses.
    fn work(&mut self, jobs: Vec<Job>) {
        let jobs = match self.open() {
            Ok(()) => jobs,
            Err(error) => return fail(jobs, &error),
        };
        let Some(file) = &self.file else { return };
        let mut waiting = Some(jobs);
        let result = (|| {
            let tx = begin(&file.connection)?;
            let rows = Rows::new(&tx, &*self.file_config.clock, &self.process)?;
            let jobs = waiting.take().unwrap_or_default();
            let replies: Vec<_> = jobs.into_iter().map(|job| job(Ok(&rows))).collect();
            let is_damaged = rows.is_damaged();
            if rows.broken() > 0 {
                self.shared.counts.broken.fetch_add(rows.broken(), Ordering::Relaxed);
                let path = self.shared.path.display();
                tracing::warn!("a row of {path} is not what was written: it counts for nothing");
            }
            let failed = tx.commit().err();
            let fault = failed.as_ref().map(file::fault);
            replies.into_iter().for_each(|reply| reply(fault.as_ref()));
            Ok(is_damaged || failed.as_ref().is_some_and(file::is_damage))
        })();
        let is_damaged = result.unwrap_or_else(|error: rusqlite::Error| {
            fail(waiting.take().unwrap_or_default(), &file::fault(&error));
            file::is_damage(&error)
        });
        if is_damaged && let Some(file) = self.file.take() {
            match file.replaced(&self.file_config.state_dir) {
                Ok(file) => {
                    self.file = Some(file);
                    self.shared.note_replaced();
                }
                Err(error) => tracing::error!("{error}"),
            }
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        if self.file.as_ref().is_some_and(|file| !file.is_in_place()) {
            self.file = None;
        }
        if self.file.is_none() {
            let file = StateFile::open(&self.file_config.state_dir)?;
            self.seq = rows::last_seq(&file.connection).unwrap_or_default();
            self.file = Some(file);
        }
        Ok(())
    }

    /// Tells the holds that other processes have begun, marks the time, and keeps the file small.
    fn look(&mut self) {
        let Some(file) = &self.file else { return };
        if self.looked.is_some_and(|looked| monotonic() - looked < LOOK) {
            return;
        }
        self.looked = Some(monotonic());
        if !file.is_in_place() {
            self.file = None;
            return;
        }
        let version = file.connection.pragma_query_value(None, "data_version", |row| row.get(0));
        if let Ok(version) = version
            && version != self.version
        {
            self.version = version;
            self.tell();
        }
        self.mark();
        self.keep_small();
    }

    fn tell(&mut self) {
        let (Some(file), Some(listener)) = (&self.file, self.shared.listener.get()) else { return };
        let hold_max = bounded_micros(self.config.hold_max);
        let clock = &*self.file_config.clock;
        let Ok(holds) =
            rows::holds_since(&file.connection, (self.seq, &self.process), clock, hold_max)
        else {
            return;
        };
        for (seq, lane, hold) in holds {
            self.seq = self.seq.max(seq);
            (listener.0)(&lane, hold, false);
        }
    }

    fn mark(&mut self) {
        let now = monotonic();
        if self.marked.is_some_and(|marked| now - marked < MARK) {
            return;
        }
        self.marked = Some(now);
        let (process, shared) = (self.process.clone(), Arc::clone(&self.shared));
        self.work(vec![Box::new(move |rows| {
            if let Ok(rows) = rows
                && let Ok(heartbeat) = rows.heartbeat(&process)
            {
                shared.note_heartbeat(heartbeat, rows.now);
            }
            Box::new(|_| {})
        })]);
    }

    /// Errors wait for the next time: the file is used all the same.
    fn keep_small(&self) {
        let Some(file) = &self.file else { return };
        let counts = &self.shared.counts;
        for _ in 0..EVICTIONS_MAX {
            let (used, all) = file.bytes().unwrap_or_default();
            counts.used_bytes.store(used, Ordering::Relaxed);
            counts.file_bytes.store(all, Ordering::Relaxed);
            if used <= self.shared.size_max.load(Ordering::Relaxed) {
                break;
            }
            let evicted = rows::forget_oldest(&file.connection);
            let Ok(evicted) = evicted.and_then(|evicted| file.vacuum(64).map(|()| evicted)) else {
                break;
            };
            counts.evicted.fetch_add(evicted, Ordering::Relaxed);
            if evicted == 0 {
                break;
            }
        }
        match file.log_bytes() {
            0..=LOG_BYTES => {}
            bytes => {
                let kind = if bytes > LOG_BYTES_MAX { "RESTART" } else { "PASSIVE" };
                let _ = file.checkpoint(kind);
            }
        }
    }

    /// Leaves nothing in the file that only this process meant.
    fn finish(&mut self) {
        let Some(file) = &self.file else { return };
        let _ = rows::forget_process(&file.connection, &self.process);
        if file.log_bytes() > LOG_BYTES {
            let _ = file.checkpoint("PASSIVE");
        }
    }
}

fn fail(jobs: Vec<Job>, error: &Error) {
    for job in jobs {
        job(Err(error))(None);
    }
}
