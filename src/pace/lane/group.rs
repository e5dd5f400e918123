//! Requests that share a queue and a delay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Kind;
use crate::clients::ClientQueue;
use crate::pace::tick::Tick;
use crate::types::origin::Scheme;
use crate::types::sanitize::sha256_hex;

/// A waiting request, within its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaiterId(pub(super) u64);

/// Bytes of the name of a group that a lane remembers; a longer name is remembered by its digest.
const GROUP_NAME_BYTES_MAX: usize = 64;

/// The name of all groups that are too many to be remembered each: no line of a file can have it.
const OTHERS: &str = "\n";

/// The name of a group as a lane remembers it: itself, or the hexadecimal SHA-256 of a long one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Box<str>")]
pub struct GroupName(Box<str>);

impl GroupName {
    /// Of the group of this name.
    pub fn of(name: &str) -> Self {
        if name.len() <= GROUP_NAME_BYTES_MAX {
            Self(name.into())
        } else {
            Self(sha256_hex(name.as_bytes()).into())
        }
    }

    /// Whether it is that of the group of this name.
    fn is_of(&self, name: &str) -> bool {
        &*self.0 == name || name.len() > GROUP_NAME_BYTES_MAX && *self == Self::of(name)
    }

    /// The memory that it takes beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.len()
    }
}

impl From<Box<str>> for GroupName {
    /// A name that an earlier version wrote may be long.
    fn from(name: Box<str>) -> Self {
        Self::of(&name)
    }
}

impl std::ops::Deref for GroupName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What the requests of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupKey {
    /// The group of a robots.txt, by name.
    Page(GroupName),
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
    pub queue: ClientQueue<WaiterId>,
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
            Kind::Page { group, .. } => Self::Page(GroupName::of(group)),
            Kind::Subresource => Self::Subresource,
            Kind::RobotsTxt => Self::RobotsTxt,
        }
    }

    /// What its requests are, of which the site asks `delay`.
    pub(super) fn kind(&self, delay: Duration) -> Kind<'_> {
        match self {
            Self::Page(group) => Kind::Page { group, delay, not_before: None },
            Self::Subresource => Kind::Subresource,
            Self::RobotsTxt => Kind::RobotsTxt,
        }
    }

    /// The name of the group of a robots.txt.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Page(name) => Some(name),
            Self::Subresource | Self::RobotsTxt => None,
        }
    }

    /// That of all groups of a robots.txt that are too many to be remembered each.
    pub(super) fn of_others() -> Self {
        Self::Page(GroupName(OTHERS.into()))
    }

    pub(super) fn is_of(&self, kind: Kind<'_>) -> bool {
        match (self, kind) {
            (Self::Page(name), Kind::Page { group, .. }) => name.is_of(group),
            (Self::Subresource, Kind::Subresource) | (Self::RobotsTxt, Kind::RobotsTxt) => true,
            _ => false,
        }
    }

    /// The memory that it takes beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Page(name) => name.heap_bytes(),
            Self::Subresource | Self::RobotsTxt => 0,
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

    /// Whether starts of it are a delay apart, by the lane's own or by its.
    pub(super) fn is_delayed(&self, own: Duration) -> bool {
        !own.is_zero() || !self.delay().is_zero()
    }

    /// Sets the delay that the robots.txt of `scheme` asks of it; of several groups that are
    /// remembered as one, the longest.
    pub(super) fn ask(&mut self, scheme: Scheme, delay: Duration) {
        let is_of_others = matches!(&self.key, GroupKey::Page(name) if &**name == OTHERS);
        let least = if is_of_others { self.delay() } else { Duration::ZERO };
        self.asked.set(scheme, delay.max(least));
    }

    pub(super) fn new(key: GroupKey) -> Self {
        Self {
            key,
            asked: AskedDelay::default(),
            next: Tick::default(),
            granted: Tick::default(),
            queue: ClientQueue::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_remembered_by_its_digest() {
        let long = "a".repeat(60_000);
        for (name, len) in [("", 0), ("*", 1), (&long[..64], 64), (&long[..65], 64), (&long, 64)] {
            let group = GroupName::of(name);
            assert_eq!(group.len(), len);
            assert!(group.is_of(name), "{len}");
            assert!(!group.is_of(&format!("{name}b")), "{len}");
            // As it is written, and as an earlier version wrote it.
            for written in [serde_json::to_string(&group), serde_json::to_string(name)] {
                let read: GroupName = serde_json::from_str(&written.unwrap()).unwrap();
                assert_eq!(read, group);
            }
        }
    }
}
