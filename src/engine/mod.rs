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

mod breaker;
mod clock;
mod config;
mod error;
mod files;
pub mod format;
mod hold;
pub mod keys;
mod lease_token;
mod length;
mod log_head;
mod lookup;
mod members;
mod memory;
mod pending;
mod presence;
pub mod redis;
mod seal;
mod slots;
mod stats;
mod status;
#[cfg(test)]
mod tests;
mod window;

pub use breaker::Breaker;
pub use clock::{EngineClock, ManualEngineClock, Micros, SystemEngineClock};
pub use config::Config;
pub use error::{Error, ErrorKind};
pub use files::{Sha256, has_digest};
pub use hold::{Hold, HoldCause, HoldLength, HoldRequest};
pub use lease_token::LeaseToken;
pub use log_head::{LogHead, NamedHeads};
pub use lookup::{
    KNOWN_BYTES_MAX, LookupOutcome, LookupRequest, LookupResponse, PublishOutcome, PublishRequest,
};
pub use members::{Heartbeat, Members};
pub use memory::MemoryEngine;
pub use pending::Pending;
pub use presence::Presence;
pub use redis::{
    Address, Password, RedisConfig, RedisEngine, ServerUrl, ServerUrlError, TlsConfigError,
    tls_config,
};
pub use seal::{SealKey, SealKeyError};
pub use slots::{ReservedSlots, SLOTS_MAX, SlotsRequest};
pub use stats::{Counts, LookupKind, Operation, SlotOutcome, Stats};
pub use status::{CLOCK_OFFSET_MAX_MICROS, Status};
pub use window::{HORIZON_MAX, slack, start_window};

use std::fmt;

use bytes::Bytes;

use crate::types::origin::Origin;

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

    /// Marks that this proxy lives. A [`RedisEngine`] sends it by itself.
    fn heartbeat(&self) -> Pending<Heartbeat>;

    /// A shared file. Its content has the digest; anything else is as absent.
    fn get_file(&self, sha256: Sha256) -> Pending<Option<Bytes>>;

    /// Shares a file. One that is longer than [`Config::file_max`] is not shared.
    fn put_file(&self, sha256: Sha256, content: Bytes) -> Pending<()>;

    /// The heads of all audit logs that the engine has seen, by the name of the proxy: of each log
    /// the last one, and what contradicts it.
    fn heads(&self) -> Pending<NamedHeads>;

    /// The head of this proxy's audit log, for the heartbeats to come.
    fn set_head(&self, head: LogHead);

    /// Whether the engine can be reached, and what was last seen of it. Does not wait.
    fn status(&self) -> Status;

    /// The counters of this handle.
    fn stats(&self) -> &Stats;
}
