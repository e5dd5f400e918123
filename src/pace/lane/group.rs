//! Requests that share a queue and a delay.

use std::time::Duration;

use super::kind::Kind;
use crate::pace::queue::Queue;
use crate::pace::tick::Tick;

/// What the requests of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupKey {
    /// The group of a robots.txt, by name.
    Page(Box<str>),
    Subresource,
    RobotsTxt,
}

#[derive(Debug)]
pub(super) struct Group {
    pub key: GroupKey,
    /// The delay that the site asks of it.
    pub delay: Duration,
    /// The next start by that delay.
    pub next: Tick,
    /// When it last had a turn: of several groups that are ready, the one with the earliest goes
    /// first.
    pub granted: Tick,
    pub queue: Queue,
}

impl GroupKey {
    pub(super) fn of(kind: Kind<'_>) -> Self {
        match kind {
            Kind::Page { group, .. } => Self::Page(group.into()),
            Kind::Subresource => Self::Subresource,
            Kind::RobotsTxt => Self::RobotsTxt,
        }
    }

    pub(super) fn is_of(&self, kind: Kind<'_>) -> bool {
        match (self, kind) {
            (Self::Page(name), Kind::Page { group, .. }) => &**name == group,
            (Self::Subresource, Kind::Subresource) | (Self::RobotsTxt, Kind::RobotsTxt) => true,
            _ => false,
        }
    }

    /// Whether its requests start a delay apart.
    pub(super) const fn is_page(&self) -> bool {
        matches!(self, Self::Page(_))
    }

    /// Whether its requests count as under way (`pace.concurrency`).
    pub(super) const fn counts(&self) -> bool {
        !matches!(self, Self::RobotsTxt)
    }
}

impl Group {
    pub(super) fn new(key: GroupKey) -> Self {
        Self {
            key,
            delay: Duration::ZERO,
            next: Tick::default(),
            granted: Tick::default(),
            queue: Queue::default(),
        }
    }
}
