//! What several proxies share: what is known of origins, which of them fetches, when the next
//! request to an origin may start, how long it is left alone, how many proxies there are.
//!
//! [`Engine`] is the seam: each operation is one request and one response, and either fails within
//! `engine.timeout`. [`MemoryEngine`] is a shared state within one process; a `RedisEngine` is on a
//! server. Values are bytes to an engine, and times are microseconds of the engine's own clock,
//! which callers see as durations from now only: proxies need not agree on the time.
//!
//! On an [`Error`] of any kind the caller goes on with what it has, as if the engine were away;
//! [`Status::is_up`] says whether it is.

mod cells;
mod clock;
mod error;
pub mod format;
mod lane;
mod local;
mod members;
mod memory;
pub mod redis;
mod site;
mod stats;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::origin::Origin;
pub use cells::{AwayStart, MissingRanks, Rank};
use clock::micros;
pub use clock::{
    EngineClock, HORIZON_MAX, ManualEngineClock, Micros, SystemEngineClock, slack, start_window,
};
pub use error::{Breaker, Error, ErrorKind};
pub use format::{SealKey, SealKeyError};
pub use local::{
    KEPT_WAITING_BYTES_MAX, KnownOrigin, LaneAhead, LocalConfig, LocalEngine, LocalFile,
    LocalFileError, LocalHealth, shared_dir,
};
pub use members::{Heartbeat, KnownProxy, LogHead, Members, MissingReason, NamedHeads, Roster};
pub use memory::MemoryEngine;
pub use redis::{
    Address, Password, RedisConfig, RedisEngine, ServerUrl, ServerUrlError, TlsConfigError,
    tls_config,
};
pub use stats::{Counts, LookupKind, Operation, SlotOutcome, Stats};

/// One proxy's handle on the state that it shares with others.
///
/// The calls return at once; what is [`Pending`] is awaited on any runtime, or on none. Where the
/// engine is away they fail without waiting.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Looks up what is known of an origin beyond what the caller has, or else takes the lease to
    /// fetch it.
    fn lookup(&self, request: LookupRequest<'_>) -> Pending<LookupResponse>;

    /// Shares what a fetch has found, and ends its lease. To be sent after the files to which it
    /// refers.
    fn publish(&self, request: PublishRequest<'_>) -> Pending<PublishOutcome>;

    /// Makes a lease last three seconds from now; to be sent each second. Whether it is still held:
    /// if not, another proxy may fetch as well, and what this one publishes may be superseded.
    fn renew_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool>;

    /// Ends a lease without a result. Whether it was still held.
    fn release_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool>;

    /// Reserves the next slots of a lane.
    fn reserve_slots(&self, request: SlotsRequest<'_>) -> Pending<ReservedSlots>;

    /// Holds all starts at an origin. The response is the hold that applies: the one that was
    /// there, if it is longer, or if this is another failure of the same event.
    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<Hold>;

    /// Ends the back-offs in a row of an origin that responds again, unless a hold lasts. Whether
    /// there were any. Need be sent only if there were.
    fn reset_backoff(&self, origin: &Origin) -> Pending<bool>;

    /// Ends the hold of an origin and forgets the failures behind it. Whether there was one.
    fn end_hold(&self, origin: &Origin) -> Pending<bool>;

    /// Announces that this proxy sends requests to an origin; to be sent every
    /// [`Status::presence_interval`] while it does.
    fn announce_presence(&self, origin: &Origin) -> Pending<Presence>;

    /// Takes one of so many places for requests under way at an origin, or keeps it for another minute.
    /// Whether the `id`, which is of this proxy, has one.
    fn take_place(&self, _origin: &Origin, _id: u64, _places: usize) -> Pending<bool> {
        ready(Ok(true))
    }

    /// Gives a place back.
    fn leave_place(&self, _origin: &Origin, _id: u64) -> Pending<()> {
        ready(Ok(()))
    }

    /// Marks that this proxy lives. A [`RedisEngine`] sends it by itself. After [`Self::leave`] it tells
    /// the head of the log alone.
    fn heartbeat(&self) -> Pending<Heartbeat>;

    /// Takes this proxy from the members, and gives its rank back: it starts nothing more.
    fn leave(&self) -> Pending<()> {
        ready(Ok(()))
    }

    /// This proxy among the others, and its own time; `None`: there are no ranks.
    fn ranks(&self) -> Option<(&Lock<Members>, Duration)> {
        None
    }

    /// When a request to an origin with this delay may start without the engine, not before `earliest`
    /// from now. Operations have failed for so long: where heartbeats have not, they say so from then on.
    fn away_start(&self, delay: Duration, earliest: Duration, failing: Duration) -> AwayStart {
        let times = (delay, earliest, failing);
        self.ranks().map_or(AwayStart::Alone, |(all, own)| all.lock().away_start(own, times))
    }

    /// Whether a start is allowed in a slot at this moment: it is known which proxies are missing, and
    /// none of them may start close to it.
    fn permits(&self, _slot: &GivenSlot, _delay: Duration) -> bool {
        true
    }

    /// Notes a start in a cell of this proxy, without the engine; whether it is still allowed.
    fn start_alone(&self) -> bool {
        self.ranks().is_none_or(|(all, own)| all.lock().start_alone(own))
    }

    /// Whether the engine responds again, and is to be told what was started without it, by
    /// [`Self::reserve_slots`] of no slots, before [`Self::end_alone`].
    fn has_to_tell(&self) -> bool {
        self.ranks().is_some_and(|(all, own)| all.lock().has_to_tell(own))
    }

    /// Notes that the engine knows of all that had been started without it when [`Self::has_to_tell`] said
    /// so; where something was started since, it is to be told that, too.
    fn end_alone(&self) {
        if let Some((all, _)) = self.ranks() {
            all.lock().own_rank.end_alone();
        }
    }

    /// A shared file. Its content has the digest; anything else is as absent.
    fn get_file(&self, sha256: FileDigest) -> Pending<Option<Bytes>>;

    /// Shares a file. One that is longer than [`Config::file_max`] is not shared.
    fn put_file(&self, sha256: FileDigest, content: Bytes) -> Pending<()>;

    /// The heads of all audit logs that the engine has seen, by the name of the proxy: of each log
    /// the last one, and what contradicts it.
    fn heads(&self) -> Pending<NamedHeads>;

    /// The last head of an audit log in each of the last hours in which the engine has seen one, up to a week of them.
    fn hours(&self, log: LogId) -> Pending<Vec<LogHead>>;

    /// The head of this proxy's audit log, for the heartbeats to come.
    fn set_head(&self, head: LogHead);

    /// Has the holds told that other processes begin, as soon as they are seen, and those that last where
    /// this one asks for an origin. An engine that is asked for them ([`Self::announce_presence`]) tells none.
    fn on_hold(&self, _: HoldListener) {}

    /// Whether the engine can be reached, and what was last seen of it. Does not wait.
    fn status(&self) -> Status;

    /// How long a slot of a lane with this delay is to last, where slots are reserved so far ahead.
    ///
    /// While proxies are missing it ends with the cell that it begins: the next may be one of theirs.
    fn slack(&self, delay: Duration, horizon: Duration) -> Duration {
        let status = self.status();
        let slack = slack(status.round_trip, horizon);
        if status.missing.0 > 0 { slack.min(cells::gap(delay)) } else { slack }
    }

    /// The counters of this handle.
    fn stats(&self) -> &Stats;
}

/// What every kind of engine has to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of this proxy among those that share the engine; unique.
    pub name: String,
    /// Random letters of this process, so that two of one name are two; empty: there is only one.
    pub process: String,
    /// Whether it counts among the members: it sends heartbeats. A command that only reads sends
    /// none.
    pub is_member: bool,
    /// Version of this program.
    pub version: String,
    /// Digest of the settings that are to be equal in all proxies.
    pub settings: [u8; 32],
    /// The longest hold. A later one can only be damage.
    pub hold_max: Duration,
    /// The largest file that is shared, in bytes (`robots.max_size`).
    pub file_max: usize,
    /// What the process before has left of its rank.
    pub rank_before: Option<KeptRank>,
}

impl Config {
    /// The default settings for a proxy of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            process: String::new(),
            is_member: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: [0; 32],
            hold_max: Duration::from_secs(60 * 60),
            file_max: 500 * 1024,
            rank_before: None,
        }
    }

    /// By what the engine knows this process among the members.
    fn member(&self) -> String {
        member(&self.name, &self.process)
    }

    /// A place of this process.
    fn place_id(&self, id: u64) -> String {
        format!("{} {id:x}", self.member())
    }

    /// The digest of the settings, as far as members are compared by it.
    fn settings_word(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.settings;
        u32::from_be_bytes([first, second, third, fourth])
    }

    /// Refuses a file that is too large to be shared.
    fn check_file(&self, content: &[u8]) -> Result<(), Error> {
        if content.len() > self.file_max {
            return Err(ErrorKind::TooLarge.with(format!("a file of {} bytes", content.len())));
        }
        Ok(())
    }
}

/// A rank that outlives its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRank {
    /// The name that it was given to.
    pub name: String,
    pub rank: Rank,
    /// How far the engine's clock was ahead of this machine's, in microseconds.
    pub clock_offset: i64,
}

/// By what a process is known among the members.
fn member(name: &str, process: &str) -> String {
    if process.is_empty() { name.to_owned() } else { format!("{name} {process}") }
}

/// The most slots that one request reserves.
pub const SLOTS_MAX: u8 = 4;

/// Reserves the next slots of a lane.
#[derive(Clone, Copy, Debug)]
pub struct SlotsRequest<'a> {
    pub origin: &'a Origin,
    /// The group of the robots.txt that applies.
    pub group: &'a str,
    /// The delay of the lane; zero if there is none.
    pub lane_delay: Duration,
    /// The delay that the site asks of the group; zero if there is none.
    pub site_delay: Duration,
    /// How long a slot lasts: see [`slack`].
    pub slack: Duration,
    /// A slot later than that is not reserved.
    pub horizon: Duration,
    /// How many slots at most, up to [`SLOTS_MAX`]; 0: none, but nothing starts before what is left.
    pub count: u8,
    /// The delay whose cells proxies keep that do not see each other: as all of them know it, without
    /// what one adds because the site is slow.
    pub cell_delay: Duration,
    /// The longest of the delays and holds that this proxy keeps itself, from now.
    pub left: Duration,
    /// The slot that the request has missed. Where nothing was reserved behind it, that time is given
    /// again: else a machine that is busy for longer than a slot lasts loses a whole delay.
    pub missed: Option<GivenSlot>,
}

/// A slot as its engine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenSlot {
    /// When it began, in microseconds of the engine's clock.
    pub at: u64,
    /// How long it lasted.
    pub slack: Duration,
}

impl GivenSlot {
    /// When it began and ended, by the engine's clock.
    fn times(&self) -> (Micros, Micros) {
        (self.at, self.at.saturating_add(micros(self.slack)))
    }
}

/// What was reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedSlots {
    /// When each slot begins, from the moment at which the engine decided: see
    /// [`start_window`]. A slot that is not used is idle time.
    pub slots: Vec<Duration>,
    /// If fewer were reserved than requested: when the next would begin, which is beyond the
    /// horizon. Not worth another request before half of that is over.
    pub beyond: Option<Duration>,
    /// The hold of the origin. Slots begin after it.
    pub hold: Option<Hold>,
    /// The last of the slots.
    pub given: Option<GivenSlot>,
}

/// Holds all starts at an origin.
#[derive(Clone, Copy, Debug)]
pub struct HoldRequest<'a> {
    pub origin: &'a Origin,
    pub length: HoldLength,
    /// The status that clients get meanwhile.
    pub status: u16,
    pub cause: HoldCause,
}

/// How long nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldLength {
    /// As the site says. The longer of this and a hold that is there applies.
    For(Duration),
    /// A failure. While a hold lasts, it belongs to that; else the hold doubles with each failure
    /// in a row, from `first` up to `max`, and up to a tenth more: `jitter` thousandths of that.
    BackOff { first: Duration, max: Duration, jitter: u16 },
}

/// Why nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldCause {
    /// Retry-After of a 429 or 503 (RFC 9110 §10.2.3).
    RetryAfter,
    /// A quota of RateLimit is exhausted.
    RateLimit,
    /// Failures, or 429 or 503 without a time.
    BackOff,
}

impl HoldCause {
    /// The word that is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry_after",
            Self::RateLimit => "rate_limit",
            Self::BackOff => "back_off",
        }
    }

    /// The cause of a stored word; an unknown one is a back-off.
    pub fn of(word: &[u8]) -> Self {
        let causes = [Self::RetryAfter, Self::RateLimit];
        causes.into_iter().find(|cause| cause.word().as_bytes() == word).unwrap_or(Self::BackOff)
    }
}

/// A hold that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How long, from the moment at which the engine responded.
    pub left: Duration,
    /// The HTTP status that clients get meanwhile.
    pub status: u16,
    pub cause: HoldCause,
}

/// The proxies at an origin, and its hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// How many proxies send requests there, this one included if it has said so. A lane without a
    /// delay takes its part of the places: `max(1, concurrency / proxies)`.
    pub proxies: usize,
    pub hold: Option<Hold>,
}

/// A proxy whose clock differs more from the engine's, in microseconds, keeps its results to
/// itself: their dates would mislead the others.
pub const CLOCK_OFFSET_MAX_MICROS: u64 = 60_000_000;

/// What was last seen of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether requests are sent to it.
    pub is_up: bool,
    /// Whether it was ever reached by this process.
    pub was_reached: bool,
    /// Why it is not up; or, until the next heartbeat, the last error of one that is.
    pub last_error: Option<Error>,
    /// How many proxies lived at the last heartbeat; at least 1.
    pub members: usize,
    /// This proxy's rank among them.
    pub rank: Option<Rank>,
    /// The cells that are left free because their proxies are missing, and of how many.
    pub missing: (u32, u32),
    /// By how much the reading of the engine's clock may be off.
    pub clock_error: Option<Duration>,
    /// How many of those have the same shared settings.
    pub same_settings: usize,
    /// The name of this proxy, if another live process has the same.
    pub namesake: Option<String>,
    /// When the engine's data began; none before the first heartbeat.
    pub epoch: Option<Micros>,
    /// The time between two announcements that this proxy sends requests to an origin.
    pub presence_interval: Duration,
    /// The mean time between a request and its response, from which [`slack`] follows.
    pub round_trip: Duration,
    /// How far the engine's clock is ahead of this machine's, in microseconds.
    pub clock_offset: Option<i64>,
    /// The server may forget what it should keep (its `maxmemory-policy` is not `noeviction`).
    pub may_evict: bool,
    /// It is the file of this machine. A paced start asks again until its turn as long as it is up: what
    /// one operation did not do, the next one will, and no other's share could be kept instead.
    pub is_local: bool,
    /// The server's kind and version.
    pub server: Option<String>,
}

impl Status {
    /// Whether half of the proxies that live now, or more, have other shared settings than this one.
    pub const fn has_other_settings(&self) -> bool {
        self.same_settings < self.members && 2 * self.same_settings <= self.members
    }
}

/// The SHA-256 of a file.
pub type FileDigest = [u8; 32];

/// The digest of a content.
fn digest_of(content: &[u8]) -> FileDigest {
    use sha2::Digest;
    sha2::Sha256::digest(content).into()
}

/// Whether the content has the digest.
pub fn has_digest(content: &[u8], sha256: &FileDigest) -> bool {
    digest_of(content) == *sha256
}

// The fencing token of a lease: once the holder of a later lease has published, what the holder of
// an earlier one publishes is refused.

/// The number of a lease, and the version of what was published under it: microseconds of the
/// engine's clock, and more than that of any lease of the origin before. The default, 0, is that of
/// an origin of which nothing is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken(pub u64);

/// No token is so far ahead of the clock: a larger one is damage, or left by a clock that ran a day
/// fast, and would supersede all that is published.
const AHEAD_MAX: u64 = 24 * 60 * 60 * 1_000_000;

impl LeaseToken {
    /// The token, unless it is too far ahead of `now`.
    fn unless_ahead(self, now: u64) -> Option<Self> {
        (self.0 > 0 && self.0 <= now.saturating_add(AHEAD_MAX)).then_some(self)
    }
}

/// No length is longer: all sums of a few and a date stay below 2^53, where Lua counts exactly.
const LENGTH_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// A length in microseconds.
fn bounded_micros(length: Duration) -> Micros {
    micros(length.min(LENGTH_MAX))
}

/// Receives the lane, its hold, and whether this process is about to send requests there.
type TellHold = dyn Fn(&Origin, Hold, bool) + Send + Sync;

/// Is called with each hold.
pub struct HoldListener(Box<TellHold>);

impl HoldListener {
    /// A listener that calls `tell`; it must not wait.
    pub fn new(tell: impl Fn(&Origin, Hold, bool) + Send + Sync + 'static) -> Self {
        Self(Box::new(tell))
    }

    /// Tells of a hold that was seen at a lane to which this process has sent requests.
    fn tell(&self, lane: &Origin, hold: Hold) {
        (self.0)(lane, hold, false);
    }
}

impl fmt::Debug for HoldListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldListener")
    }
}

/// The result of an operation, to be awaited; it borrows nothing.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A result that is there already.
fn ready<T: Send + 'static>(result: Result<T, Error>) -> Pending<T> {
    Box::pin(future::ready(result))
}

// The lookup of an origin at the engine, the lease of the proxy that fetches, and the publication
// of what it found.

/// How long a place is kept unless it is taken again.
const PLACE: Duration = Duration::from_mins(1);

/// How long a lease lasts unless it is renewed: the delay for the others when its holder dies.
const LEASE: Duration = Duration::from_secs(3);

/// What is known of an origin is kept so long after its last change or use: half as long again as
/// the thirty days for which an outage has to be remembered (RFC 9309 §2.3.1.4).
const KEPT: Duration = Duration::from_hours(45 * 24);
/// What was asked for once is kept so long.
const KEPT_ONCE: Duration = Duration::from_hours(24);
/// A file that was shared once: it is there as long as what names it.
const FILE_KEPT_ONCE: Duration = Duration::from_hours(48);

/// What is known of an origin, with its captures, takes no more bytes; mostly it is below 8 KiB.
pub const KNOWN_BYTES_MAX: usize = 1 << 20;

/// Asks what is known of an origin.
#[derive(Clone, Copy, Debug)]
pub struct LookupRequest<'a> {
    pub origin: &'a Origin,
    /// The token of what the caller has; the default for nothing.
    pub have: LeaseToken,
    /// Whether the caller fetches if it gets the lease.
    pub may_fetch: bool,
    /// Whether the proxy sends requests to the origin, as by
    /// [`Engine::announce_presence`].
    pub is_used: bool,
}

/// What is known of the origin, and the proxies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupResponse {
    pub outcome: LookupOutcome,
    pub presence: Presence,
}

/// What is known beyond what the caller has, or which proxy fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// Another proxy has published this.
    Newer { token: LeaseToken, value: Bytes },
    /// There is nothing newer, and the caller is to fetch: [`Engine::renew_lease`] each
    /// second, then [`Engine::publish`] or [`Engine::release_lease`].
    Lease(LeaseToken),
    /// Another proxy fetches; its lease lasts so long, if it is not renewed.
    Wait(Duration),
    /// There is nothing newer, and the caller does not fetch.
    Unchanged,
}

impl LookupOutcome {
    /// As what it is counted.
    const fn kind(&self) -> LookupKind {
        match self {
            Self::Newer { .. } => LookupKind::Newer,
            Self::Lease(_) => LookupKind::Lease,
            Self::Wait(_) => LookupKind::Wait,
            Self::Unchanged => LookupKind::Unchanged,
        }
    }
}

/// Shares what a fetch has found.
#[derive(Clone, Copy, Debug)]
pub struct PublishRequest<'a> {
    pub origin: &'a Origin,
    /// The token of the lease.
    pub token: LeaseToken,
    pub value: &'a [u8],
}

/// What became of a value that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It is what is known now.
    Stored,
    /// What is known has a higher token, this one: the holder of a later lease has published.
    Superseded(LeaseToken),
}
