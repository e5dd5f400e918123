//! What is known of an origin, and the lease of the one who fetches.

use std::time::Duration;

use bytes::Bytes;

use super::pace::Presence;
use super::token::Token;
use crate::types::origin::Origin;

/// How long a lease lasts unless it is renewed: the delay for the others when its holder dies.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// What is known of an origin, with its captures, takes no more bytes; mostly it is below 8 KiB.
pub const KNOWN_BYTES_MAX: usize = 1 << 20;

/// Asks what is known of an origin.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub origin: &'a Origin,
    /// The token of what the caller has; the default for nothing.
    pub have: Token,
    /// Whether the caller fetches if it gets the lease.
    pub may_fetch: bool,
    /// Whether the proxy sends requests to the origin, as by [`super::Engine::here`].
    pub is_used: bool,
}

/// What is known of the origin, and the proxies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    pub known: Known,
    pub presence: Presence,
}

/// What is known beyond what the caller has, or who finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Another proxy has landed this.
    Newer { token: Token, value: Bytes },
    /// There is nothing newer, and the caller is to fetch: [`super::Engine::renew`] each second,
    /// then [`super::Engine::land`] or [`super::Engine::release`].
    Lease(Token),
    /// Another proxy fetches; its lease lasts so long, if it is not renewed.
    Wait(Duration),
    /// There is nothing newer, and the caller does not fetch.
    Nothing,
}

/// Shares what was found.
#[derive(Clone, Copy, Debug)]
pub struct Landing<'a> {
    pub origin: &'a Origin,
    /// The token of the lease.
    pub token: Token,
    pub value: &'a [u8],
}

/// What became of a landing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// It is what is known now.
    Kept,
    /// What is known has a higher token, this one: another lease has followed, and has landed.
    Refused(Token),
}
