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

/// What a start means for the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// They are a delay apart.
    Delayed,
    Undelayed,
    Subresource,
    RobotsTxt,
}

impl Role {
    /// Of a request that `is_delayed` or need not wait.
    pub(super) const fn of(kind: Kind<'_>, is_delayed: bool) -> Self {
        match kind {
            Kind::Page { .. } if is_delayed => Self::Delayed,
            Kind::Page { .. } => Self::Undelayed,
            Kind::Subresource => Self::Subresource,
            Kind::RobotsTxt => Self::RobotsTxt,
        }
    }
}
