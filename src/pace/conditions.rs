//! The conditions of a turn: what applies to its request.

use super::lane::Kind;
use super::tick::Tick;
use crate::policy::pace::SitePace;

/// What applies to the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnConditions {
    pub role: Role,
    /// When its longest wait ends.
    pub deadline: Tick,
    /// Its waits are only counted.
    pub is_observed: bool,
    /// What the site asks of it.
    pub site_pace: Option<SitePace>,
}

/// What the request is, and whether it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A page that had to wait for its turn: its start may delay the next ones, so its time counts.
    PageQueued,
    /// A page that had its turn at once: there is no delay.
    PageAtOnce,
    Subresource,
    RobotsTxt,
}

impl Role {
    /// Of a request that `is_queued` or had its turn at once.
    pub(super) const fn of(kind: Kind<'_>, is_queued: bool) -> Self {
        match kind {
            Kind::Page { .. } if is_queued => Self::PageQueued,
            Kind::Page { .. } => Self::PageAtOnce,
            Kind::Subresource => Self::Subresource,
            Kind::RobotsTxt => Self::RobotsTxt,
        }
    }
}
