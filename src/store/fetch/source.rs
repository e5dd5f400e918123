//! Where a response came from.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode};

use super::failure::asks_to_wait;
use crate::egress::Via;
use crate::policy::access::{Cause, NetworkFailure};
use crate::types::http_time::retry_after;
use crate::types::timestamp::Timestamp;

/// Where a response came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub peer: Option<IpAddr>,
    /// The parent proxy that it came by.
    pub via: Option<Via>,
}

impl Source {
    /// Why a response with `status` says nothing of the origin, if it does not: a parent that was
    /// asked in absolute-form refuses with the statuses of an origin. Only that a file is there, is
    /// elsewhere (3xx is not asked about here) or is missing is taken as the origin's word.
    pub fn unclear(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Cause> {
        let Via { parent, .. } = self.via.as_ref().filter(|via| via.is_forwarded)?;
        let asks = asks_to_wait(status.as_u16());
        let retry_after = asks.then(|| retry_after(headers, now)).flatten();
        let is_origins = status.is_success() || matches!(status.as_u16(), 404 | 410);
        (!is_origins).then(|| Cause::Failed {
            failure: NetworkFailure::Parent,
            detail: format!(
                "the answer is {status}, of the origin or of the parent proxy {parent} itself: in \
                 absolute-form they cannot be told apart (egress.parent_http)"
            )
            .into(),
            retry_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    #[test]
    fn what_a_forwarding_parent_may_have_answered_itself_is_unclear() {
        let via = |is_forwarded| Some(Via { parent: "http://p:3128".into(), is_forwarded });
        let by = |via| Source { peer: None, via };
        for (status, is_unclear) in [
            (200, false),
            (204, false),
            (404, false),
            (410, false),
            (401, true),
            (403, true),
            (429, true),
            (451, true),
            (500, true),
            (502, true),
            (504, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let unclear = |by: Source| by.unclear(status, &HeaderMap::new(), NOW).is_some();
            assert_eq!(unclear(by(via(true))), is_unclear, "{status}");
            // A connection through a tunnel leads to the origin.
            assert!(!unclear(by(via(false))) && !unclear(by(None)));
        }
    }
}
