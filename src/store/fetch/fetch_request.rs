//! The parameters of a fetch, its progress, and the interface of the fetcher.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::egress::{self, QueueWait};
use crate::policy::access::CompletedFetch;
use crate::types::ClientKey;
use crate::types::agent::is_token;
use crate::types::origin::Origin;

/// Bytes of a robots.txt that are read: the default, and the least that RFC 9309 §2.5 permits.
pub const ROBOTS_TXT_BYTES: usize = 500 * 1024;

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

// The identity of a fetch: its `User-Agent` (RFC 9110 §10.1.5), which depends only on the judged
// product token and the settings. No byte of a client's own header is sent, so all clients with
// the same token cause the same request.

/// This program's own product token.
const PRODUCT: &str = "courtesy";

/// In bytes. A fetch for a longer token uses this program's identity alone: servers limit header
/// sizes, and a response to a long header says nothing about the file. The longest token in common
/// use has 30.
const TOKEN_BYTES_MAX: usize = 64;

/// The key of responses that hold for one agent. It excludes version and contact, so that an
/// upgrade does not change an agent's identity. Tokens are case-sensitive, since a server may
/// distinguish them. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct FetchIdentity(Arc<str>);

impl FetchIdentity {
    /// The identity for the agent with this product token, or of this program alone without one.
    pub fn of_agent(token: Option<&str>) -> Self {
        Self(match token.filter(|_| !Self::is_common(token)) {
            Some(token) => [token, " ", PRODUCT].concat().into(),
            None => PRODUCT.into(),
        })
    }

    /// Whether the identity for the agent with this product token is that of this program alone.
    pub fn is_common(token: Option<&str>) -> bool {
        token.is_none_or(|it| it.len() > TOKEN_BYTES_MAX || !is_token(it) || it == PRODUCT)
    }

    /// Whether it is the identity for the agent with this product token.
    pub fn is_of_agent(&self, token: Option<&str>) -> bool {
        match self.agent() {
            Some(agent) => token == Some(agent),
            None => *self.0 == *PRODUCT && Self::is_common(token),
        }
    }

    /// The identity that a User-Agent shows: [`Self::user_agent`] without version and contact.
    pub(in crate::store) fn of_user_agent(text: &str) -> Self {
        match text.rfind(PRODUCT) {
            Some(at) if text[at + PRODUCT.len()..].starts_with('/') => {
                Self(text[..at + PRODUCT.len()].into())
            }
            _ => Self(text.into()),
        }
    }

    /// The identity for all agents, where the operator has set a fixed User-Agent.
    pub fn fixed(text: &str) -> Self {
        Self(text.into())
    }

    /// The product token of the agent, if the identity contains it.
    pub fn agent(&self) -> Option<&str> {
        self.0.strip_suffix(PRODUCT)?.strip_suffix(' ')
    }

    /// The User-Agent as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The header value, with version and, if set, the operator's `contact`.
    pub(super) fn user_agent(&self, fixed: Option<&Self>, contact: Option<&str>) -> HeaderValue {
        let text = match self.0.strip_suffix(PRODUCT) {
            Some(agent) if fixed != Some(self) => {
                let contact = contact.map(|url| format!(" (+{url})")).unwrap_or_default();
                format!("{agent}{PRODUCT}/{}{contact}", env!("CARGO_PKG_VERSION"))
            }
            _ => self.0.to_string(),
        };
        HeaderValue::try_from(text).expect("tokens and settings are printable ASCII")
    }
}

impl From<String> for FetchIdentity {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<FetchIdentity> for String {
    fn from(identity: FetchIdentity) -> Self {
        identity.0.as_ref().into()
    }
}

impl fmt::Display for FetchIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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

    fn sent(token: Option<&str>, contact: Option<&str>) -> String {
        let field = FetchIdentity::of_agent(token).user_agent(None, contact);
        field.to_str().unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }

    #[test]
    fn the_field_is_the_token_without_version_then_courtesy_and_the_contact() {
        let url = Some("https://example.com/bot");
        for (token, contact, expected) in [
            (Some("ExampleBot"), None, "ExampleBot courtesy/VERSION"),
            (
                Some("archive.org_bot"),
                url,
                "archive.org_bot courtesy/VERSION (+https://example.com/bot)",
            ),
            (None, None, "courtesy/VERSION"),
            (None, url, "courtesy/VERSION (+https://example.com/bot)"),
            (Some("courtesy"), None, "courtesy/VERSION"),
            (Some(""), None, "courtesy/VERSION"),
            (Some("Example Bot"), None, "courtesy/VERSION"),
            (Some("B\u{f6}t"), None, "courtesy/VERSION"),
        ] {
            assert_eq!(sent(token, contact), expected, "{token:?}");
        }
    }

    #[test]
    fn a_token_that_is_too_long_is_fetched_for_as_courtesy_alone() {
        let longest = "a".repeat(TOKEN_BYTES_MAX);
        assert_eq!(FetchIdentity::of_agent(Some(&longest)).as_str(), format!("{longest} courtesy"));
        for length in [TOKEN_BYTES_MAX + 1, 9000] {
            let long = "a".repeat(length);
            assert_eq!(
                FetchIdentity::of_agent(Some(&long)),
                FetchIdentity::of_agent(None),
                "{length}"
            );
        }
    }

    #[test]
    fn a_text_that_was_set_is_sent_as_it_is() {
        for text in ["Fetcher/2 (+https://example.com)", "courtesy", "ExampleBot courtesy"] {
            let fixed = FetchIdentity::fixed(text);
            assert_eq!(fixed.user_agent(Some(&fixed), Some("https://example.com")), text);
        }
    }

    #[test]
    fn letter_case_makes_another_identity() {
        assert_ne!(
            FetchIdentity::of_agent(Some("examplebot")),
            FetchIdentity::of_agent(Some("ExampleBot"))
        );
    }
}
