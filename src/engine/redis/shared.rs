//! What the callers and the thread of an engine share.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::Value;
use tokio::sync::{Notify, oneshot, watch};

use super::call::{Act, Call, Job, Parts, Script, boolean, decimal};
use super::connection::ServerInfo;
use super::router::{Followed, Router};
use super::settings::RedisConfig;
use crate::engine::cells::{ClockReading, MissingRanks, OwnRank, RANKS_MAX, Rank};
use crate::engine::clock::Micros;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::format::{FORMAT, Keys};
use crate::engine::members::{Heartbeat, LogHead, Members};
use crate::engine::stats::{Operation, Stats};
use crate::engine::{
    Config, FILE_KEPT_ONCE, GivenSlot, HoldListener, ReservedSlots, Status, bounded_micros,
};
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::sanitize::hex;

/// A command that comes so much later than its caller waits does nothing. Nodes of a cluster may have
/// clocks that differ.
const LATE: Duration = Duration::from_secs(1);
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
    /// This proxy has signed off.
    pub has_left: AtomicBool,
    /// The lanes whose holds are pushed, and who learns of these.
    pub followed: Followed,
    pub listener: OnceLock<HoldListener>,
    has_beaten: AtomicBool,
    head: Lock<Option<LogHead>>,
    seen: Lock<Seen>,
    wall: Arc<dyn Clock>,
    start: Instant,
    round_trip: AtomicU64,
}

/// A heartbeat under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentHeartbeat {
    /// By this process's own clock.
    at: Duration,
    said_alone: bool,
}

/// What was last seen of the servers.
#[derive(Debug, Default)]
struct Seen {
    was_reached: bool,
    last_error: Option<Error>,
    server: Option<String>,
    may_evict: bool,
    has_namesake: bool,
    has_other_settings: bool,
    /// Cells that are left free.
    missing: u32,
    has_seen_removed: bool,
    offset: Option<i64>,
    away_since: Option<Instant>,
    /// The kind of error that was logged since the engine was reached.
    logged: Option<ErrorKind>,
}

impl Shared {
    /// The keys of what concerns all origins, in the order in which a heartbeat names them.
    pub(super) const CLUSTER_KEYS: [&'static str; 10] = [
        "members", "about", "epoch", "heads", "ranks", "seen", "widths", "alone", "missing",
        "hours",
    ];

    pub(super) fn new(config: Config, redis: RedisConfig, wall: Arc<dyn Clock>) -> Self {
        let start = monotonic();
        let own_rank = config.rank_before.as_ref().map_or_else(OwnRank::default, |kept| {
            let shown = (wall.wall().millis() * 1000).saturating_add_signed(kept.clock_offset);
            let reading = ClockReading::new(Duration::ZERO, Duration::ZERO, shown);
            OwnRank::kept(kept.rank, reading)
        });
        Self {
            keys: Keys::new(&redis.prefix),
            members: Lock::new(Members::new(own_rank)),
            config,
            redis: ArcSwap::from_pointee(redis),
            stats: Stats::default(),
            router: Router::default(),
            changes: watch::Sender::new(0),
            up: watch::Sender::new(false),
            heartbeat: Notify::new(),
            promises: Promises::default(),
            shared_once: SharedOnce::default(),
            has_left: AtomicBool::new(false),
            followed: Followed::default(),
            listener: OnceLock::new(),
            has_beaten: AtomicBool::new(false),
            head: Lock::default(),
            seen: Lock::new(Seen { away_since: Some(start), ..Seen::default() }),
            wall,
            start,
            round_trip: AtomicU64::new(0),
        }
    }

    /// Whether it sends heartbeats: it is a proxy, and has not signed off.
    pub(super) fn is_member(&self) -> bool {
        self.config.is_member && !self.has_left.load(Ordering::Relaxed)
    }

    /// The time of this process by its own clock, since its start; in tests that of theirs.
    pub(super) fn own_time(&self) -> Duration {
        match &self.redis.load().clock {
            Some(clock) => Duration::from_micros(clock.now()),
            None => monotonic() - self.start,
        }
    }

    /// Sends a call; the reply comes by the receiver.
    pub(super) fn send(
        &self,
        call: Call,
    ) -> Result<oneshot::Receiver<Result<Value, Error>>, Error> {
        let (reply, receiver) = oneshot::channel();
        let timeout = self.redis.load().timeout;
        let deadline = monotonic() + timeout;
        let call = match call.act {
            Act::Script(Script::Heartbeat) => call,
            _ => self.with_times(call, timeout + LATE),
        };
        self.router.send(Job { call, reply, deadline, redirects: 0, is_asking: false })?;
        Ok(receiver)
    }

    /// The last arguments of a script: until when it is wanted, and nothing; in tests, the time.
    fn with_times(&self, mut call: Call, wanted: Duration) -> Call {
        if let Act::Script(_) = call.act {
            let clock = self.redis.load().clock.clone();
            let until = match clock {
                Some(_) => None,
                None => self.members.lock().own_rank.engine_time(self.own_time() + wanted),
            };
            call.arguments.push(until.map_or_else(Vec::new, decimal));
            call.arguments.push(clock.map_or_else(Vec::new, |clock| decimal(clock.now())));
        }
        call
    }

    /// A heartbeat, and what is to be known of it when its reply comes.
    pub(super) fn heartbeat_call(&self) -> (Call, SentHeartbeat) {
        let head = *self.head.lock();
        let own = self.own_time();
        let (claim, interval) = {
            let mut members = self.members.lock();
            (members.claim(own), members.heartbeat_interval())
        };
        let number = |number: Option<u64>| number.map_or_else(Vec::new, decimal);
        let arguments = vec![
            self.config.name.clone().into_bytes(),
            decimal(FORMAT.into()),
            decimal(self.config.settings_word().into()),
            head.map_or_else(Vec::new, |head| self.head_text(head).into_bytes()),
            self.config.process.clone().into_bytes(),
            boolean(!self.has_beaten.load(Ordering::Relaxed)),
            head.map_or_else(Vec::new, |head| head.place(&self.config.name).into_bytes()),
            decimal(head.is_some_and(|head| head.contradicts).into()),
            number(claim.rank.map(|rank| rank.rank.into())),
            number(claim.rank.map(|rank| rank.highest.into())),
            number(claim.epoch),
            boolean(claim.is_alone),
        ];
        let keys = Self::CLUSTER_KEYS.into_iter().map(|name| self.keys.cluster(name));
        let keys = keys.chain([self.keys.name(&self.config.name)]).collect();
        let call = Call::script(Operation::Heartbeat, Script::Heartbeat, keys, arguments);
        // One that is carried out later would say that this proxy is there when it may start by itself.
        let call = self.with_times(call, interval);
        (call, SentHeartbeat { at: own, said_alone: claim.is_alone })
    }

    /// The command that takes this proxy from the members.
    pub(super) fn leave_call(&self) -> Call {
        let names = ["members", "about", "ranks", "seen", "widths", "alone"];
        let keys = names.into_iter().map(|name| self.keys.cluster(name));
        let keys = keys.chain([self.keys.name(&self.config.name)]).collect();
        let Config { name, process, .. } = &self.config;
        let arguments = vec![name.clone().into_bytes(), process.clone().into_bytes()];
        Call::script(Operation::Heartbeat, Script::Leave, keys, arguments)
    }

    fn head_text(&self, head: LogHead) -> String {
        let LogHead { number, hash, time, .. } = head;
        let (hash, Config { version, name, .. }) = (hex(&hash), &self.config);
        format!("{number} {hash} {} {version} {name}", time.millis())
    }

    /// Takes the reply to a heartbeat.
    pub(super) fn note_heartbeat(&self, reply: Value, sent: SentHeartbeat) -> Option<Heartbeat> {
        let mut parts = Parts::of(reply)?;
        let mut heartbeat = Heartbeat {
            members: parts.count()?,
            same_settings: parts.count()?,
            format: u8::try_from(parts.number()?).ok()?,
            now: parts.number()?,
            epoch: parts.number()?,
            has_namesake: parts.number() == Some(1),
            ..Heartbeat::default()
        };
        let below = |number: Option<u64>| {
            number
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number < RANKS_MAX)
        };
        let (rank, highest) = (below(parts.number()), below(parts.number()));
        let is_settled = parts.number() == Some(1);
        if let (Some(rank), Some(highest)) = (rank, highest) {
            heartbeat.rank = Some(Rank { rank, highest: highest.max(rank), is_settled });
        }
        heartbeat.missing = MissingRanks::parse(&parts.bytes()?);
        self.has_beaten.store(true, Ordering::Relaxed);
        self.note_namesake(heartbeat.has_namesake);
        let times = (sent.at, self.own_time());
        let is_lost = self.members.lock().note(heartbeat.clone(), times, sent.said_alone);
        if is_lost {
            self.note_loss("its data began anew");
        }
        self.note_time(heartbeat.now, Duration::ZERO);
        if self.router.is_up() {
            self.seen.lock().last_error = None;
        }
        self.note_others();
        Some(heartbeat)
    }

    /// Notes that a server has refused a heartbeat: as too late, if its clock was set.
    pub(super) fn note_heartbeat_error(&self, error: &Error) {
        if error.kind == ErrorKind::Late {
            self.members.lock().own_rank.note_late();
        }
    }

    /// Notes what was shared under a new key; for it, what was shared long before may have to go.
    pub(super) fn note_shared_once(&self, key: Vec<u8>, bytes: usize) {
        let once = decimal(bounded_micros(FILE_KEPT_ONCE) / 1000);
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

    /// Logs what has changed with the other proxies.
    fn note_others(&self) {
        let status = self.status();
        let (differ, (missing, width)) = (status.has_other_settings(), status.missing);
        let mut seen = self.seen.lock();
        let did_differ = std::mem::replace(&mut seen.has_other_settings, differ);
        let were_missing = std::mem::replace(&mut seen.missing, missing);
        drop(seen);
        if differ && !did_differ {
            let Status { members, same_settings, .. } = status;
            tracing::warn!(
                members,
                others = members - same_settings,
                "half or more of the proxies of the engine have other settings: robots, origins, pace, \
                 exemptions"
            );
        } else if did_differ && !differ {
            tracing::info!("most proxies of the engine have the settings of this one again");
        }
        if missing > 0 && missing != were_missing {
            tracing::warn!(
                missing,
                width,
                "proxies of the engine are missing: their cells are left free for ten minutes from \
                 when they were seen last"
            );
        } else if were_missing > 0 && missing == 0 {
            tracing::info!("no proxy of the engine is missing any more");
        }
    }

    /// The missing proxies whose cells a reservation at this moment leaves free.
    ///
    /// # Errors
    ///
    /// Heartbeats fail: it is not known which are missing.
    pub(super) fn view(&self) -> Result<Option<Arc<MissingRanks>>, Error> {
        if self.is_without_heartbeats() {
            Ok(None)
        } else {
            self.members.lock().view(self.own_time())
        }
    }

    /// Whether a start is allowed in a slot at this moment.
    pub(super) fn permits(&self, slot: &GivenSlot, delay: Duration) -> bool {
        self.is_without_heartbeats()
            || self.members.lock().permits(self.own_time(), slot.times(), delay)
    }

    /// A command that only reads; or a test that gives the time and sends none.
    fn is_without_heartbeats(&self) -> bool {
        !self.config.is_member
            || self.redis.load().clock.is_some() && !self.has_beaten.load(Ordering::Relaxed)
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
            members: members.last().members,
            rank: members.own_rank.rank(),
            missing: members.missing(),
            clock_error: members.own_rank.clock_error(self.own_time()),
            same_settings: members.last().same_settings,
            namesake: seen.has_namesake.then(|| self.config.name.clone()),
            epoch: members.epoch(),
            presence_interval: members.presence_interval(),
            round_trip: Duration::from_micros(self.round_trip.load(Ordering::Relaxed)),
            clock_offset: seen.offset,
            may_evict: seen.may_evict,
            is_local: false,
            server: seen.server.clone(),
        }
    }
}

// What this proxy has shared first, and no proxy has asked for since, as far as it knows: a client
// that asks for ever new origins could fill the server with it. The oldest go first.

/// Keys, and bytes of their values, that one proxy shares of what was asked for once.
const KEYS_MAX: usize = 131_072;
const BYTES_MAX: usize = 128 << 20;
/// Bytes that a server needs for a key beside its value, with the key itself.
const KEY_BYTES: usize = 200;

/// The keys in the order in which they were shared.
#[derive(Debug, Default)]
pub(super) struct SharedOnce(Lock<SeenKeys>);

#[derive(Debug, Default)]
struct SeenKeys {
    keys: VecDeque<(Vec<u8>, usize)>,
    bytes: usize,
}

impl SharedOnce {
    /// Notes that a value of so many bytes was shared under a new key. Returns the keys that are to
    /// be forgotten for it.
    pub(super) fn note(&self, key: Vec<u8>, bytes: usize) -> Vec<Vec<u8>> {
        self.0.lock().note(key, bytes, (KEYS_MAX, BYTES_MAX))
    }
}

impl SeenKeys {
    fn note(
        &mut self,
        key: Vec<u8>,
        bytes: usize,
        (keys_max, bytes_max): (usize, usize),
    ) -> Vec<Vec<u8>> {
        let bytes = bytes + key.len() + KEY_BYTES;
        self.keys.push_back((key, bytes));
        self.bytes += bytes;
        let mut over = Vec::new();
        while self.keys.len() > keys_max || self.bytes > bytes_max {
            let Some((key, bytes)) = self.keys.pop_front() else { break };
            self.bytes -= bytes;
            over.push(key);
        }
        over
    }
}

// What this proxy has reserved at the engine, and must find there again. Others may be able to write
// to the server; starts that they remove would let all proxies start at once.

/// Lanes of which this is remembered; further ones are not checked.
const LANES_MAX: usize = 65_536;
/// A script keeps a next start for a minute after it has passed: until a little before that it must
/// be found.
const KEPT: Duration = Duration::from_secs(50);
/// The clocks of this machine and of the server differ in rate by less than this part.
const RATE_PART: u32 = 5000;
/// For how long nothing is reserved at a lane whose starts were removed. Meanwhile this proxy keeps
/// its share of the pace.
const DISTRUST: Duration = Duration::from_mins(10);

/// The next starts, by key and group.
#[derive(Debug, Default)]
pub(super) struct Promises(Lock<HashMap<(Vec<u8>, String), Promise>>);

#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Nothing of the lane, and of the group, starts before.
    next: [Option<Instant>; 2],
    /// Until then the engine has them.
    until: Instant,
    /// Until then the engine is not asked.
    distrusted: Option<Instant>,
}

impl Promises {
    /// What a script is to find: the next starts of the lane and of the group, from `now` in
    /// microseconds.
    ///
    /// # Errors
    ///
    /// Starts were removed lately.
    pub(super) fn of(
        &self,
        key: &[u8],
        group: &str,
        now: Instant,
    ) -> Result<[Option<i64>; 2], Error> {
        let promises = self.0.lock();
        let Some(promise) = promises.get(&(key.to_vec(), group.to_owned())) else {
            return Ok([None; 2]);
        };
        if promise.distrusted.is_some_and(|until| now < until) {
            return Err(removed());
        }
        let from_now = |at: Instant| match at.checked_duration_since(now) {
            Some(ahead) => micros(ahead),
            None => -micros(now - at),
        };
        let next = promise.next.map(|next| next.filter(|_| now < promise.until).map(from_now));
        Ok(next)
    }

    /// Notes what was reserved by a request that was sent at `sent`, with the delays of the lane and
    /// of the group.
    pub(super) fn note(
        &self,
        of: (Vec<u8>, String),
        delays: [Duration; 2],
        slots: &ReservedSlots,
        sent: Instant,
    ) {
        let Some(slot) = slots.slots.last() else { return };
        let next = delays.map(|delay| {
            let ahead = *slot + delay;
            (!delay.is_zero()).then(|| sent + (ahead - ahead / RATE_PART))
        });
        let Some(last) = next.iter().flatten().max() else { return };
        let promise = Promise { next, until: *last + KEPT, distrusted: None };
        self.insert(of, promise, sent);
    }

    /// Notes that what was reserved is gone.
    ///
    /// # Errors
    ///
    /// Always that.
    pub(super) fn distrust(&self, key: Vec<u8>, group: &str, now: Instant) -> Error {
        let until = now + DISTRUST;
        let promise = Promise { next: [None; 2], until, distrusted: Some(until) };
        self.insert((key, group.to_owned()), promise, now);
        removed()
    }

    /// Forgets all: the engine has lost its data, or may have.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    fn insert(&self, key: (Vec<u8>, String), mut promise: Promise, now: Instant) {
        let mut promises = self.0.lock();
        if let Some(known) = promises.get(&key).filter(|_| promise.distrusted.is_none()) {
            // Replies may come in another order than the engine decided.
            promise.next = [0, 1].map(|at| promise.next[at].max(known.next[at]));
            promise.until = promise.until.max(known.until);
            promise.distrusted = known.distrusted.filter(|until| now < *until);
        }
        if promises.len() >= LANES_MAX && !promises.contains_key(&key) {
            promises.retain(|_, promise| now < promise.until);
            if promises.len() >= LANES_MAX {
                return;
            }
        }
        promises.insert(key, promise);
    }
}

fn removed() -> Error {
    ErrorKind::Removed.with("starts that this proxy had reserved are gone")
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::monotonic;

    #[test]
    fn seen_keys_over_the_limit_drop_the_oldest() {
        let mut keys = SeenKeys::default();
        let mut note = |name: &str, bytes| {
            let over = keys.note(name.as_bytes().to_vec(), bytes, (3, 2000));
            over.into_iter()
                .map(|key| String::from_utf8(key).unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (name, bytes, over) in [
            ("a", 1, ""),
            ("b", 1, ""),
            ("c", 1, ""),
            ("d", 1, "a"),
            ("e", 1500, "b c"),
            ("f", 9999, "d e f"),
        ] {
            assert_eq!(note(name, bytes), over, "{name}");
        }
        assert_eq!(keys.bytes, 0);
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_reserved_is_to_be_found_until_the_engine_forgets_it() {
        let promises = Promises::default();
        let (key, now) = (b"pace".to_vec(), monotonic());
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, None]);
        let slots = ReservedSlots { slots: vec![5 * SECOND], ..ReservedSlots::default() };
        promises.note((key.clone(), "*".to_owned()), [Duration::ZERO, 10 * SECOND], &slots, now);
        // Fifteen seconds, less what clocks differ.
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, Some(14_997_000)]);
        assert_eq!(promises.of(&key, "*", now + 20 * SECOND).unwrap(), [None, Some(-5_003_000)]);
        assert_eq!(promises.of(&key, "*", now + 65 * SECOND).unwrap(), [None, None]);
        assert_eq!(promises.of(&key, "other", now).unwrap(), [None, None]);
        promises.distrust(key.clone(), "*", now);
        assert_eq!(
            promises.of(&key, "*", now + 599 * SECOND).unwrap_err().kind,
            ErrorKind::Removed
        );
        assert_eq!(promises.of(&key, "*", now + 600 * SECOND).unwrap(), [None, None]);
        promises.distrust(key.clone(), "*", now);
        promises.forget();
        assert_eq!(promises.of(&key, "*", now).unwrap(), [None, None]);
    }
}
