//! How a fetch of a robots.txt ended, as facts (RFC 9309 §2.3.1 "access results").
//!
//! A missing robots.txt is a result, not an error: the profile decides what it means. Every
//! result has one stable word for the audit record, and one sentence for people.

mod cause;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::types::timestamp::Timestamp;
pub use cause::{Cause, NetworkFailure};

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

/// The freshness of a response (RFC 9309 §2.4, RFC 9111 §5.2 and §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// `max-age` of Cache-Control.
    pub max_age: Option<Duration>,
    /// `Expires`, relative to the response's own `Date`.
    pub expires_in: Option<Duration>,
    /// `no-store` or `no-cache`: revalidate as soon as the profile's minimum permits.
    pub no_cache: bool,
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
