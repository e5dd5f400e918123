//! The engine of one machine: what the processes of a state directory share is one SQLite file,
//! which each of them opens at the first request that needs it. There is nothing to start, and a
//! process that is killed leaves nothing to clean.
//!
//! Nobody waits on the file: a thread of its own works on it, and callers wait for its response for a
//! bounded time. (A process that is stopped in the middle of its transaction holds up the others, and
//! of 3,350 stops at random points 20 made a read or an open take ten seconds, which no pragma bounds.)

mod file;
mod rows;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::clock::Micros;
use super::error::{Error, ErrorKind};
use super::format;
use super::lane::{SlotsRequestMicros, StoredHold};
use super::members::{Heartbeat, LogHead, Members, NamedHeads};
use super::stats::{Operation, Stats};
use super::{
    Config, Engine, FileDigest, Hold, HoldLength, HoldListener, HoldRequest, KNOWN_BYTES_MAX,
    LeaseToken, LookupRequest, LookupResponse, Pending, Presence, PublishOutcome, PublishRequest,
    ReservedSlots, SLOTS_MAX, SlotsRequest, Status, bounded_micros, ready,
};
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;
use file::StateFile;
pub use file::{LocalFile, LocalFileError};
use rows::Rows;
pub use rows::{KnownOrigin, LaneAhead};

/// Operations that wait for the thread; further ones fail at once.
const JOBS_MAX: usize = 4096;
/// Operations of one transaction: others wait for the file meanwhile.
const BATCH_MAX: usize = 16;
/// Bytes of the entries that wait to be written: robots.txt files of the largest kind, some dozens.
/// A client that has more of them fetched than the disk takes makes the process no larger.
pub const KEPT_WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a response is waited for.
const RESPONSE_MAX: Duration = Duration::from_secs(1);
/// Without the file for so long, a process goes on alone, and asks again each [`PROBE`].
const ALONE_AFTER: Duration = Duration::from_secs(1);
const PROBE: Duration = Duration::from_millis(500);
/// How often that is said at most.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// How long a slot lasts: this part of the delay, and so many round trips at least, within bounds.
const SLACK_PART: u32 = 200;
const ROUND_TRIPS: u32 = 4;
const SLACK_MIN: Duration = Duration::from_millis(2);
const SLACK_MAX: Duration = Duration::from_millis(40);

/// How often the file is looked at for what other processes have written.
const LOOK: Duration = Duration::from_millis(100);
/// A process that has asked nothing for so long looks at nothing: longer than the time between two
/// announcements at an origin that it uses.
const IDLE: Duration = Duration::from_secs(20);
/// How often the clock and the process are marked as seen.
const MARK: Duration = Duration::from_secs(1);
/// Above that the log is emptied, and above the second its readers are waited for.
const LOG_BYTES: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 16 << 20;

/// A process's handle on the file of its state directory.
#[derive(Debug)]
pub struct LocalEngine {
    config: Config,
    shared: Arc<Shared>,
    thread: Lock<ThreadState>,
    file: LocalConfig,
}

/// The thread that works on the file, from the first operation to the end.
#[derive(Debug, Default)]
enum ThreadState {
    #[default]
    NotStarted,
    Running {
        jobs: SyncSender<Job>,
        /// Disconnected when the thread ends.
        ended: Receiver<()>,
    },
    Closed,
}

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
struct Shared {
    stats: Stats,
    members: Lock<Members>,
    health: Lock<Connectivity>,
    listener: OnceLock<HoldListener>,
    path: PathBuf,
    /// Bytes of the file at most (`store.max_size`).
    size_max: AtomicU64,
    counts: FileCounts,
    /// Bytes of the entries that wait to be written.
    waiting_bytes: AtomicUsize,
}

/// What operators see of the file.
#[derive(Debug, Default)]
struct FileCounts {
    used_bytes: AtomicU64,
    file_bytes: AtomicU64,
    writes: AtomicU64,
    dropped: AtomicU64,
    evicted: AtomicU64,
    broken: AtomicU64,
    loads: AtomicU64,
    load_hits: AtomicU64,
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
struct Connectivity {
    /// Since when each operation has failed.
    failing: Option<(Instant, Error)>,
    /// When the last probe of a process alone was sent.
    probed: Option<Instant>,
    was_reached: bool,
    /// When it was last said that the file cannot be used.
    told: Option<Instant>,
    /// The mean of late.
    round_trip: Duration,
}

/// An operation, and what sends its response when the transaction is committed, or is not.
type Job = Box<dyn FnOnce(Result<&Rows<'_>, &Error>) -> Reply + Send>;
type Reply = Box<dyn FnOnce(Option<&Error>) + Send>;

impl LocalEngine {
    /// A handle; the file is opened by the first operation.
    pub fn new(config: Config, file: LocalConfig) -> Self {
        let shared = Shared {
            stats: Stats::default(),
            members: Lock::new(Members::new(config.members_before)),
            health: Lock::default(),
            listener: OnceLock::new(),
            path: LocalFile::path(&file.state_dir),
            size_max: AtomicU64::new(file.size_max),
            counts: FileCounts::default(),
            waiting_bytes: AtomicUsize::new(0),
        };
        Self { config, shared: Arc::new(shared), thread: Lock::default(), file }
    }

    /// What the file has of an origin that this process is about to send requests to, with the files
    /// that `files` finds named in the value; none where one is missing.
    pub fn known(
        &self,
        origin: &Origin,
        files: fn(&[u8]) -> Option<Vec<FileDigest>>,
    ) -> Pending<Option<KnownOrigin>> {
        let (origin, presence) = (origin.clone(), self.presence());
        let shared = Arc::clone(&self.shared);
        self.call(Operation::Lookup, move |rows| {
            let known = rows.known(&origin, files)?;
            shared.counts.loads.fetch_add(1, Ordering::Relaxed);
            shared.counts.load_hits.fetch_add(u64::from(known.is_some()), Ordering::Relaxed);
            presence.announce(rows, &origin)?;
            Ok(known)
        })
    }

    /// Writes what is known of an origin, unless the file has a later version than that of `token`; in
    /// its turn, without a response. `make` gives the value and the files that it names, about `bytes`.
    pub fn keep(
        &self,
        origin: &Origin,
        token: LeaseToken,
        bytes: usize,
        make: impl FnOnce() -> (Vec<u8>, Vec<(FileDigest, Bytes)>) + Send + 'static,
    ) {
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (origin, shared) = (origin.clone(), Arc::clone(&self.shared));
        let work = move |rows: &Rows<'_>| {
            let (value, files) = make();
            for (sha256, content) in files {
                rows.put_file(&sha256, &content)?;
            }
            rows.keep(&origin, token, &value)
        };
        let written = move |result: Result<(), Error>| {
            shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let counts = &shared.counts;
            let count = if result.is_ok() { &counts.writes } else { &counts.dropped };
            count.fetch_add(1, Ordering::Relaxed);
        };
        if waiting + bytes > KEPT_WAITING_BYTES_MAX {
            return written(Err(ErrorKind::Full.with("too many entries wait to be written")));
        }
        self.submit(Operation::Publish, work, written);
    }

    /// Removes what is known of an origin, and ends its hold; in its turn, without a response.
    pub fn forget(&self, origin: &Origin) {
        let origin = origin.clone();
        self.submit(Operation::Publish, move |rows| rows.forget(&origin).map(drop), drop);
    }

    /// Waits until all that was submitted before is in the file, or cannot be.
    pub fn flush(&self) -> Pending<()> {
        self.call(Operation::Heartbeat, |_| Ok(()))
    }

    /// What the processes before have left of the pace, and how many proxies shared a server then; to be
    /// called once, where a server is the engine. Blocks for a second at most.
    pub fn begin_lanes(&self) -> Option<(Vec<LaneAhead>, bool, usize)> {
        self.block_on(|rows| rows.begin_lanes())
    }

    /// Keeps the pace as it is now; `is_whole` where that is all there is to know. Blocks for a second at
    /// most.
    pub fn keep_lanes(&self, lanes: Vec<LaneAhead>, is_whole: bool) {
        self.block_on(move |rows| rows.keep_lanes(&lanes, is_whole));
    }

    /// Keeps how many proxies share a server. Blocks for a second at most.
    pub fn keep_members(&self, members: usize) {
        self.block_on(move |rows| rows.keep_members(members));
    }

    /// Applies another bound of the file, in bytes.
    pub fn resize(&self, size_max: u64) {
        self.shared.size_max.store(size_max, Ordering::Relaxed);
    }

    /// The state of the file.
    pub fn health(&self) -> LocalHealth {
        let counts = &self.shared.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let health = self.shared.health.lock();
        let failing = health.failing.as_ref().filter(|_| health.is_alone(monotonic()));
        LocalHealth {
            enabled: true,
            failing: failing.map(|(_, error)| error.to_string()),
            bytes: count(&counts.used_bytes),
            file_bytes: count(&counts.file_bytes),
            writes: count(&counts.writes),
            dropped: count(&counts.dropped),
            evicted: count(&counts.evicted),
            broken: count(&counts.broken),
            errors: self.shared.stats.counts().errors.iter().sum(),
            loads: count(&counts.loads),
            load_hits: count(&counts.load_hits),
        }
    }

    /// Another look at the file, for a command of the running process.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open_file(&self) -> Result<Option<LocalFile>, LocalFileError> {
        LocalFile::open(&self.file.state_dir)
    }

    /// Does what was submitted, and ends; waits for that as long as `max_wait`. Later operations fail.
    pub fn close_within(&self, max_wait: Duration) {
        let state = std::mem::replace(&mut *self.thread.lock(), ThreadState::Closed);
        if let ThreadState::Running { jobs, ended } = state {
            drop(jobs);
            let _ = ended.recv_timeout(max_wait);
        }
    }

    /// How this process is known where it sends requests.
    fn presence(&self) -> PresenceOf {
        PresenceOf {
            process: self.config.member(),
            interval: self.shared.members.lock().presence_interval(),
            hold_max: bounded_micros(self.config.hold_max),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Runs `work` in a transaction, in its turn.
    fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl FnOnce(&Rows<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Pending<T> {
        let sent = monotonic();
        let (sender, response) = oneshot::channel();
        self.submit(operation, work, move |result| {
            // Nobody may wait any more.
            let _ = sender.send(result);
        });
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match timeout(RESPONSE_MAX, response).await {
                Ok(result) => result.unwrap_or_else(|_| Err(closed())),
                Err(_) => {
                    let late = ErrorKind::Timeout.with(format!("{RESPONSE_MAX:?}"));
                    shared.note(operation, sent, Err(&late));
                    Err(late)
                }
            }
        })
    }

    fn block_on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Rows<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<T> {
        let (sender, response) = channel();
        self.submit(Operation::Heartbeat, work, move |result| {
            let _ = sender.send(result);
        });
        response.recv_timeout(RESPONSE_MAX).ok()?.ok()
    }

    /// Has `work` run in a transaction, and `reply` called when that is committed, or has failed.
    fn submit<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl FnOnce(&Rows<'_>) -> rusqlite::Result<T> + Send + 'static,
        reply: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) {
        let sent = monotonic();
        if let Err(error) = self.shared.may_ask(sent) {
            self.shared.stats.note_error(error.kind);
            return reply(Err(error));
        }
        let shared = Arc::clone(&self.shared);
        let job: Job = Box::new(move |rows| {
            let result = match rows {
                Ok(rows) => work(rows).map_err(|error| {
                    rows.note(&error);
                    file::fault(&error)
                }),
                Err(error) => Err(error.clone()),
            };
            Box::new(move |failed| {
                let result = failed.map_or(result, |error| Err(error.clone()));
                shared.note(operation, sent, result.as_ref().map(drop));
                reply(result);
            })
        });
        let mut thread = self.thread.lock();
        if matches!(*thread, ThreadState::NotStarted) {
            *thread = Thread::start(self.config.clone(), self);
        }
        let refused = match &*thread {
            ThreadState::Running { jobs, .. } => jobs.try_send(job).err(),
            ThreadState::NotStarted | ThreadState::Closed => Some(TrySendError::Disconnected(job)),
        };
        drop(thread);
        match refused {
            None => {}
            Some(TrySendError::Full(job)) => {
                job(Err(&ErrorKind::Full.with("the file's thread is behind")))(None);
            }
            Some(TrySendError::Disconnected(job)) => job(Err(&closed()))(None),
        }
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        self.close_within(RESPONSE_MAX);
    }
}

fn closed() -> Error {
    ErrorKind::Broken.with("the file is closed")
}

/// How a process is known where it sends requests.
struct PresenceOf {
    process: String,
    interval: Duration,
    hold_max: Micros,
    shared: Arc<Shared>,
}

impl PresenceOf {
    /// Marks that it sends requests to an origin, and tells the hold of that.
    fn announce(&self, rows: &Rows<'_>, origin: &Origin) -> rusqlite::Result<Presence> {
        let presence =
            rows.presence(&origin.lane(), Some(&self.process), self.interval, self.hold_max)?;
        // Before the response: what comes next is the request itself.
        if let (Some(hold), Some(listener)) = (presence.hold, self.shared.listener.get()) {
            (listener.0)(&origin.lane(), hold, true);
        }
        Ok(presence)
    }
}

impl Shared {
    /// Refuses at once while the process is alone, but for a probe.
    fn may_ask(&self, now: Instant) -> Result<(), Error> {
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

    fn note(&self, operation: Operation, sent: Instant, result: Result<(), &Error>) {
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
    fn is_alone(&self, now: Instant) -> bool {
        self.failing.as_ref().is_some_and(|(since, _)| now - *since >= ALONE_AFTER)
    }
}

impl Engine for LocalEngine {
    fn lookup(&self, request: LookupRequest<'_>) -> Pending<LookupResponse> {
        let LookupRequest { origin, have, may_fetch, is_used } = request;
        let (origin, presence) = (origin.clone(), self.presence());
        self.call(Operation::Lookup, move |rows| {
            let outcome = rows.lookup(&origin, have, may_fetch.then_some(&*presence.process))?;
            presence.shared.stats.note_lookup(outcome.kind());
            let presence = if is_used {
                presence.announce(rows, &origin)?
            } else {
                rows.presence(&origin.lane(), None, presence.interval, presence.hold_max)?
            };
            Ok(LookupResponse { outcome, presence })
        })
    }

    fn publish(&self, request: PublishRequest<'_>) -> Pending<PublishOutcome> {
        let PublishRequest { origin, token, value } = request;
        if value.len() > KNOWN_BYTES_MAX {
            return ready(Err(ErrorKind::TooLarge.with(format!("{} bytes", value.len()))));
        }
        let (origin, value) = (origin.clone(), value.to_owned());
        self.call(Operation::Publish, move |rows| rows.publish(&origin, token, &value))
    }

    fn renew_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        let origin = origin.clone();
        self.call(Operation::RenewLease, move |rows| rows.set_lease_end(&origin, token, true))
    }

    fn release_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        let origin = origin.clone();
        self.call(Operation::ReleaseLease, move |rows| rows.set_lease_end(&origin, token, false))
    }

    fn reserve_slots(&self, request: SlotsRequest<'_>) -> Pending<ReservedSlots> {
        let lane = request.origin.lane().into_owned();
        let group = format::group_name(request.group).into_owned();
        let ask = SlotsRequestMicros {
            group: "",
            own: bounded_micros(request.lane_delay),
            asked: bounded_micros(request.site_delay),
            slack: bounded_micros(request.slack),
            horizon: bounded_micros(request.horizon),
            left: bounded_micros(request.left),
            count: request.count.clamp(1, SLOTS_MAX),
            known_since: 0,
        };
        let hold_max = bounded_micros(self.config.hold_max);
        self.call(Operation::ReserveSlots, move |rows| {
            let ask = SlotsRequestMicros { group: &group, known_since: rows.epoch, ..ask };
            rows.with_lane(&lane, Some(&group), |lane, now| {
                let slots = lane.reserve_slots(&ask, now, hold_max);
                ReservedSlots {
                    slots: slots.slots.into_iter().map(Duration::from_micros).collect(),
                    beyond: slots.beyond.map(Duration::from_micros),
                    hold: lane.hold_at(now, hold_max),
                }
            })
        })
    }

    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<Hold> {
        let HoldRequest { origin, length, status, cause } = request;
        let (lane, hold_max) = (origin.lane().into_owned(), bounded_micros(self.config.hold_max));
        self.call(Operation::SetHold, move |rows| {
            rows.with_lane(&lane, None, |lane, now| {
                match length {
                    HoldLength::For(length) => {
                        let until = now + bounded_micros(length);
                        lane.hold_for(StoredHold { until, status, cause }, now, hold_max);
                    }
                    HoldLength::BackOff { first, max, jitter } => {
                        let length = (bounded_micros(first), bounded_micros(max), jitter);
                        lane.back_off(length, (status, cause), now, hold_max);
                    }
                }
                let none = Hold { left: Duration::ZERO, status, cause };
                lane.hold_at(now, hold_max).unwrap_or(none)
            })
        })
    }

    fn reset_backoff(&self, origin: &Origin) -> Pending<bool> {
        let lane = origin.lane().into_owned();
        self.call(Operation::ResetBackoff, move |rows| {
            rows.with_lane(&lane, None, |lane, now| lane.reset_backoff(now))
        })
    }

    fn end_hold(&self, origin: &Origin) -> Pending<bool> {
        let lane = origin.lane().into_owned();
        self.call(Operation::ResetBackoff, move |rows| {
            rows.with_lane(&lane, None, |lane, now| lane.end_hold(now))
        })
    }

    fn announce_presence(&self, origin: &Origin) -> Pending<Presence> {
        let (origin, presence) = (origin.clone(), self.presence());
        self.call(Operation::AnnouncePresence, move |rows| {
            let PresenceOf { process, interval, hold_max, .. } = &presence;
            rows.presence(&origin.lane(), Some(process), *interval, *hold_max)
        })
    }

    fn heartbeat(&self) -> Pending<Heartbeat> {
        let (process, shared) = (self.config.member(), Arc::clone(&self.shared));
        self.call(Operation::Heartbeat, move |rows| {
            let heartbeat = rows.heartbeat(&process)?;
            shared.members.lock().note(heartbeat, Duration::from_micros(rows.now));
            Ok(heartbeat)
        })
    }

    fn get_file(&self, sha256: FileDigest) -> Pending<Option<Bytes>> {
        self.call(Operation::GetFile, move |rows| rows.file(&sha256))
    }

    fn put_file(&self, sha256: FileDigest, content: Bytes) -> Pending<()> {
        if let Err(error) = self.config.check_file(&content) {
            return ready(Err(error));
        }
        self.call(Operation::PutFile, move |rows| rows.put_file(&sha256, &content))
    }

    /// The log is a witness of itself on one machine: no heads are kept.
    fn heads(&self) -> Pending<NamedHeads> {
        ready(Ok(Vec::new()))
    }

    fn set_head(&self, _: LogHead) {}

    fn on_hold(&self, listener: HoldListener) {
        // There is one set of lanes in a process.
        let _ = self.shared.listener.set(listener);
    }

    fn status(&self) -> Status {
        let (now, health, members) =
            (monotonic(), self.shared.health.lock(), self.shared.members.lock());
        Status {
            is_up: !health.is_alone(now),
            was_reached: health.was_reached,
            last_error: health.failing.as_ref().map(|(_, error)| error.clone()),
            members: members.largest(),
            present: members.last().members,
            same_settings: members.last().members,
            epoch: members.epoch(),
            presence_interval: members.presence_interval(),
            clock_offset: Some(0),
            is_local: true,
            server: Some("file".to_owned()),
            ..Status::default()
        }
    }

    /// All processes have one clock: what a slot has to outlast is the way to the file and back, and the
    /// wake of a thread. Of a lane of a second, forty milliseconds would be a twenty-fifth.
    fn slack(&self, delay: Duration, _: Duration) -> Duration {
        let round_trips = ROUND_TRIPS * self.shared.health.lock().round_trip;
        (delay / SLACK_PART).max(round_trips).clamp(SLACK_MIN, SLACK_MAX)
    }

    fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}

/// The thread that works on the file.
struct Thread {
    config: Config,
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
    fn start(config: Config, engine: &LocalEngine) -> ThreadState {
        let (jobs, received) = sync_channel(JOBS_MAX);
        let (end, ended): (Sender<()>, _) = channel();
        let thread = Self {
            config,
            file_config: engine.file.clone(),
            shared: Arc::clone(&engine.shared),
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
        match std::thread::Builder::new().name("state".into()).spawn(run) {
            Ok(_) => ThreadState::Running { jobs, ended },
            Err(error) => {
                tracing::error!(%error, "there is no thread for what this machine knows: this process goes on alone");
                ThreadState::Closed
            }
        }
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
            let rows = Rows::new(&tx, &*self.file_config.clock)?;
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
        let Ok(holds) = rows::holds_since(&file.connection, self.seq, clock, hold_max) else {
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
        let (process, shared) = (self.config.member(), Arc::clone(&self.shared));
        self.work(vec![Box::new(move |rows| {
            if let Ok(rows) = rows
                && let Ok(heartbeat) = rows.heartbeat(&process)
            {
                shared.members.lock().note(heartbeat, Duration::from_micros(rows.now));
            }
            Box::new(|_| {})
        })]);
    }

    /// Errors wait for the next time: the file is used all the same.
    fn keep_small(&self) {
        let Some(file) = &self.file else { return };
        let (used, all) = file.bytes().unwrap_or_default();
        let counts = &self.shared.counts;
        counts.used_bytes.store(used, Ordering::Relaxed);
        counts.file_bytes.store(all, Ordering::Relaxed);
        if used > self.shared.size_max.load(Ordering::Relaxed)
            && let Ok(evicted) = rows::forget_oldest(&file.connection)
        {
            counts.evicted.fetch_add(evicted, Ordering::Relaxed);
        }
        match file.log_bytes() {
            0..=LOG_BYTES => {}
            bytes => {
                let kind = if bytes > LOG_BYTES_MAX { "RESTART" } else { "PASSIVE" };
                let _ = file.connection.query_row(
                    &format!("PRAGMA wal_checkpoint({kind})"),
                    [],
                    |_| Ok(()),
                );
            }
        }
    }

    /// Leaves nothing in the file that only this process meant.
    fn finish(&mut self) {
        let Some(file) = &self.file else { return };
        let _ = rows::forget_process(&file.connection, &self.config.member());
        if file.log_bytes() > LOG_BYTES {
            let _ = file.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}

/// Begins a transaction, however busy others are, as long as its operations are waited for: what is
/// refused would start by this process's own count.
fn begin(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    let end = monotonic() + RESPONSE_MAX;
    loop {
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        let is_busy = |error: &rusqlite::Error| file::fault(error).kind == ErrorKind::Busy;
        if monotonic() >= end || !begun.as_ref().is_err_and(is_busy) {
            return begun;
        }
    }
}

fn fail(jobs: Vec<Job>, error: &Error) {
    for job in jobs {
        job(Err(error))(None);
    }
}
