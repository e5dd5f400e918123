//! The lookup of an origin at the engine, the lease of the proxy that fetches, and the publication
//! of what it found.

use std::time::Duration;

use bytes::Bytes;

use super::{LeaseToken, Presence};
use crate::types::origin::Origin;

/// How long a lease lasts unless it is renewed: the delay for the others when its holder dies.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// What was asked for once is kept so long; what is asked for again, for [`super::Config::keep`].
pub(super) const KEPT_ONCE: Duration = Duration::from_hours(24);
/// A file that was shared once: it is there as long as what names it.
pub(super) const FILE_KEPT_ONCE: Duration = Duration::from_hours(48);

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
    /// [`super::Engine::announce_presence`].
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
    /// There is nothing newer, and the caller is to fetch: [`super::Engine::renew_lease`] each
    /// second, then [`super::Engine::publish`] or [`super::Engine::release_lease`].
    Lease(LeaseToken),
    /// Another proxy fetches; its lease lasts so long, if it is not renewed.
    Wait(Duration),
    /// There is nothing newer, and the caller does not fetch.
    Unchanged,
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
