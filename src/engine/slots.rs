//! Slots of a lane, in which the proxies that share an engine start requests alternately.

use std::time::Duration;

use super::hold::Hold;
use crate::types::origin::Origin;

/// The most slots that one request reserves.
pub const SLOTS_MAX: u8 = 4;

/// Reserves the next slots of a lane.
#[derive(Clone, Copy, Debug)]
pub struct SlotsRequest<'a> {
    pub origin: &'a Origin,
    /// The group of the robots.txt that applies.
    pub group: &'a str,
    /// The delay of the lane; zero if there is none.
    pub lane_delay: Duration,
    /// The delay that the site asks of the group; zero if there is none.
    pub site_delay: Duration,
    /// How long a slot lasts: see [`super::slack`].
    pub slack: Duration,
    /// A slot later than that is not reserved.
    pub horizon: Duration,
    /// How many slots at most, up to [`SLOTS_MAX`].
    pub count: u8,
    /// The longest of the delays and holds that this proxy keeps itself, from now.
    pub left: Duration,
}

/// What was reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedSlots {
    /// When each slot begins, from the moment at which the engine decided: see
    /// [`super::start_window`]. A slot that is not used is idle time.
    pub slots: Vec<Duration>,
    /// If fewer were reserved than requested: when the next would begin, which is beyond the
    /// horizon. Not worth another request before half of that is over.
    pub beyond: Option<Duration>,
    /// The hold of the origin. Slots begin after it.
    pub hold: Option<Hold>,
}
