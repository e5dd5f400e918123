//! A request takes its turn: at once, after a wait, or not at all.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::config::{PaceMode, Subresources};
use super::hold::Hold;
use super::lane::{Arrival, Kind, LaneLimit};
use super::lane_cell::{LaneCell, TurnGuard, hand_over};
use super::lanes::Lanes;
use super::no_turn::NoTurn;
use super::terms::{Role, Terms};
use super::tick::Tick;
use super::turn::Turn;
use super::visits::Visit;
use super::waited::Waited;
use super::waiting::NotQueued;
use crate::policy::pace::AskedPace;
use crate::runtime::box_future::box_future;
use crate::types::client_key::ClientKey;
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
    pub asked: Option<AskedPace>,
    /// The time until the hours of Visit-time begin, and the line of that record.
    pub closed: Option<(Duration, u32)>,
    pub visit: Visit,
    pub is_robots_txt: bool,
    /// The longest that the request may wait, if that is less than `pace.max_wait`.
    pub max_wait: Option<Duration>,
    /// Triggered when the proxy stops.
    pub shutdown: &'a CancellationToken,
}

/// A turn at once, or the wait for one.
#[derive(Debug)]
pub enum TurnOrWait<'a> {
    Turn(Turn),
    Wait(Wait<'a>),
}

/// A request that has to wait.
#[derive(Debug)]
pub struct Wait<'a> {
    arrival: Arrival<'a>,
    /// The client whose visit begins with the start.
    visitor: Option<ClientKey>,
}

impl Lanes {
    /// Waits for a turn of the request, as long as it may wait.
    ///
    /// # Errors
    ///
    /// Why there will be none in time.
    pub async fn take(&self, request: &TurnRequest<'_>) -> Result<Turn, NoTurn> {
        match self.try_take(request)? {
            TurnOrWait::Turn(turn) => Ok(turn),
            TurnOrWait::Wait(wait) => box_future(|| self.wait(request, wait)).await,
        }
    }

    /// A turn of the request, if it need not wait: the common case, without a future.
    ///
    /// # Errors
    ///
    /// [`NoTurn::Full`]: the pace of no more origins can be remembered.
    pub fn try_take<'a>(&self, request: &TurnRequest<'a>) -> Result<TurnOrWait<'a>, NoTurn> {
        let now = self.now();
        let (arrival, mode, begins_visit) = self.arrival(request, now);
        let begins_visit = begins_visit && mode != PaceMode::Off;
        let (deadline, visitor) =
            (now + arrival.max_wait, begins_visit.then(|| request.client.clone()));
        // Without a delay the next starts do not depend on this one.
        let role = Role::of(arrival.kind, false);
        let is_observed = mode == PaceMode::Observe;
        let terms = Terms { role, deadline, is_observed, asked: request.asked };
        self.with_lane(request.origin, |cell, state| {
            let id = match mode {
                PaceMode::Enforce => match state.lane.try_take(&arrival, now) {
                    Some(id) => Some(id),
                    None => return TurnOrWait::Wait(Wait { arrival, visitor }),
                },
                PaceMode::Observe => {
                    let wait = state.lane.estimate(&arrival, now);
                    if !wait.is_zero() {
                        self.shared.stats.note_would_wait(wait);
                    }
                    Some(state.lane.observe(&arrival, now))
                }
                PaceMode::Off => None,
            };
            let guard = cell.guard(state, id, request.client.clone());
            TurnOrWait::Turn(Turn::granted_at_once(guard, terms, visitor))
        })
    }

    /// Waits for the turn of a request that could not enter.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub async fn wait(&self, request: &TurnRequest<'_>, wait: Wait<'_>) -> Result<Turn, NoTurn> {
        let Wait { arrival, visitor } = wait;
        let deadline = self.now() + arrival.max_wait;
        let role = Role::of(arrival.kind, true);
        let terms = Terms { role, deadline, is_observed: false, asked: request.asked };
        let granted = self.wait_in(request, &arrival).await;
        let (guard, waited) =
            granted.inspect_err(|no_turn| self.shared.stats.note_no_turn(no_turn))?;
        let mut turn = Turn::granted(guard, terms, visitor, Some(waited));
        if terms.role == Role::Delayed && self.shared.cluster.engine().is_some() {
            self.reserve(&mut turn, request, deadline).await?;
        }
        Ok(turn)
    }

    /// Reserves a slot for the turn, where several proxies share the pace. One that has to wait at
    /// its address reserves it then: it would miss it.
    async fn reserve(
        &self,
        turn: &mut Turn,
        request: &TurnRequest<'_>,
        deadline: Tick,
    ) -> Result<(), NoTurn> {
        let reserved = if self.shared.cluster.is_stopped(self.config().away) {
            Err(NoTurn::EngineAway)
        } else if self.has_address_limits() {
            turn.reserve_later();
            Ok(())
        } else {
            tokio::select! {
                biased;
                reserved = turn.reserve() => reserved,
                () = self.shared.stopped_before(request.shutdown, deadline) => Err(NoTurn::Stopping),
            }
        };
        reserved.inspect_err(|no_turn| self.shared.stats.note_no_turn(no_turn))
    }

    /// Waits for the turn of a robots.txt, for at most `max_wait`: no delay and no place bounds it,
    /// but a hold does.
    ///
    /// # Errors
    ///
    /// The hold lasts longer.
    pub async fn take_for_robots_txt(
        &self,
        origin: &Origin,
        max_wait: Duration,
    ) -> Result<Turn, NoTurn> {
        let request = TurnRequest {
            origin,
            client: &ClientKey::Proxy,
            mode: None,
            group: "",
            asked: None,
            closed: None,
            visit: Visit::None,
            is_robots_txt: true,
            max_wait: Some(max_wait),
            shutdown: &CancellationToken::new(),
        };
        self.take(&request).await
    }

    /// The arrival of a request, the mode that applies, and whether its start begins a visit.
    fn arrival<'a>(&self, request: &TurnRequest<'a>, now: Tick) -> (Arrival<'a>, PaceMode, bool) {
        let config = self.shared.config.load();
        let mode = request.mode.unwrap_or_else(|| config.mode(request.origin));
        let has_visits = config.subresources == Subresources::Visit;
        let is_of_visit = has_visits
            && request.visit == Visit::Subresource
            && self.shared.visits.count(request.client, now);
        if request.asked.is_some_and(|asked| asked.clamped) {
            self.shared.stats.note_clamped();
        }
        let delay = request.asked.map_or(Duration::ZERO, |asked| asked.delay);
        let opens = request.closed.map(|(wait, _)| now + wait);
        // Without a delay of their own all groups are one.
        let group = if delay.is_zero() && opens.is_none() { "" } else { request.group };
        let kind = if request.is_robots_txt {
            Kind::RobotsTxt
        } else if is_of_visit {
            Kind::Subresource
        } else {
            Kind::Page { group, delay, opens }
        };
        let max_wait = request.max_wait.unwrap_or(config.max_wait).min(config.max_wait);
        let arrival = Arrival { client: request.client, kind, max_wait };
        (arrival, mode, has_visits && request.visit == Visit::Document)
    }

    async fn wait_in(
        &self,
        request: &TurnRequest<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<(TurnGuard, Waited), NoTurn> {
        let now = self.now();
        if let Some((wait, line)) = request.closed.filter(|(wait, _)| *wait > arrival.max_wait) {
            return Err(NoTurn::Closed { wait, line });
        }
        let queued =
            self.with_lane(request.origin, |cell, state| cell.queue(state, arrival, now))?;
        let (mut waiting, granted) = queued.map_err(|not_queued| match not_queued {
            NotQueued::TooLong { wait, hold, limit } => {
                too_long(request, limit, wait, hold, (now, arrival.max_wait))
            }
            NotQueued::Full => NoTurn::Full,
        })?;
        hand_over(granted);
        let (limit, own_delay) = (waiting.limit, waiting.own_delay);
        if let Some(guard) = waiting.at_once() {
            // What the queue itself takes is no wait.
            return Ok((guard, Waited::of(limit, request.asked, own_delay, Duration::ZERO)));
        }
        // Without a turn it has waited for as long as it may, or a hold has begun that is longer.
        let Some(guard) = waiting.granted(request.shutdown).await? else {
            let end = now + arrival.max_wait;
            return Err(self.too_late(&waiting.cell, request, arrival, end));
        };
        Ok((guard, Waited::of(limit, request.asked, own_delay, self.now().since(now))))
    }

    /// Why a request that has waited has no turn; it may wait until `end`.
    fn too_late(
        &self,
        cell: &LaneCell,
        request: &TurnRequest<'_>,
        arrival: &Arrival<'_>,
        end: Tick,
    ) -> NoTurn {
        let now = self.now();
        let state = cell.state.lock();
        let wait = state.lane.estimate(arrival, now).max(Duration::from_secs(1));
        let limit = state.lane.limit(arrival, now);
        let hold = state.lane.hold_for(request.client, now);
        too_long(request, limit, wait, hold, (now, end.since(now)))
    }
}

/// At `now` the request may wait for another `max_wait`. If the hold is shorter than that, what is
/// too long is the queue.
fn too_long(
    request: &TurnRequest<'_>,
    limit: LaneLimit,
    wait: Duration,
    hold: Option<Hold>,
    (now, max_wait): (Tick, Duration),
) -> NoTurn {
    let hold = hold.filter(|hold| hold.until.since(now) > max_wait);
    if let Some(Hold { until, status, cause }) = hold {
        return NoTurn::Resting { wait: until.since(now), status, cause };
    }
    let Waited { by, line, delay, .. } =
        Waited::of(limit, request.asked, Duration::ZERO, Duration::ZERO);
    NoTurn::TooLong { wait, by, line, delay }
}
