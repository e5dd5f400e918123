//! Why a request is not forwarded.

use http::StatusCode;

use super::denial::Denial;
use super::recorded::Recorded;
use super::rejection::Rejection;
use crate::clients::RejectReason;
use crate::egress;

/// Why a request is not forwarded: refused for an error, or denied by policy.
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
