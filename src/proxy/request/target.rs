//! What a request is for (RFC 9112 §3.2): an origin, and a resource there.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use http::uri::PathAndQuery;

use crate::types::origin::Origin;

/// The path of a request for an origin as a whole, not for a resource (RFC 9112 §3.2.4).
pub(super) const WHOLE: &str = "*";

/// The origins that the requests of a connection may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any origin, which each request names: the client uses the proxy as a proxy.
    AnyOrigin,
    /// One origin: the connection is inside a CONNECT to it (RFC 9110 §9.3.6).
    Origin(Origin),
    /// Any host by plain HTTP at the port of this address, which the client has connected to by a
    /// transparent listener. Each request names its host, or is for the address.
    Address(SocketAddr),
}

/// A resource of an origin: what is decided on and, unchanged, what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    /// Path and query as the client sent them (RFC 9110 §7.7), percent-encoded where it had to be;
    /// `/` if it sent none.
    pub path: PathAndQuery,
    /// The path and query as sent, if they had to be percent-encoded; for records.
    pub path_as_received: Option<Box<str>>,
}

impl Target {
    /// An origin as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    pub(super) fn whole(origin: Origin) -> Self {
        Self { origin, path: PathAndQuery::from_static(WHOLE), path_as_received: None }
    }

    /// The path that the rules of a robots.txt are matched with. A whole origin is matched as its
    /// root: `Disallow: /` is about everything there.
    pub fn path_for_rules(&self) -> &str {
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
