//! Classifies failed requests.

use super::fetch_request::NotSent;
use crate::egress::{self, Failure};
use crate::policy::access::{Cause, NetworkFailure};

/// Whether an answer with this status says in `Retry-After` when to ask again (RFC 6585 §4, RFC
/// 9110 §15.6.4).
pub(super) const fn asks_to_wait(status: u16) -> bool {
    matches!(status, 429 | 503)
}

/// What a failed request means, after `hops` redirects; [`NotSent`] if it says nothing of the site.
pub(super) fn unsent(error: egress::Error, hops: u8) -> Result<Cause, NotSent> {
    let failure = match error.failure {
        Failure::ConnectionLimit | Failure::NoRoute | Failure::Exhausted | Failure::NoTurn => {
            return Err(NotSent(error));
        }
        Failure::AddressProhibited | Failure::HostProhibited | Failure::Loop if hops == 0 => {
            return Err(NotSent(error));
        }
        Failure::AddressProhibited | Failure::HostProhibited | Failure::Loop => {
            NetworkFailure::RedirectRefused
        }
        Failure::Parent | Failure::ParentTimeout => NetworkFailure::Parent,
        Failure::NameNotFound if hops == 0 => NetworkFailure::NameNotFound,
        // A redirect may lead to another host.
        Failure::NameNotFound | Failure::Dns => NetworkFailure::Dns,
        Failure::DnsTimeout => NetworkFailure::DnsTimeout,
        Failure::Unroutable | Failure::ConnectionRefused => NetworkFailure::Connection,
        Failure::ConnectionTimeout | Failure::ResponseTimeout => NetworkFailure::Timeout,
        // The request has no body that could be incomplete.
        Failure::ConnectionTerminated
        | Failure::RequestIncomplete
        | Failure::RequestTimeout
        | Failure::Incomplete => NetworkFailure::CutShort,
        Failure::TlsCertificate | Failure::TlsProtocol => NetworkFailure::Tls,
        Failure::Protocol | Failure::HeaderTooLarge => NetworkFailure::InvalidResponse,
    };
    let asked = error.parent.filter(|parent| parent.status.is_some_and(asks_to_wait));
    let retry_after = asked.and_then(|parent| parent.retry_after);
    Ok(Cause::Failed { failure, detail: error.detail.into(), retry_after })
}
