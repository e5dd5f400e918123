//! The request that is decided on: its client, its agent, and the resource or host it is for.

use http::{HeaderValue, Method};

use crate::clients::Client;
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::request::target::Target;
use crate::types::origin::Origin;

/// A request, as decisions and records see it.
#[derive(Clone, Copy, Debug)]
pub struct RequestInfo<'a> {
    pub client: &'a Client,
    pub method: &'a Method,
    pub user_agent: Option<&'a HeaderValue>,
    /// Where its decision is noted, and its trace.
    pub entry: &'a AccessEntry,
}

/// An owned [`RequestInfo`], for what is decided or recorded after the response: a tunnel, an
/// upgraded connection.
#[derive(Debug)]
pub struct OwnedRequestInfo {
    client: Client,
    method: Method,
    user_agent: Option<HeaderValue>,
    entry: AccessEntry,
}

impl OwnedRequestInfo {
    /// The same, borrowed.
    pub fn borrow(&self) -> RequestInfo<'_> {
        let Self { client, method, user_agent, entry } = self;
        RequestInfo { client, method, user_agent: user_agent.as_ref(), entry }
    }
}

impl From<RequestInfo<'_>> for OwnedRequestInfo {
    fn from(info: RequestInfo<'_>) -> Self {
        Self {
            client: info.client.clone(),
            method: info.method.clone(),
            user_agent: info.user_agent.cloned(),
            // The request's own line of the access log has been written by then.
            entry: info.entry.of_same_trace(),
        }
    }
}

/// What is decided on.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    Resource(&'a Target),
    /// A host as a whole, of which no path is seen.
    Host(&'a Origin),
}

impl<'a> Subject<'a> {
    /// The origin whose robots.txt decides.
    pub const fn origin(&self) -> &'a Origin {
        match self {
            Self::Resource(target) => &target.origin,
            Self::Host(origin) => origin,
        }
    }
}
