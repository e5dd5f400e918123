//! Why a request goes no further, and the one way from there to an answer.

use http::Response;
use tracing::debug;

use super::body::Body;
use super::channel::Channel;
use super::form::Asked;
use super::gate::{Denial, No};
use super::refusal::Refusal;
use super::respond;
use crate::clients::RejectReason;

/// Why a request goes no further.
pub(super) enum Stop {
    Refusal(Refusal),
    Denial(Box<Denial>),
}

impl Stop {
    pub(super) fn answer(&self, asked: &Asked, channel: &Channel) -> Response<Body> {
        match self {
            Self::Refusal(refusal) => {
                debug!(client = %channel.client.address, status = refusal.status().as_u16(), "{}", refusal.detail());
                respond::refused(refusal, asked)
            }
            Self::Denial(denial) => respond::denied(denial, asked),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<RejectReason> for Stop {
    fn from(turned_away: RejectReason) -> Self {
        Self::Refusal(turned_away.into())
    }
}

impl From<No> for Stop {
    fn from(no: No) -> Self {
        match no {
            No::Denial(denial) => Self::Denial(denial),
            No::Failed(error) => Self::Refusal(Refusal::origin(&error)),
            No::Unrecorded => Self::Refusal(Refusal::audit_unavailable()),
        }
    }
}
