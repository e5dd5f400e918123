//! A request takes its turn: at once, after a wait, or not at all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::config::PaceMode;
use super::lane::{Arrival, LaneLimit};
use super::lane_cell::{LaneCell, NotQueued, TurnGuard, send_grants};
use super::lanes::Lanes;
use super::no_turn::{NoTurn, Waited};
use super::slot::{Place, Role, TurnConditions};
use super::tick::Tick;
use super::turn::{Turn, VisitRole, VisitStart};
use super::turn_request::{RemainingWait, TurnRequest, too_long};
use super::visits::{Visit, VisitPlace};
use crate::robots::OutsideVisitTime;
use crate::runtime::box_future;
use crate::types::ClientKey;
use crate::types::origin::Origin;

/// How long is waited until the engine is asked for a place again, at random between the two.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;

/// A turn at once, or the wait for one.
#[derive(Debug)]
pub enum TryAcquire<'a> {
    Turn(Turn),
    Wait(PendingTurn<'a>),
}

/// A request that has to wait.
#[derive(Debug)]
pub struct PendingTurn<'a> {
    arrival: Arrival<'a>,
    visit: VisitRole,
    /// The first request of its visit at the origin has started, or will not: until then it waits
    /// for that, and takes no place in the queue.
    first: Option<CancellationToken>,
}

impl Lanes {
    /// Waits for a turn of the request, as long as it may wait.
    ///
    /// # Errors
    ///
    /// Why there will be none in time.
    pub async fn acquire(&self, request: &TurnRequest<'_>) -> Result<Turn, NoTurn> {
        match self.try_acquire(request) {
            TryAcquire::Turn(turn) => Ok(turn),
            TryAcquire::Wait(wait) => box_future(|| self.wait_for_turn(request, wait)).await,
        }
    }

    /// A turn of the request, if it need not wait: the common case, without a future.
    pub fn try_acquire<'a>(&self, request: &TurnRequest<'a>) -> TryAcquire<'a> {
        let now = self.now();
        let (arrival, mode, place) = self.arrival(request, now);
        let deadline = now + arrival.max_wait;
        let visit = match place {
            VisitPlace::Follows(first) if mode == PaceMode::Enforce => {
                let (visit, first) = (VisitRole::None, Some(first));
                return TryAcquire::Wait(PendingTurn { arrival, visit, first });
            }
            VisitPlace::First(visit) => VisitRole::First(Box::new(VisitStart {
                context: Arc::clone(&self.context),
                client: request.client.clone(),
                visit,
                origin: request.origin.clone(),
                has_started: false,
            })),
            _ if request.visit == Visit::Document && mode != PaceMode::Off => VisitRole::Document,
            _ => VisitRole::None,
        };
        // One that need not queue has no delay, or is only observed: the next starts do not depend
        // on it.
        let role = Role::of(arrival.kind, false);
        let is_observed = mode == PaceMode::Observe;
        let conditions =
            TurnConditions { role, deadline, is_observed, site_pace: request.site_pace };
        self.with_lane(request.origin, request.client, |cell, state| {
            let id = match mode {
                PaceMode::Enforce => match state.lane.try_acquire(&arrival, now) {
                    Some(id) => Some(id),
                    None => {
                        return TryAcquire::Wait(PendingTurn { arrival, visit, first: None });
                    }
                },
                PaceMode::Observe => {
                    let wait = state.lane.estimate(&arrival, now);
                    if !wait.is_zero() {
                        self.context.stats.note_would_wait(wait);
                    }
                    Some(state.lane.observe(&arrival, now))
                }
                PaceMode::Off => None,
            };
            let guard = cell.issue_guard(state, id, request.client.clone());
            TryAcquire::Turn(Turn::granted_immediately(request.origin, guard, conditions, visit))
        })
    }

    /// Waits for the turn of a request that has to queue.
    ///
    /// # Errors
    ///
    /// As [`Self::acquire`].
    pub async fn wait_for_turn(
        &self,
        request: &TurnRequest<'_>,
        mut wait: PendingTurn<'_>,
    ) -> Result<Turn, NoTurn> {
        let (since, deadline) = (self.now(), self.now() + wait.arrival.max_wait);
        let mut request = *request;
        let mut followed = None;
        while let Some(first) = wait.first.take() {
            let waited = self.wait_for_first(&request, &first, deadline).await;
            waited.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))?;
            let time = self.now().since(since);
            request.max_wait = Some(deadline.since(self.now()));
            let limit = request.site_pace.map_or(LaneLimit::Delay, |_| LaneLimit::SiteDelay);
            let lane_delay = self.config().delay(request.origin);
            let waited = Waited::of(limit, request.site_pace, lane_delay, time);
            match self.try_acquire(&request) {
                TryAcquire::Turn(mut turn) => {
                    turn.add_wait(waited);
                    return Ok(turn);
                }
                TryAcquire::Wait(next) => (wait, followed) = (next, Some(waited)),
            }
        }
        let mut turn = self.wait_in_queue(&request, wait, deadline).await?;
        followed.into_iter().for_each(|waited| turn.add_wait(waited));
        Ok(turn)
    }

    /// Waits until the first request of the same visit has started at the origin, or will not.
    async fn wait_for_first(
        &self,
        request: &TurnRequest<'_>,
        first: &CancellationToken,
        deadline: Tick,
    ) -> Result<(), NoTurn> {
        let Some(_waits) = self.context.count_waiting() else { return Err(NoTurn::Full) };
        let limit = request.site_pace.map_or(LaneLimit::Delay, |_| LaneLimit::SiteDelay);
        let lane_delay = self.config().delay(request.origin);
        let expected = Waited::of(limit, request.site_pace, lane_delay, Duration::ZERO);
        let _told = self.context.tell_wait(request.origin, expected);
        tokio::select! {
            biased;
            () = first.cancelled() => Ok(()),
            () = sleep_until(self.context.clock.instant(deadline)) => {
                let remaining = RemainingWait { now: self.now(), max_wait: Duration::ZERO };
                Err(too_long(request, limit, Duration::from_secs(1), None, remaining))
            }
            () = self.context.stopped_before(request.shutdown, || deadline) => Err(NoTurn::Stopping),
        }
    }

    async fn wait_in_queue(
        &self,
        request: &TurnRequest<'_>,
        wait: PendingTurn<'_>,
        deadline: Tick,
    ) -> Result<Turn, NoTurn> {
        let PendingTurn { arrival, visit, .. } = wait;
        let role = Role::of(arrival.kind, true);
        let conditions =
            TurnConditions { role, deadline, is_observed: false, site_pace: request.site_pace };
        let granted = self.wait_in(request, &arrival).await;
        let (guard, waited) =
            granted.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))?;
        let mut turn = Turn::granted(request.origin, guard, conditions, visit, Some(waited));
        if conditions.role != Role::RobotsTxt {
            let taken = self.take_place(&mut turn, request).await;
            taken.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))?;
        }
        if conditions.role == Role::PageQueued && self.context.peers.engine().is_some() {
            self.reserve_if_shared(&mut turn, request).await?;
        }
        Ok(turn)
    }

    /// Reserves a slot for the turn, where several proxies share the pace. With limits of addresses
    /// it is reserved later, just before the start: a slot reserved now would pass while the
    /// request waits for its address.
    async fn reserve_if_shared(
        &self,
        turn: &mut Turn,
        request: &TurnRequest<'_>,
    ) -> Result<(), NoTurn> {
        let reserved = if self.context.peers.refuses_while_away(self.config().away) {
            Err(NoTurn::EngineAway)
        } else if self.has_address_limits() {
            turn.reserve_later();
            Ok(())
        } else {
            let start = turn.start_expected();
            tokio::select! {
                biased;
                reserved = turn.reserve_slot() => reserved,
                () = self.context.stopped_before(request.shutdown, start) => Err(NoTurn::Stopping),
            }
        };
        reserved.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))
    }

    /// Waits for the turn of a robots.txt, for at most `max_wait`: neither a delay nor the
    /// concurrency bounds it, but a hold does.
    ///
    /// # Errors
    ///
    /// The hold lasts longer.
    pub async fn acquire_for_robots_txt(
        &self,
        origin: &Origin,
        max_wait: Duration,
    ) -> Result<Turn, NoTurn> {
        let request = TurnRequest {
            origin,
            client: &ClientKey::Proxy,
            mode: None,
            group: "",
            site_pace: None,
            outside_visit_time: None,
            visit: Visit::None,
            is_robots_txt: true,
            max_wait: Some(max_wait),
            shutdown: &CancellationToken::new(),
        };
        self.acquire(&request).await
    }

    async fn wait_in(
        &self,
        request: &TurnRequest<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<(TurnGuard, Waited), NoTurn> {
        let now = self.now();
        if let Some(OutsideVisitTime { begins_in: wait, line }) = request.outside_visit_time
            && wait > arrival.max_wait
        {
            return Err(NoTurn::OutsideVisitTime { wait, line });
        }
        let queued = self.with_lane(request.origin, request.client, |cell, state| {
            cell.queue(state, (arrival, request.site_pace), now)
        });
        let (mut waiting, granted) = queued.map_err(|not_queued| match not_queued {
            NotQueued::TooLong { wait, hold, limit } => {
                let max_wait = arrival.max_wait;
                too_long(request, limit, wait, hold, RemainingWait { now, max_wait })
            }
            NotQueued::Full => NoTurn::Full,
        })?;
        send_grants(granted);
        let (limit, lane_delay) = (waiting.limit, waiting.lane_delay);
        if let Some(guard) = waiting.try_grant() {
            // What the queue itself takes is no wait.
            return Ok((guard, Waited::of(limit, request.site_pace, lane_delay, Duration::ZERO)));
        }
        let wait = waiting.expected.since(now);
        let expected = Waited::of(limit, request.site_pace, lane_delay, wait);
        let told = self.context.tell_wait(request.origin, expected);
        let granted = waiting.wait_for_grant(request.shutdown).await?;
        drop(told);
        // Without a turn it has waited for as long as it may, or a hold has begun that is longer.
        let Some(guard) = granted else {
            let end = now + arrival.max_wait;
            return Err(self.too_late(&waiting.cell, request, arrival, end));
        };
        Ok((guard, Waited::of(limit, request.site_pace, lane_delay, self.now().since(now))))
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
        too_long(request, limit, wait, hold, RemainingWait { now, max_wait: end.since(now) })
    }

    /// Waits for a place for the turn, where there are more proxies than places. Without the engine
    /// this proxy's part applies.
    ///
    /// # Errors
    ///
    /// None is free until the request has waited for as long as it may, or the proxy stops.
    async fn take_place(&self, turn: &mut Turn, request: &TurnRequest<'_>) -> Result<(), NoTurn> {
        let Some(engine) = self.context.peers.engine() else { return Ok(()) };
        let mut told = None;
        let id = fastrand::u64(..);
        loop {
            let guard = turn.guard();
            let Some(places) = guard.places() else { return Ok(()) };
            if let Ok(true) = engine.take_place(&guard.cell.key, id, places).await {
                turn.set_place(Place::new(&turn.guard().cell.key, engine, id, places));
                return Ok(());
            }
            let (now, deadline) = (self.now(), turn.deadline());
            if now >= deadline {
                let remaining = RemainingWait { now, max_wait: Duration::ZERO };
                let limit = LaneLimit::Concurrency;
                return Err(too_long(request, limit, Duration::from_secs(1), None, remaining));
            }
            let expected = Waited::of(
                LaneLimit::Concurrency,
                request.site_pace,
                Duration::ZERO,
                Duration::ZERO,
            );
            told.get_or_insert_with(|| self.context.tell_wait(request.origin, expected));
            tokio::select! {
                () = sleep(Duration::from_millis(fastrand::u64(RETRY_MILLIS))) => {}
                () = self.context.stopped_before(request.shutdown, || deadline) => {
                    return Err(NoTurn::Stopping);
                }
            }
        }
    }
}
