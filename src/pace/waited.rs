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
    /// The delay between two starts, if that is the reason: as the site asks for it, where it does.
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
        let by = WaitReason::of(limit, site);
        let (line, delay) = match (by, site) {
            (WaitReason::Delay, _) => (None, lane_delay),
            (WaitReason::Exemption, Some(site)) => (None, site.delay),
            (WaitReason::CrawlDelay | WaitReason::RequestRate, Some(site)) => {
                (Some(site.line), site.asked)
            }
            _ => (None, Duration::ZERO),
        };
        Self { time, by, line, delay }
    }
}
