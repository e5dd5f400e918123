//! Why a request is not forwarded: the words and how they relate.
//!
//! - A [`Refusal`] is any response of the proxy in place of the origin's: a [`Rejection`] or a
//!   [`Denial`].
//! - A [`Rejection`] is a refusal because of the protocol, a limit or a failure. It has no record.
//!   One for a limit of the client has a [`RejectReason`].
//! - A [`Denial`] is a refusal by policy. It is refused only as a [`Recorded`] one.

use http::StatusCode;

use super::denial::Denial;
use super::recorded::Recorded;
use super::rejection::Rejection;
use crate::clients::RejectReason;
use crate::egress;

/// Why a request is not forwarded: rejected, or denied by policy.
pub enum Refusal {
    Rejection(Rejection),
    Denial(Box<Recorded<Denial>>),
}

impl Refusal {
    /// The status of its response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Rejection(rejection) => rejection.status(),
            Self::Denial(denial) => denial.status,
        }
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejection(rejection)
    }
}

impl From<RejectReason> for Refusal {
    fn from(reason: RejectReason) -> Self {
        Self::Rejection(reason.into())
    }
}

/// Why the gate grants no permit.
#[derive(Debug)]
pub enum GateError {
    Denial(Box<Recorded<Denial>>),
    /// No decision: the destination is this proxy, so its robots.txt was not requested; or a
    /// permitted request failed in egress.
    Egress(egress::Error),
    /// Records cannot be written, and nothing is served without them (`audit.on_failure`).
    Unrecorded,
}

impl From<GateError> for Refusal {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Denial(denial) => Self::Denial(denial),
            GateError::Egress(error) => Self::Rejection(Rejection::origin(&error)),
            GateError::Unrecorded => Self::Rejection(Rejection::audit_unavailable()),
        }
    }
}
