//! How a fetch of a robots.txt ended, as facts (RFC 9309 §2.3.1 "access results").
//!
//! A missing robots.txt is a result, not an error: the profile decides what it means. Every
//! result has one stable word for the audit record, and one sentence for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

pub use crate::robots::Freshness;
use crate::robots::{FetchFailure, Meaning, Profile};
use crate::types::timestamp::Timestamp;

/// A fetch of robots.txt that has ended, whatever its result.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedFetch {
    pub at: Timestamp,
    /// The URL of the final response, after `hops` redirects.
    pub url: String,
    /// Redirects that were followed.
    pub hops: u8,
    /// A response, of the file or of a redirect to it, depends on the User-Agent (`Vary`, RFC 9111
    /// §4.1): it holds for this agent alone.
    pub varies: bool,
    pub result: AccessResult,
    /// Of this fetch, whatever its result.
    pub capture: Capture,
}

/// The evidence of a fetch: URLs of the requests, heads of the responses, the peer's address, the
/// time. Stored as written; not read here.
#[derive(Clone, PartialEq, Eq)]
pub struct Capture {
    /// SHA-256 of `json`, by which a record refers to it.
    pub sha256: [u8; 32],
    pub json: Bytes,
}

impl Capture {
    /// Of a fetch that was not captured.
    pub const fn none() -> Self {
        Self { sha256: [0; 32], json: Bytes::new() }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({} bytes)", self.json.len())
    }
}

/// The result of a fetch of robots.txt (RFC 9309 §2.3.1).
#[derive(Clone, Debug, PartialEq)]
pub enum AccessResult {
    /// RFC 9309 §2.3.1.1: a 2xx response, not 206, with a complete body.
    Successful { snapshot: Arc<Snapshot>, freshness: Freshness },
    /// RFC 9110 §15.4.5: the copy whose validators were sent is still current.
    NotModified { freshness: Freshness },
    /// The fetch returned no robots.txt.
    Without(Cause),
}

/// The file as received, which is the evidence. Stored once and shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Decoded. Of a file beyond the size limit, as much as the limit and one byte more, which
    /// shows whether the line before it is complete.
    pub body: Bytes,
    /// SHA-256 of `body`.
    pub sha256: [u8; 32],
    /// The file is longer than the size limit; the rest was not downloaded (RFC 9309 §2.5).
    pub cut: bool,
    /// The status of the response.
    pub status: u16,
    pub url: String,
    /// Redirects that were followed.
    pub hops: u8,
    pub fetched_at: Timestamp,
    /// Recorded, not enforced: sites serve robots.txt with every media type.
    pub content_type: Option<HeaderValue>,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
    /// Of the fetch that returned the file.
    pub capture: Capture,
}

impl CompletedFetch {
    /// Whether it failed before the origin knew which agent asks, and so concerns every agent.
    /// Whatever else an origin answers or does may be for the agent that fetched: RFC 9309
    /// §2.3.1.3 and §2.3.1.4 do not distinguish agents, but a server that refuses, throttles or
    /// delays an agent does.
    pub const fn concerns_all(&self) -> bool {
        let AccessResult::Without(cause) = &self.result else { return false };
        match cause.failure() {
            Some(NetworkFailure::Parent) => true,
            // A redirect may lead each agent elsewhere.
            Some(failure) => self.hops == 0 && failure.precedes_request(),
            None => false,
        }
    }

    /// The length of the file as downloaded.
    pub fn bytes(&self) -> usize {
        match &self.result {
            AccessResult::Successful { snapshot, .. } => snapshot.body.len(),
            AccessResult::NotModified { .. } | AccessResult::Without(_) => 0,
        }
    }
}

impl Snapshot {
    /// Whether it is no robots.txt, but a page (`text/html`, or text that begins with `<`). It is
    /// read as a file all the same, but never takes the place of one that is none.
    pub fn is_page(&self) -> bool {
        let media_type = self.content_type.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default();
        let body = self.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.body);
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
            || body.trim_ascii_start().starts_with(b"<")
    }
}

impl AccessResult {
    /// The stable word of the audit record.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Successful { snapshot, .. } if snapshot.is_page() => {
                NetworkFailure::NotRobotsTxt.word()
            }
            Self::Successful { .. } => "successful",
            Self::NotModified { .. } => "not_modified",
            Self::Without(cause) => cause.word(),
        }
    }
}

impl fmt::Display for AccessResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Successful { snapshot, .. } if snapshot.cut => {
                write!(
                    f,
                    "the server answered {} with {} bytes or more",
                    snapshot.status,
                    snapshot.body.len()
                )
            }
            Self::Successful { snapshot, .. } => {
                write!(
                    f,
                    "the server answered {} with {} bytes",
                    snapshot.status,
                    snapshot.body.len()
                )
            }
            Self::NotModified { .. } => {
                f.write_str("the server answered that the copy we have is still the file")
            }
            Self::Without(cause) => cause.fmt(f),
        }
    }
}

// Why a fetch returned no robots.txt: each cause has one stable word for the audit record, and one
// sentence for people.

/// Why there is no robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A final status that is not 2xx, or 206.
    Status {
        code: u16,
        retry_after: Option<Duration>,
    },
    TooManyRedirects {
        limit: u8,
    },
    RedirectLoop,
    RedirectWithoutLocation {
        code: u16,
    },
    Failed {
        failure: NetworkFailure,
        detail: Box<str>,
        /// After how long a parent proxy, which answered in place of the origin, may be asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<Duration>,
    },
}

/// RFC 9309 §2.3.1.4: "server or network errors". Includes an incomplete or undecodable file: to
/// use it as a shorter one would widen access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkFailure {
    /// The host's name does not exist.
    NameNotFound,
    /// The name has no address, or the resolver failed.
    Dns,
    DnsTimeout,
    Connection,
    Tls,
    Timeout,
    /// Closed or reset before the response was complete.
    CutShort,
    /// Not HTTP, ambiguous framing, or headers beyond the limit.
    InvalidResponse,
    /// A content coding that was not requested, or a body that does not decode.
    Undecodable,
    /// A redirect to a target that the proxy does not contact: another scheme, an invalid host, a
    /// prohibited address.
    RedirectRefused,
    /// A page in place of the file, of which there is a good copy.
    NotRobotsTxt,
    /// The parent proxy made no connection, or the answer may be its own: nothing is known of the
    /// origin.
    Parent,
}

impl Cause {
    /// A failure, with its explanation.
    pub fn failed(failure: NetworkFailure, detail: impl Into<Box<str>>) -> Self {
        Self::Failed { failure, detail: detail.into(), retry_after: None }
    }

    /// The stable word of the audit record.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::RedirectLoop => "redirect_loop",
            Self::RedirectWithoutLocation { .. } => "redirect_without_location",
            Self::Failed { failure, .. } => failure.word(),
        }
    }

    /// What it means under `profile`.
    pub const fn meaning(&self, profile: &Profile) -> Meaning {
        profile.meanings.of(match self {
            // No profile reads what a parent proxy does as a word of the origin.
            Self::Failed { failure: NetworkFailure::Parent, .. } => return Meaning::Unreachable,
            Self::Failed { .. } => FetchFailure::Network,
            Self::Status { code, .. } => FetchFailure::Status(*code),
            Self::TooManyRedirects { .. } => FetchFailure::TooManyRedirects,
            Self::RedirectLoop => FetchFailure::RedirectLoop,
            Self::RedirectWithoutLocation { .. } => FetchFailure::RedirectWithoutLocation,
        })
    }

    /// Whether the origin states that it has no robots.txt (RFC 9110 §15.5.5, §15.5.11).
    pub const fn says_there_is_none(&self) -> bool {
        matches!(self, Self::Status { code: 404 | 410, .. })
    }

    /// How it failed, if there was no response.
    pub const fn failure(&self) -> Option<NetworkFailure> {
        match self {
            Self::Failed { failure, .. } => Some(*failure),
            _ => None,
        }
    }

    /// The status code of the response, if there was one.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } | Self::RedirectWithoutLocation { code } => Some(*code),
            Self::TooManyRedirects { .. } | Self::RedirectLoop | Self::Failed { .. } => None,
        }
    }

    /// Whether a parent proxy failed, which says nothing of the origin.
    pub const fn is_of_parent(&self) -> bool {
        matches!(self, Self::Failed { failure: NetworkFailure::Parent, .. })
    }

    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { code, .. } => write!(f, "the server answered {}", Status(*code)),
            Self::TooManyRedirects { limit } => write!(f, "there were more than {limit} redirects"),
            Self::RedirectLoop => f.write_str("the redirects go round in a circle"),
            Self::RedirectWithoutLocation { code } => {
                write!(f, "the server answered {} without saying where to", Status(*code))
            }
            Self::Failed { failure, detail, .. } if detail.is_empty() => failure.fmt(f),
            Self::Failed { failure, detail, .. } => write!(f, "{failure}: {detail}"),
        }
    }
}

impl NetworkFailure {
    /// All variants.
    pub const ALL: [Self; 12] = [
        Self::NameNotFound,
        Self::Dns,
        Self::DnsTimeout,
        Self::Connection,
        Self::Tls,
        Self::Timeout,
        Self::CutShort,
        Self::InvalidResponse,
        Self::Undecodable,
        Self::RedirectRefused,
        Self::NotRobotsTxt,
        Self::Parent,
    ];

    /// Whether it is one of the connection, before a request tells the origin which agent asks.
    pub const fn precedes_request(self) -> bool {
        matches!(
            self,
            Self::NameNotFound | Self::Dns | Self::DnsTimeout | Self::Connection | Self::Tls
        )
    }

    /// The word for it in records.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NameNotFound => "name_not_found",
            Self::Dns => "dns_error",
            Self::DnsTimeout => "dns_timeout",
            Self::Connection => "connection_failed",
            Self::Tls => "tls_error",
            Self::Timeout => "timeout",
            Self::CutShort => "cut_short",
            Self::InvalidResponse => "invalid_response",
            Self::Undecodable => "undecodable",
            Self::RedirectRefused => "redirect_refused",
            Self::NotRobotsTxt => "not_robots_txt",
            Self::Parent => "parent_failed",
        }
    }
}

impl fmt::Display for NetworkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameNotFound => "the host's name does not exist",
            Self::Dns => "the host's name could not be resolved",
            Self::DnsTimeout => "the host's name was not resolved in time",
            Self::Connection => "no connection to the server could be made",
            Self::Tls => "no trusted TLS connection to the server could be made",
            Self::Timeout => "the file did not come in time",
            Self::CutShort => "the answer ended before it was complete",
            Self::InvalidResponse => "the answer was not valid HTTP",
            Self::Undecodable => "the file could not be decoded",
            Self::RedirectRefused => "a redirect leads where this proxy does not go",
            Self::NotRobotsTxt => "a page came in place of the file",
            Self::Parent => "the parent proxy did not get the file",
        })
    }
}

/// "503 Service Unavailable", or the bare number if no phrase is registered.
struct Status(u16);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        match StatusCode::from_u16(self.0).ok().and_then(|code| code.canonical_reason()) {
            Some(reason) => write!(f, " {reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_word_and_a_sentence() {
        let failed = |detail: &str| Cause::failed(NetworkFailure::Timeout, detail);
        for (cause, word, sentence) in [
            (
                Cause::Status { code: 503, retry_after: None },
                "status",
                "the server answered 503 Service Unavailable",
            ),
            (Cause::Status { code: 799, retry_after: None }, "status", "the server answered 799"),
            (
                Cause::TooManyRedirects { limit: 5 },
                "too_many_redirects",
                "there were more than 5 redirects",
            ),
            (Cause::RedirectLoop, "redirect_loop", "the redirects go round in a circle"),
            (
                Cause::RedirectWithoutLocation { code: 302 },
                "redirect_without_location",
                "the server answered 302 Found without saying where to",
            ),
            (failed(""), "timeout", "the file did not come in time"),
            (failed("10 s"), "timeout", "the file did not come in time: 10 s"),
        ] {
            assert_eq!((cause.word(), cause.to_string().as_str()), (word, sentence));
        }
    }
}
