//! Why a request is not forwarded.

use super::denial::Denial;
use super::recorded::Recorded;
use super::refusal::Refusal;
use crate::clients::RejectReason;
use crate::egress;

/// Why a request is not forwarded: refused for an error, or denied by policy.
pub enum Rejection {
    Refusal(Refusal),
    Denial(Box<Recorded<Denial>>),
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<RejectReason> for Rejection {
    fn from(reason: RejectReason) -> Self {
        Self::Refusal(reason.into())
    }
}

/// Why the gate grants no permit.
#[derive(Debug)]
pub enum GateError {
    Denial(Box<Recorded<Denial>>),
    /// No decision: the destination is this proxy, so its robots.txt was not requested; or a
    /// permitted request failed in egress.
    Failed(egress::Error),
    /// Records cannot be written, and nothing is served without them (`audit.on_failure`).
    Unrecorded,
}

impl From<GateError> for Rejection {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Denial(denial) => Self::Denial(denial),
            GateError::Failed(error) => Self::Refusal(Refusal::origin(&error)),
            GateError::Unrecorded => Self::Refusal(Refusal::audit_unavailable()),
        }
    }
}
