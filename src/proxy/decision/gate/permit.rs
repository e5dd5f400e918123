//! What the gate grants: a [`Permit`] for one request, a [`HostPermit`] for a tunnel.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::access::Snapshot;
use crate::proxy::decision::permit_pace::PermitPace;
use crate::proxy::request::target::Target;
use crate::types::origin::Origin;

/// The right to send one request. It owns the target it was granted for, and only the gate can make
/// one: what was decided on is what is sent.
#[derive(Debug)]
pub struct Permit {
    pub(super) target: Target,
    /// Whether the origin's robots.txt is unreachable: the store then notes whether its pages are,
    /// too.
    pub(super) in_outage: bool,
    pub(super) is_waived: bool,
    pub(super) pace: PermitPace,
}

impl Permit {
    /// What may be requested.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// What applies to the time of the request.
    pub const fn pace(&self) -> &PermitPace {
        &self.pace
    }

    /// Whether it was permitted despite a denial, which is recorded.
    pub const fn is_waived(&self) -> bool {
        self.is_waived
    }
}

/// The right to a tunnel, by a decision on the host as a whole. Only the gate can make one.
#[derive(Debug)]
pub struct HostPermit {
    pub(super) origin: Origin,
    pub(super) is_waived: bool,
    pub(super) pace: PermitPace,
}

impl HostPermit {
    /// Where the tunnel may lead.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What applies to the time of the connection.
    pub const fn pace(&self) -> &PermitPace {
        &self.pace
    }

    /// Whether it was permitted despite a denial, which is recorded.
    pub const fn is_waived(&self) -> bool {
        self.is_waived
    }
}

/// What the gate grants for a request that is not denied.
#[derive(Debug)]
pub enum Grant {
    /// The request may be forwarded.
    Permit(Permit),
    /// The request is for the robots.txt itself: the response is the copy that decides.
    RobotsTxt {
        snapshot: Arc<Snapshot>,
        /// Since the copy was last confirmed.
        age: Duration,
    },
}
