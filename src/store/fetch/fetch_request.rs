//! The parameters of a fetch, its progress, and the interface of the fetcher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue};

use super::identity::FetchIdentity;
use crate::egress::{self, QueueWait};
use crate::policy::access::CompletedFetch;
use crate::store::limits::ROBOTS_TXT_BYTES;
use crate::types::client_key::ClientKey;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Origin;

/// The interface that tests replace.
pub trait FetchRobots: Send + Sync + 'static {
    /// Fetches one robots.txt, within the fetcher's timeout.
    fn fetch(
        &self,
        ask: FetchRequest,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedFetch, NotSent>> + Send>>;

    /// The bytes of a file that are read: another proxy's shorter part of one is not enough.
    fn max_size(&self) -> usize {
        ROBOTS_TXT_BYTES
    }

    /// The identity of a fetch for the agent with this product token.
    fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        FetchIdentity::of_agent(agent)
    }

    /// Whether that identity names no agent: it is the one of the common copy.
    fn is_common(&self, agent: Option<&str>) -> bool {
        FetchIdentity::is_common(agent)
    }
}

/// The parameters of a fetch.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    pub origin: Origin,
    /// The agent that is judged. The site must see it, and its response must be the one that every
    /// client of that name would get.
    pub identity: FetchIdentity,
    /// Of the stored copy, for a conditional request.
    pub validators: Option<Validators>,
    /// Redirects that are followed.
    pub redirects_max: u8,
    /// The client that caused the fetch, in whose turn names are resolved.
    pub client: ClientKey,
    /// Of the proxies before this one, by which its request came.
    pub loop_tokens: LoopTokens,
    pub progress: Arc<Progress>,
}

/// The progress of a fetch, which decides whether it may be cancelled.
#[derive(Debug, Default)]
pub struct Progress {
    answered: AtomicBool,
    varies: AtomicBool,
    pub(super) queued: QueueWait,
}

/// RFC 9110 §8.8: identifies the representation that `url` returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Validators {
    pub url: String,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
}

/// The request was not sent: the origin's addresses are prohibited, or the proxy or its machine
/// lacked resources ([`is_ours`](egress::Failure::is_ours)). It is no result about the robots.txt,
/// so it is not stored.
#[derive(Clone, Debug)]
pub struct NotSent(pub egress::Error);

/// How a robots.txt is fetched.
#[derive(Clone, Debug)]
pub struct Config {
    /// A fixed User-Agent for all agents.
    pub fetch_as: Option<FetchIdentity>,
    /// A URL through which the site can reach the operator; printable ASCII.
    pub contact: Option<String>,
    /// For the whole redirect chain, bodies included.
    pub timeout: Duration,
    /// Bytes of the decoded file (RFC 9309 §2.5: at least 500 KiB).
    pub max_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fetch_as: None,
            contact: None,
            timeout: Duration::from_secs(10),
            max_size: ROBOTS_TXT_BYTES,
        }
    }
}

impl Progress {
    /// Whether a site has responded, at least with a redirect.
    pub fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Notes the head of a response, of the file or of a redirect to it.
    pub(super) fn note(&self, headers: &HeaderMap) {
        self.answered.store(true, Ordering::Relaxed);
        self.varies.fetch_or(varies_by_agent(headers), Ordering::Relaxed);
    }

    /// Whether a response said that it depends on the User-Agent.
    pub(super) fn varies(&self) -> bool {
        self.varies.load(Ordering::Relaxed)
    }
}

/// Whether another agent may get another response (RFC 9111 §4.1): `*` stands for every header.
fn varies_by_agent(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(VARY).into_iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    names
        .map(<[u8]>::trim_ascii)
        .any(|name| name == b"*" || name.eq_ignore_ascii_case(USER_AGENT.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_varies_by_agent_if_one_of_its_fields_says_so() {
        for (lines, expected) in [
            (&[][..], false),
            (&["User-Agent"], true),
            (&["user-agent"], true),
            (&["Accept-Encoding, USER-AGENT ,Origin"], true),
            (&["Accept-Encoding", "User-Agent"], true),
            (&["*"], true),
            (&["Accept-Encoding, *"], true),
            (&["Accept-Encoding"], false),
            (&["X-User-Agent, User-Agent-Class"], false),
            (&["Accept-Encoding;User-Agent"], false),
            (&[""], false),
        ] {
            let headers: HeaderMap =
                lines.iter().map(|line| (VARY, HeaderValue::from_static(line))).collect();
            assert_eq!(varies_by_agent(&headers), expected, "{lines:?}");
        }
    }
}
