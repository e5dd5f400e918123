//! The engine of one machine: what the processes of a state directory share is one SQLite file,
//! which each of them opens at the first request that needs it. There is nothing to start, and a
//! process that is killed leaves nothing to clean.
//!
//! No caller waits on the file: a thread of its own works on it, and callers wait for its response for a
//! bounded time. (A process that is stopped in the middle of its transaction holds up the others, and
//! of 3,350 stops at random points 20 made a read or an open take ten seconds, which no pragma bounds.)

mod command_file;
mod file;
mod rows;
#[cfg(test)]
mod tests;
mod thread;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::cells::OwnRank;
use super::clock::{Micros, micros};
use super::error::{Error, ErrorKind};
use super::format;
use super::lane::SlotsRequestMicros;
use super::members::{Heartbeat, LogHead, Members, NamedHeads};
use super::stats::{Operation, Stats};
use super::{
    AwayStart, Config, Engine, FileDigest, GivenSlot, Hold, HoldListener, HoldRequest,
    KNOWN_BYTES_MAX, KeptRank, LeaseToken, LookupRequest, LookupResponse, Pending, Presence,
    PublishOutcome, PublishRequest, ReservedSlots, SlotsRequest, Status, bounded_micros, ready,
};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::origin::Origin;
pub use command_file::LocalFile;
pub use file::{LocalFileError, shared_dir};
use rows::Rows;
pub use rows::{KnownOrigin, LaneAhead};
use thread::{FileCounts, Job, Shared, Thread};
pub use thread::{LocalConfig, LocalHealth};

/// Bytes of the entries that wait to be written: robots.txt files of the largest kind, some dozens.
/// A client that has more of them fetched than the disk takes makes the process no larger.
pub const KEPT_WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a response is waited for.
const RESPONSE_MAX: Duration = Duration::from_secs(1);
/// How long a slot lasts: this part of the delay, and so many round trips at least, within bounds.
const SLACK_PART: u32 = 50;
const ROUND_TRIPS: u32 = 4;
const SLACK_MIN: Duration = Duration::from_millis(2);
const SLACK_MAX: Duration = Duration::from_millis(40);

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

impl LocalEngine {
    /// A handle; the file is opened by the first operation.
    pub fn new(config: Config, file: LocalConfig) -> Self {
        let shared = Shared {
            stats: Stats::default(),
            members: Lock::new(Members::new(OwnRank::default())),
            marked: Lock::default(),
            clock: Arc::clone(&file.clock),
            health: Lock::default(),
            listener: OnceLock::new(),
            path: file::path(&file.state_dir),
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

    /// What the processes before have left of the pace, and their rank among the proxies that shared a
    /// server; to be called once, where a server is the engine. Blocks for a second at most.
    pub fn begin_lanes(&self) -> Option<(Vec<LaneAhead>, bool, Option<KeptRank>)> {
        self.block_on(|rows| rows.begin_lanes())
    }

    /// Keeps the pace as it is now; `is_whole` where that is all there is to know. Blocks for a second at
    /// most.
    pub fn keep_lanes(&self, lanes: Vec<LaneAhead>, is_whole: bool) {
        self.block_on(move |rows| rows.keep_lanes(&lanes, is_whole));
    }

    /// Keeps the rank among the proxies that share a server; `None`: it was given back. Blocks for a
    /// second at most.
    pub fn keep_rank(&self, kept: Option<KeptRank>) {
        self.block_on(move |rows| rows.keep_rank(kept));
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
            // Its caller may have left.
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

    fn start(&self) -> ThreadState {
        let (config, shared) = (self.config.clone(), Arc::clone(&self.shared));
        match Thread::start(config, self.file.clone(), shared) {
            Ok((jobs, ended)) => ThreadState::Running { jobs, ended },
            Err(error) => {
                tracing::error!(
                    "there is no thread for the file, and this process goes on alone: {error}"
                );
                ThreadState::Closed
            }
        }
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
            *thread = self.start();
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
        let ask = SlotsRequestMicros::of(&request, "", 0);
        let slack = request.slack;
        let hold_max = bounded_micros(self.config.hold_max);
        self.call(Operation::ReserveSlots, move |rows| {
            let ask = SlotsRequestMicros { group: &group, known_since: rows.epoch, ..ask };
            rows.with_lane(&lane, Some(&group), |lane, now| {
                let slots = lane.reserve_slots(&ask, None, now, hold_max);
                ReservedSlots {
                    slots: slots.slots.into_iter().map(Duration::from_micros).collect(),
                    beyond: slots.beyond.map(Duration::from_micros),
                    hold: lane.hold_at(now, hold_max),
                    given: slots.last.map(|at| GivenSlot { at, slack }),
                }
            })
        })
    }

    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<Hold> {
        let (origin, hold_max) = (request.origin.clone(), bounded_micros(self.config.hold_max));
        let HoldRequest { length, status, cause, .. } = request;
        // A hold counts from the response that asked for it, however late the file has it.
        let clock = Arc::clone(&self.file.clock);
        let asked = monotonic() + clock.advanced();
        self.call(Operation::SetHold, move |rows| {
            rows.with_lane(&origin.lane(), None, |lane, now| {
                let late = (monotonic() + clock.advanced()).saturating_duration_since(asked);
                let begun = now.saturating_sub(micros(late));
                let request = HoldRequest { origin: &origin, length, status, cause };
                lane.set_hold(&request, begun, now, hold_max)
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
            shared.note_heartbeat(heartbeat.clone(), rows.now);
            Ok(heartbeat)
        })
    }

    /// Without the file, each process starts in its cells: all of them have one clock.
    fn away_start(&self, delay: Duration, earliest: Duration, failing: Duration) -> AwayStart {
        let Some(own) = self.shared.time() else { return AwayStart::Alone };
        let mut members = self.shared.members.lock();
        if members.last().members == 1 {
            return AwayStart::Alone;
        }
        members.away_start(own, (delay, earliest, failing))
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

    fn hours(&self, _: LogId) -> Pending<Vec<LogHead>> {
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
            members: members.last().members,
            rank: members.own_rank.rank().filter(|_| members.last().members > 1),
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
