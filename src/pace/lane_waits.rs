//! What waits in lanes at one moment, and why, as an operator is shown it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hold::{Cause, Hold};
use super::lane::kept::KeptHold;
use super::no_turn::WaitReason;
use super::tick::Tick;
use crate::clients::ClientWaits;

/// The lanes in which requests wait or which are held; those with most waiting requests first, then
/// those with the longest holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneWaits {
    pub lanes: Vec<LaneWait>,
    /// Lanes that are left out.
    pub other_lanes: usize,
    /// Requests that wait in those.
    pub other_waiting: usize,
}

/// A lane in which requests wait, or which is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneWait {
    /// The origin, of which both schemes are one lane; or an address, where addresses have limits.
    pub lane: String,
    #[serde(flatten)]
    pub clients: ClientWaits,
    /// Requests that have started and are not over.
    pub under_way: usize,
    /// Requests that have their turn, and wait until fewer exchanges with the origin are under way.
    pub for_exchange: usize,
    /// The request that has waited longest.
    pub longest: Option<LongestWait>,
    pub hold: Option<LaneHold>,
}

/// How long a request has waited, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongestWait {
    /// Milliseconds for which it has waited.
    pub waited_ms: u64,
    pub by: WaitReason,
    /// Milliseconds between two starts; 0: they have no delay.
    pub delay_ms: u64,
    /// The group of the robots.txt that asks for the delay, and the line.
    pub group: Option<String>,
    pub line: Option<u32>,
    /// Milliseconds until the next start; `None`: that is when a request under way ends.
    pub next_ms: Option<u64>,
}

/// Nothing starts in the lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneHold {
    /// Milliseconds until its end.
    pub left_ms: u64,
    /// What clients are answered meanwhile.
    pub status: u16,
    pub cause: Cause,
}

impl LaneWaits {
    /// Adds a lane to those of which `max` are kept.
    pub(super) fn add(&mut self, lane: LaneWait, max: usize) {
        self.lanes.push(lane);
        // So many at a time: each costs little.
        if self.lanes.len() > 2 * max + 64 {
            self.keep(max);
        }
    }

    /// Sorts the lanes, and leaves out those beyond `max`.
    pub(super) fn keep(&mut self, max: usize) {
        self.lanes.sort_by(|one, other| {
            let order = |it: &LaneWait| (it.waiting(), it.hold.as_ref().map(|hold| hold.left_ms));
            order(other).cmp(&order(one)).then_with(|| one.lane.cmp(&other.lane))
        });
        let others = self.lanes.split_off(max.min(self.lanes.len()));
        self.other_lanes += others.len();
        self.other_waiting += others.iter().map(LaneWait::waiting).sum::<usize>();
    }
}

impl LaneWait {
    /// Of a lane that is held, and in which no request waits.
    pub(super) fn held(lane: String, hold: LaneHold) -> Self {
        let (clients, hold) = (ClientWaits::default(), Some(hold));
        Self { lane, clients, under_way: 0, for_exchange: 0, longest: None, hold }
    }

    /// The requests that wait.
    pub const fn waiting(&self) -> usize {
        self.clients.waiting + self.for_exchange
    }
}

impl LaneHold {
    /// Of `hold`, from `now` on.
    pub(super) fn of(hold: Hold, now: Tick) -> Self {
        KeptHold::of(hold, now).into()
    }
}

impl From<KeptHold> for LaneHold {
    fn from(hold: KeptHold) -> Self {
        Self { left_ms: millis(hold.rest), status: hold.status, cause: hold.cause }
    }
}

pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
