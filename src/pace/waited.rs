//! The wait of a request.

use std::time::Duration;

use super::lane::LaneLimit;
use super::no_turn::WaitReason;
use crate::policy::pace::SitePace;

/// How long a request waited for its turn, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub time: Duration,
    pub by: WaitReason,
    /// The line of the robots.txt, if a record of it is the reason.
    pub line: Option<u32>,
    /// The delay between two starts, if that is the reason.
    pub delay: Duration,
}

impl Waited {
    /// A wait of a request of which the site asks that; `lane_delay` is that of the lane itself.
    pub(super) fn of(
        limit: LaneLimit,
        site: Option<SitePace>,
        lane_delay: Duration,
        time: Duration,
    ) -> Self {
        let by = WaitReason::of(limit, site.map(|site| site.record));
        let is_asked = matches!(by, WaitReason::CrawlDelay | WaitReason::RequestRate);
        let site = site.filter(|_| is_asked);
        let lane_delay = if by == WaitReason::Delay { lane_delay } else { Duration::ZERO };
        Self {
            time,
            by,
            line: site.map(|site| site.line),
            delay: site.map_or(lane_delay, |site| site.delay),
        }
    }
}
