//! The request that needs a turn, and what applies to it: its group, its mode, its longest wait.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::config::PaceMode;
use super::hold::Hold;
use super::lane::{Arrival, Kind, LaneLimit};
use super::lanes::Lanes;
use super::no_turn::{NoTurn, Waited};
use super::tick::Tick;
use super::visits::{Visit, VisitPlace};
use crate::policy::pace::SitePace;
use crate::robots::OutsideVisitTime;
use crate::types::ClientKey;
use crate::types::origin::Origin;

/// The request that needs a turn, and what applies to it.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    pub origin: &'a Origin,
    pub client: &'a ClientKey,
    /// The agent's; `None`: the origin's or the default.
    pub mode: Option<PaceMode>,
    /// The group of the robots.txt that applies, and what that asks.
    pub group: &'a str,
    pub site_pace: Option<SitePace>,
    /// When the next Visit-time of the group begins, if this is not within one.
    pub outside_visit_time: Option<OutsideVisitTime>,
    pub visit: Visit<'a>,
    pub is_robots_txt: bool,
    /// The longest that the request may wait, if that is less than `pace.max_wait`.
    pub max_wait: Option<Duration>,
    /// Triggered when the proxy stops.
    pub shutdown: &'a CancellationToken,
}

impl Lanes {
    /// The arrival of a request, the mode that applies, and its place in a visit.
    pub(super) fn arrival<'a>(
        &self,
        request: &TurnRequest<'a>,
        now: Tick,
    ) -> (Arrival<'a>, PaceMode, VisitPlace) {
        let config = self.context.config.load();
        let mode = request.mode.unwrap_or_else(|| config.mode(request.origin));
        let place = match request.visit {
            Visit::Subresource(referer) if mode != PaceMode::Off => {
                self.context.visits.join(request.client, referer, request.origin, now)
            }
            _ => VisitPlace::None,
        };
        if request.site_pace.is_some_and(|site| site.is_clamped()) {
            self.context.stats.note_clamped();
        }
        let delay = request.site_pace.map_or(Duration::ZERO, |site| site.delay);
        let not_before = request.outside_visit_time.map(|outside| now + outside.begins_in);
        // Without a delay of their own all groups are one.
        let group = if delay.is_zero() && not_before.is_none() { "" } else { request.group };
        let kind = if request.is_robots_txt {
            Kind::RobotsTxt
        } else if matches!(place, VisitPlace::Open) {
            Kind::Subresource
        } else {
            Kind::Page { group, delay, not_before }
        };
        let max_wait = request.max_wait.unwrap_or(config.max_wait).min(config.max_wait);
        let arrival =
            Arrival { client: request.client, scheme: request.origin.scheme(), kind, max_wait };
        (arrival, mode, place)
    }
}

/// From `now` on the request may wait for at most `max_wait`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemainingWait {
    pub now: Tick,
    pub max_wait: Duration,
}

/// Why the request would wait for longer than it may: for the hold, or, if that is shorter, for the
/// queue.
pub(super) fn too_long(
    request: &TurnRequest<'_>,
    limit: LaneLimit,
    wait: Duration,
    hold: Option<Hold>,
    remaining: RemainingWait,
) -> NoTurn {
    let RemainingWait { now, max_wait } = remaining;
    let hold = hold.filter(|hold| hold.until.since(now) > max_wait);
    if let Some(Hold { until, status, cause }) = hold {
        return NoTurn::Held { wait: until.since(now), status, cause };
    }
    let Waited { by, line, delay, .. } =
        Waited::of(limit, request.site_pace, Duration::ZERO, Duration::ZERO);
    NoTurn::TooLong { wait, by, line, delay }
}
