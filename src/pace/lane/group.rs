//! Requests that share a queue and a delay.

use std::time::Duration;

use super::kind::Kind;
use crate::pace::queue::Queue;
use crate::pace::tick::Tick;
use crate::types::origin::Scheme;

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
    pub asked: AskedDelay,
    /// The next start by that delay.
    pub next: Tick,
    /// When it last had a turn: of several groups that are ready, the one with the earliest goes
    /// first.
    pub granted: Tick,
    pub queue: Queue,
}

/// The delay that the site asks of a group, by the robots.txt of each scheme: a lane is that of
/// both, and the longer one is kept. In milliseconds, rounded up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AskedDelay([u32; 2]);

impl AskedDelay {
    pub(super) fn set(&mut self, scheme: Scheme, delay: Duration) {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        self.0[usize::from(scheme == Scheme::Https)] = u32::try_from(millis).unwrap_or(u32::MAX);
    }

    pub(super) fn longest(self) -> Duration {
        Duration::from_millis(self.0[0].max(self.0[1]).into())
    }
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
    /// The delay that the site asks of it.
    pub(super) fn delay(&self) -> Duration {
        self.asked.longest()
    }

    pub(super) fn new(key: GroupKey) -> Self {
        Self {
            key,
            asked: AskedDelay::default(),
            next: Tick::default(),
            granted: Tick::default(),
            queue: Queue::default(),
        }
    }
}
