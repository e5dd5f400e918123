//! What a request is for (RFC 9112 §3.2): an origin, and a resource there.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use http::uri::PathAndQuery;

use crate::types::origin::Origin;

/// The path of a request for an origin as a whole, not for a resource (RFC 9112 §3.2.4).
pub(super) const WHOLE: &str = "*";

/// What the requests of a connection may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any origin: each request names its own.
    Proxy,
    /// The origin that the client has connected to by CONNECT (RFC 9110 §9.3.6).
    Within(Origin),
    /// Any host by plain HTTP, at the port of the address that the client has connected to: each
    /// request names its host, or is for that address (a transparent listener).
    At(SocketAddr),
}

/// A resource of an origin: what is decided on and, unchanged, what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    /// As the client sent it (RFC 9110 §7.7), percent-encoded where it had to be; `/` if it sent
    /// none.
    pub path: PathAndQuery,
    /// The path and query as sent, if they had to be percent-encoded; for records.
    pub received: Option<Box<str>>,
}

impl Target {
    /// An origin as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    pub(super) fn whole(origin: Origin) -> Self {
        Self { origin, path: PathAndQuery::from_static(WHOLE), received: None }
    }

    /// The path that the rules are matched with. A whole origin is matched as its root: `Disallow:
    /// /` is about everything there.
    pub fn judged_path(&self) -> &str {
        if self.path == WHOLE { "/" } else { self.path.as_str() }
    }

    /// The part of the URL after the origin.
    pub fn path_in_url(&self) -> &str {
        if self.path == WHOLE { "" } else { self.path.as_str() }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path_in_url())
    }
}
