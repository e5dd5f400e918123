//! What of a lane outlives the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Lane;
use super::group::{Group, GroupKey, GroupName};
use crate::pace::hold::{Cause, Hold};
use crate::pace::tick::Tick;

/// The times of a lane that lie ahead, from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLane {
    /// Until the next start by the lane's own delay.
    pub next: Duration,
    /// Until the next start of each group, by name.
    pub groups: Vec<(GroupName, Duration)>,
    pub hold: Option<KeptHold>,
}

/// A hold, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHold {
    pub rest: Duration,
    pub status: u16,
    pub cause: Cause,
}

impl KeptHold {
    /// Of `hold`, from `now` on.
    pub(super) const fn of(hold: Hold, now: Tick) -> Self {
        Self { rest: hold.until.since(now), status: hold.status, cause: hold.cause }
    }
}

impl KeptLane {
    /// The longest time of it.
    pub fn length(&self) -> Duration {
        let hold = self.hold.map_or(Duration::ZERO, |hold| hold.rest);
        let groups = self.groups.iter().map(|(_, next)| *next).max();
        self.next.max(hold).max(groups.unwrap_or_default())
    }

    /// So much later.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.next = self.next.saturating_sub(time);
        for (_, next) in &mut self.groups {
            *next = next.saturating_sub(time);
        }
        if let Some(hold) = &mut self.hold {
            hold.rest = hold.rest.saturating_sub(time);
        }
        self
    }
}

impl Lane {
    /// What lies ahead at `now`; `None`: nothing.
    pub fn kept(&self, now: Tick) -> Option<KeptLane> {
        let ahead = |group: &Group| match &group.key {
            GroupKey::Page(name) if group.next > now => Some((name.clone(), group.next.since(now))),
            _ => None,
        };
        let hold = self.holds.kept(now).map(|hold| KeptHold::of(hold, now));
        let kept = KeptLane {
            next: self.next.since(now),
            groups: self.groups.iter().filter_map(ahead).collect(),
            hold,
        };
        (kept != KeptLane::default()).then_some(kept)
    }

    /// Takes up at `now` what a former process kept. No delay is longer than `delay_max` from now,
    /// no hold longer than `hold_max`.
    pub fn restore(
        &mut self,
        kept: KeptLane,
        (delay_max, hold_max): (Duration, Duration),
        now: Tick,
    ) {
        self.next = self.next.max(now + kept.next.min(delay_max));
        for (name, next) in kept.groups {
            let group = self.group(GroupKey::Page(name));
            group.next = group.next.max(now + next.min(delay_max));
        }
        if let Some(KeptHold { rest, status, cause }) = kept.hold {
            self.set_hold(Hold { until: now + rest.min(hold_max), status, cause }, now);
        }
    }
}
