//! What the callers and the thread of an engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::Value;
use tokio::sync::{Notify, oneshot, watch};

use super::call::{Act, Call, Job, boolean, number};
use super::connection::ServerInfo;
use super::promises::Promises;
use super::reply::Parts;
use super::router::Router;
use super::script::Script;
use super::settings::RedisConfig;
use super::shared_once::SharedOnce;
use crate::engine::clock::Micros;
use crate::engine::config::Config;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::format::FORMAT;
use crate::engine::keys::Keys;
use crate::engine::length::bounded_micros;
use crate::engine::log_head::LogHead;
use crate::engine::lookup::FILE_KEPT_ONCE;
use crate::engine::members::{Heartbeat, Members};
use crate::engine::stats::{Operation, Stats};
use crate::engine::status::Status;
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::sanitize::hex;

/// A new round trip counts so much in the mean.
const ROUND_TRIP_PART: u64 = 8;

/// The state of an engine of a server.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: Config,
    pub redis: ArcSwap<RedisConfig>,
    pub keys: Keys,
    pub members: Lock<Members>,
    pub stats: Stats,
    pub router: Router,
    /// Counts changes of the settings.
    pub changes: watch::Sender<u64>,
    /// Whether all nodes can be reached.
    pub up: watch::Sender<bool>,
    /// A heartbeat is to be sent now.
    pub heartbeat: Notify,
    /// What this handle has reserved, and what it has shared first.
    pub promises: Promises,
    pub shared_once: SharedOnce,
    has_beaten: AtomicBool,
    head: Lock<Option<LogHead>>,
    seen: Lock<Seen>,
    wall: Arc<dyn Clock>,
    start: Instant,
    round_trip: AtomicU64,
}

/// What was last seen of the servers.
#[derive(Debug, Default)]
struct Seen {
    was_reached: bool,
    last_error: Option<Error>,
    server: Option<String>,
    may_evict: bool,
    has_namesake: bool,
    has_seen_removed: bool,
    offset: Option<i64>,
    away_since: Option<Instant>,
    /// The kind of error that was logged since the engine was reached.
    logged: Option<ErrorKind>,
}

impl Shared {
    pub(super) fn new(config: Config, redis: RedisConfig, wall: Arc<dyn Clock>) -> Self {
        let start = monotonic();
        Self {
            keys: Keys::new(&redis.prefix),
            members: Lock::new(Members::new(config.members_before)),
            config,
            redis: ArcSwap::from_pointee(redis),
            stats: Stats::default(),
            router: Router::default(),
            changes: watch::Sender::new(0),
            up: watch::Sender::new(false),
            heartbeat: Notify::new(),
            promises: Promises::default(),
            shared_once: SharedOnce::default(),
            has_beaten: AtomicBool::new(false),
            head: Lock::default(),
            seen: Lock::new(Seen { away_since: Some(start), ..Seen::default() }),
            wall,
            start,
            round_trip: AtomicU64::new(0),
        }
    }

    /// Sends a call; the reply comes by the receiver.
    pub(super) fn send(
        &self,
        call: Call,
    ) -> Result<oneshot::Receiver<Result<Value, Error>>, Error> {
        let (reply, receiver) = oneshot::channel();
        let deadline = monotonic() + self.redis.load().timeout;
        let call = self.with_time(call);
        self.router.send(Job { call, reply, deadline, redirects: 0, is_asking: false })?;
        Ok(receiver)
    }

    /// The last argument of a script: nothing, but in tests.
    pub(super) fn with_time(&self, mut call: Call) -> Call {
        if let Act::Script(_) = call.act {
            let clock = self.redis.load().clock.clone();
            call.arguments.push(clock.map_or_else(Vec::new, |clock| number(clock.now())));
        }
        call
    }

    pub(super) fn heartbeat_call(&self) -> Call {
        let head = *self.head.lock();
        let arguments = vec![
            self.config.name.clone().into_bytes(),
            number(FORMAT.into()),
            number(self.config.settings_word().into()),
            head.map_or_else(Vec::new, |head| self.head_text(head).into_bytes()),
            self.config.process.clone().into_bytes(),
            boolean(!self.has_beaten.load(Ordering::Relaxed)),
            head.map_or_else(Vec::new, |head| head.place(&self.config.name).into_bytes()),
            number(head.is_some_and(|head| head.contradicts).into()),
        ];
        let keys = ["members", "about", "epoch", "heads"].map(|name| self.keys.cluster(name));
        let keys = keys.into_iter().chain([self.keys.name(&self.config.name)]).collect();
        Call::script(Operation::Heartbeat, Script::Heartbeat, keys, arguments)
    }

    fn head_text(&self, head: LogHead) -> String {
        let LogHead { number, hash, time, .. } = head;
        let (hash, Config { version, name, .. }) = (hex(&hash), &self.config);
        format!("{number} {hash} {} {version} {name}", time.millis())
    }

    /// Takes the reply to a heartbeat.
    pub(super) fn note_heartbeat(&self, reply: Value) -> Option<Heartbeat> {
        let mut parts = Parts::of(reply)?;
        let heartbeat = Heartbeat {
            members: parts.count()?,
            same_settings: parts.count()?,
            format: u8::try_from(parts.number()?).ok()?,
            now: parts.number()?,
            epoch: parts.number()?,
            has_namesake: parts.number() == Some(1),
        };
        self.has_beaten.store(true, Ordering::Relaxed);
        self.note_namesake(heartbeat.has_namesake);
        if self.members.lock().note(heartbeat, monotonic() - self.start) {
            self.note_loss("its data began anew");
        }
        self.note_time(heartbeat.now, Duration::ZERO);
        if self.router.is_up() {
            self.seen.lock().last_error = None;
        }
        Some(heartbeat)
    }

    /// Notes what was shared under a new key; for it, what was shared long before may have to go.
    pub(super) fn note_shared_once(&self, key: Vec<u8>, bytes: usize) {
        let once = number(bounded_micros(FILE_KEPT_ONCE) / 1000);
        for key in self.shared_once.note(key, bytes) {
            let call = Call::script(
                Operation::ReleaseLease,
                Script::Forget,
                vec![key],
                vec![once.clone()],
            );
            // Nothing waits for it: what stays ends by itself within two days.
            let _ = self.send(call);
        }
    }

    /// Notes that starts were removed; the first time it is logged.
    pub(super) fn note_removed(&self, error: &Error) {
        self.note_error(error);
        let had = std::mem::replace(&mut self.seen.lock().has_seen_removed, true);
        if !had {
            tracing::warn!(
                %error,
                "another program writes to the shared engine: this proxy keeps its share of the \
                 pace at that origin for ten minutes"
            );
        }
    }

    fn note_namesake(&self, has_namesake: bool) {
        let had = std::mem::replace(&mut self.seen.lock().has_namesake, has_namesake);
        if has_namesake && !had {
            tracing::warn!(
                name = self.config.name,
                "another live proxy has the same name: give each its own engine.name, or leave it out"
            );
        }
    }

    pub(super) fn set_head(&self, head: LogHead) {
        *self.head.lock() = Some(head);
    }

    /// Notes that a server is ready; `place` tells apart the nodes of a cluster.
    pub(super) fn note_server(&self, place: &str, info: &ServerInfo) {
        if self.members.lock().note_run(place, &info.run, info.now) {
            self.note_loss("another run of the server responds");
        }
        self.note_round_trip(info.took);
        self.note_time(info.now, info.took / 2);
        let mut seen = self.seen.lock();
        seen.server = Some(info.server.clone());
        seen.may_evict = info.may_evict;
    }

    /// Notes that data may have been lost at this moment.
    pub(super) fn note_possible_loss(&self, why: &str) {
        let now = self.now();
        self.members.lock().note_loss(now);
        self.note_loss(why);
    }

    /// The engine's time, as this machine's clock has it.
    pub(super) fn now(&self) -> Micros {
        let offset = self.seen.lock().offset.unwrap_or(0);
        (self.wall.wall().millis() * 1000).saturating_add_signed(offset)
    }

    fn note_loss(&self, why: &str) {
        self.stats.note_lost();
        self.promises.forget();
        tracing::warn!(why, "the shared engine may have lost data: paced starts wait a delay");
    }

    fn note_time(&self, now: Micros, since: Duration) {
        let since = i64::try_from(since.as_micros()).unwrap_or(0);
        let (own, now) = (self.wall.wall().millis().saturating_mul(1000), now);
        let offset = i64::try_from(i128::from(now) - i128::from(own)).unwrap_or(i64::MAX);
        self.seen.lock().offset = Some(offset.saturating_add(since));
    }

    pub(super) fn note_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mean = |mean: u64| match mean {
            0 => took,
            mean => mean - mean / ROUND_TRIP_PART + took / ROUND_TRIP_PART,
        };
        let set = |before| Some(mean(before));
        let _ = self.round_trip.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }

    /// Notes that there are other nodes.
    pub(super) fn note_map(&self) {
        self.up.send_replace(self.router.is_up());
    }

    /// Notes that a node can be reached.
    pub(super) fn note_up(&self) {
        let is_up = self.router.is_up();
        let mut seen = self.seen.lock();
        if is_up {
            self.count_away(&mut seen);
            (seen.was_reached, seen.last_error, seen.away_since) = (true, None, None);
            seen.logged = None;
            tracing::info!(server = seen.server.as_deref().unwrap_or(""), "shared engine reached");
        }
        drop(seen);
        self.up.send_replace(is_up);
        self.heartbeat.notify_one();
    }

    /// Notes why a node cannot be reached.
    pub(super) fn note_down(&self, error: Error) {
        let mut seen = self.seen.lock();
        if seen.logged != Some(error.kind) {
            tracing::warn!(%error, "shared engine away");
            seen.logged = Some(error.kind);
        }
        self.count_away(&mut seen);
        seen.away_since = Some(monotonic());
        self.stats.note_error(error.kind);
        seen.last_error = Some(error);
        drop(seen);
        self.up.send_replace(false);
    }

    fn count_away(&self, seen: &mut Seen) {
        if let Some(since) = seen.away_since {
            self.stats.note_away(monotonic() - since);
        }
    }

    /// An error of one operation, which need not be the end of the connection.
    pub(super) fn note_error(&self, error: &Error) {
        self.stats.note_error(error.kind);
        if !matches!(error.kind, ErrorKind::Broken | ErrorKind::Full | ErrorKind::TooLarge) {
            self.seen.lock().last_error = Some(error.clone());
        }
    }

    pub(super) fn status(&self) -> Status {
        let (members, seen) = (self.members.lock(), self.seen.lock());
        Status {
            is_up: self.router.is_up(),
            was_reached: seen.was_reached,
            last_error: seen.last_error.clone(),
            members: members.largest(),
            present: members.last().members,
            same_settings: members.last().same_settings,
            namesake: seen.has_namesake.then(|| self.config.name.clone()),
            epoch: members.epoch(),
            presence_interval: members.presence_interval(),
            round_trip: Duration::from_micros(self.round_trip.load(Ordering::Relaxed)),
            clock_offset: seen.offset,
            may_evict: seen.may_evict,
            server: seen.server.clone(),
        }
    }
}
