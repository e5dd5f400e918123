//! Why a fetch returned no robots.txt: each cause has one stable word for the audit record, and one
//! sentence for people.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

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

    pub(in crate::policy) const fn retry_after(&self) -> Option<Duration> {
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
