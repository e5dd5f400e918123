//! A slot, and its reservation at the engine, where several proxies share the pace of an origin.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::config::Away;
use super::lane::{Kind, LaneLimit, TurnId};
use super::lane_cell::{self, TurnGuard};
use super::no_turn::{NoTurn, WaitReason, Waited};
use super::tick::Tick;
use crate::engine::{self, AwayStart, Engine, ErrorKind, GivenSlot, SlotOutcome, SlotsRequest};
use crate::policy::pace::SitePace;
use crate::types::origin::Origin;

/// The time before the slot of a turn at which its connection is made.
pub(super) const CONNECT_LEAD: Duration = Duration::from_secs(1);
/// When to come back where the engine responds too late for any slot.
const LATE_RETRY: Duration = Duration::from_secs(1);

/// The end of a span in which a turn may start without coming too close to the starts of other
/// proxies. It begins at the `fixed_start` of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    end: Tick,
    kind: SlotKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotKind {
    /// None yet: one is to be reserved before the start.
    ToReserve,
    Reserved {
        /// How often the engine had lost its data before.
        losses: u64,
        /// As its engine knows it.
        given: Option<GivenSlot>,
        /// The delay whose cells are left free where proxies are missing.
        cell_delay: Duration,
    },
    /// In a cell of this proxy, without the engine.
    Cell,
}

impl Slot {
    /// None yet: one is to be reserved before the start.
    pub(super) const TO_RESERVE: Self =
        Self { end: Tick::from_micros(0), kind: SlotKind::ToReserve };

    /// Whether a turn that has not started may not start any more: the slot is over; or the engine has
    /// lost its data, and may have given the time to others; or a proxy that may start close to it is
    /// missing, or this one may be.
    pub(super) fn is_over(&self, now: Tick, engine: Option<&Arc<dyn Engine>>) -> bool {
        let is_taken = |engine: &Arc<dyn Engine>| match &self.kind {
            SlotKind::ToReserve | SlotKind::Cell => false,
            SlotKind::Reserved { losses, given, cell_delay } => {
                engine.stats().losses() != *losses
                    || given.is_some_and(|given| !engine.permits(&given, *cell_delay))
            }
        };
        self.end <= now || engine.is_some_and(is_taken)
    }

    /// Notes that the turn starts now; whether it may. In a cell it may not once the engine responds.
    pub(super) fn try_start(&self, engine: Option<&Arc<dyn Engine>>) -> bool {
        self.kind != SlotKind::Cell || engine.is_some_and(|engine| engine.start_alone())
    }

    /// Whether the engine has given it.
    pub(super) const fn is_reserved(&self) -> bool {
        matches!(self.kind, SlotKind::Reserved { .. })
    }

    /// Whether it is a cell of this proxy.
    pub(super) fn is_cell(&self) -> bool {
        self.kind == SlotKind::Cell
    }

    const fn given(&self) -> Option<GivenSlot> {
        match self.kind {
            SlotKind::Reserved { given, .. } => given,
            SlotKind::ToReserve | SlotKind::Cell => None,
        }
    }
}

/// When a turn starts, as far as other proxies decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartRule {
    /// The turn has no delay, or there is no engine; or that is away, and its proxies do not divide
    /// the pace then (`engine.away = "alone"`).
    WithoutSlot,
    Slot(Slot),
}

/// What became of a request for a slot.
enum ReserveAttempt {
    Slot(Slot),
    EngineAway,
    /// The next slot is so far ahead.
    Beyond(Duration),
    /// The engine has responded too late: without a slot other proxies may start as well.
    TooLate(Option<GivenSlot>),
}

impl TurnGuard {
    /// Reserves a slot at the engine for the turn, which does not start before it, in the place of
    /// one that it has `missed`; without the engine it is a cell of this proxy.
    ///
    /// # Errors
    ///
    /// There is none until `deadline`.
    pub(super) async fn reserve_at_engine(
        &self,
        id: TurnId,
        conditions: &TurnConditions,
        missed: Option<Slot>,
    ) -> Result<StartRule, NoTurn> {
        let mut missed = missed.and_then(|slot| slot.given());
        let (context, deadline) = (&self.cell.context, conditions.deadline);
        let Some(engine) = context.peers.engine() else { return Ok(StartRule::WithoutSlot) };
        let mut away_since = None;
        loop {
            let Some(attempt) = self.try_reserve(engine, id, deadline, missed).await else {
                return Ok(StartRule::WithoutSlot);
            };
            match attempt {
                ReserveAttempt::Slot(slot) => return Ok(StartRule::Slot(slot)),
                ReserveAttempt::EngineAway => {
                    let since = *away_since.get_or_insert_with(|| context.clock.now());
                    if let Some(rule) = self.wait_or_fall_back(id, since, deadline).await? {
                        return Ok(rule);
                    }
                }
                ReserveAttempt::Beyond(wait) => {
                    self.wait_beyond_horizon(id, conditions, wait).await?;
                }
                ReserveAttempt::TooLate(given) => {
                    missed = given;
                    engine.stats().note_slot(SlotOutcome::Missed);
                    if context.clock.now() >= deadline {
                        return Err(self.no_slot_before_deadline(id, conditions, LATE_RETRY));
                    }
                }
            }
        }
    }

    /// Waits for half of the time until the next slot: another request to the engine before that
    /// would not help.
    ///
    /// # Errors
    ///
    /// That slot begins after the deadline.
    async fn wait_beyond_horizon(
        &self,
        id: TurnId,
        conditions: &TurnConditions,
        wait: Duration,
    ) -> Result<(), NoTurn> {
        let clock = &self.cell.context.clock;
        let now = clock.now();
        self.cell.state.lock().lane.fix_start_at(id, now + wait);
        if now + wait > conditions.deadline {
            return Err(self.no_slot_before_deadline(id, conditions, wait));
        }
        let expected = {
            let state = self.cell.state.lock();
            let limit = state.lane.delaying_limit(id, now).unwrap_or(LaneLimit::Delay);
            Waited::of(limit, conditions.site_pace, state.lane.lane_delay(now), wait)
        };
        let _told = self.cell.context.tell_wait(&self.cell.key, expected);
        sleep_until(clock.instant(now + wait / 2)).await;
        Ok(())
    }

    /// Why there is no slot until the deadline: the hold of the origin, or the delay that is
    /// longer.
    fn no_slot_before_deadline(
        &self,
        id: TurnId,
        conditions: &TurnConditions,
        wait: Duration,
    ) -> NoTurn {
        let now = self.cell.context.clock.now();
        let state = self.cell.state.lock();
        if let Some(hold) =
            state.lane.hold_of(id, now).filter(|hold| hold.until > conditions.deadline)
        {
            return NoTurn::Held { wait, status: hold.status, cause: hold.cause };
        }
        let limit = state.lane.delaying_limit(id, now).unwrap_or(LaneLimit::Delay);
        let Waited { by, line, delay, .. } =
            Waited::of(limit, conditions.site_pace, state.lane.lane_delay(now), Duration::ZERO);
        NoTurn::TooLong { wait, by, line, delay }
    }

    async fn try_reserve(
        &self,
        engine: &Arc<dyn Engine>,
        id: TurnId,
        deadline: Tick,
        missed: Option<GivenSlot>,
    ) -> Option<ReserveAttempt> {
        let (cell, clock) = (&self.cell, &self.cell.context.clock);
        let sent = clock.now();
        let request = cell.state.lock().lane.slot_request(id, sent)?;
        let horizon = deadline.since(sent).min(engine::HORIZON_MAX);
        let slack = engine.slack(request.lane_delay.max(request.site_delay), horizon);
        let losses = engine.stats().losses();
        let reserved = engine.reserve_slots(SlotsRequest {
            origin: &cell.key,
            group: &request.group,
            lane_delay: request.lane_delay,
            site_delay: request.site_delay,
            cell_delay: request.cell_delay,
            slack,
            horizon,
            count: 1,
            left: request.left,
            missed,
        });
        let Ok(reserved) = reserved.await else { return Some(ReserveAttempt::EngineAway) };
        let received = clock.now();
        lane_cell::apply_engine_hold(cell, reserved.hold, (sent, received));
        // No engine gives a slot later than the horizon, names a next one before that, or lets this
        // proxy start before it would by itself: what says so is not believed, and this proxy keeps
        // its share of the pace.
        let is_believed = match (reserved.slots.first(), reserved.beyond) {
            (Some(slot), _) => (request.left..=horizon).contains(slot),
            (None, beyond) => beyond.is_some_and(|beyond| beyond >= horizon),
        };
        if !is_believed {
            engine.stats().note_error(ErrorKind::Protocol);
            tracing::debug!(origin = %cell.key, "the shared engine has named an impossible slot");
            return Some(ReserveAttempt::EngineAway);
        }
        let Some(slot) = reserved.slots.first() else {
            // Slots are reserved far ahead, or a hold lasts for longer; but not for longer than the
            // furthest slot and the delay that is known here.
            let delay = request.lane_delay.max(request.site_delay);
            let held = reserved.hold.map_or(Duration::ZERO, |hold| hold.left);
            let max = (engine::HORIZON_MAX + delay).max(held).max(request.left) + slack;
            let beyond = reserved.beyond.unwrap_or(max).min(max);
            return Some(ReserveAttempt::Beyond(beyond));
        };
        let from_start = |tick: Tick| tick.since(Tick::default());
        let window = engine::start_window(from_start(sent), from_start(received), *slot, slack);
        let given = reserved.given;
        let Some((begin, end)) = window else { return Some(ReserveAttempt::TooLate(given)) };
        cell.state.lock().lane.fix_start_at(id, Tick::after(begin));
        let kind = SlotKind::Reserved { losses, given, cell_delay: request.cell_delay };
        Some(ReserveAttempt::Slot(Slot { end: Tick::after(end), kind }))
    }
}

// When a turn starts for which the engine has no slot, because it is away: in a cell of this proxy.

/// When the engine is asked again while a turn waits for its cell.
const AWAY_RETRY: Duration = Duration::from_millis(250);
/// A proxy that has no rank waits so long for the engine.
const FIRST_CONTACT_MAX: Duration = Duration::from_secs(2);

/// What a turn does without the engine.
enum WithoutEngine {
    Start(StartRule),
    /// Its start comes then, or not before then; until that the engine is asked again.
    WaitUntil(Tick),
}

impl TurnGuard {
    /// The rule by which the turn starts without the engine, which has been away since then.
    /// `None`: its start is not near; this has waited a moment, and the engine is to be asked
    /// again.
    ///
    /// # Errors
    ///
    /// As [`Self::decide_without_engine`].
    pub(super) async fn wait_or_fall_back(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<Option<StartRule>, NoTurn> {
        let start = match self.decide_without_engine(id, since, deadline)? {
            WithoutEngine::Start(rule) => return Ok(Some(rule)),
            WithoutEngine::WaitUntil(start) => start,
        };
        let clock = &self.cell.context.clock;
        let retry = clock.now() + AWAY_RETRY;
        sleep_until(clock.instant(start.min(retry))).await;
        Ok(None)
    }

    /// Decides when a turn starts for which the engine has no slot since that moment, also where a
    /// single operation has failed.
    ///
    /// # Errors
    ///
    /// The time does not come before `deadline`, or nothing starts without the engine.
    fn decide_without_engine(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<WithoutEngine, NoTurn> {
        let context = &self.cell.context;
        let Some(engine) = context.peers.engine() else {
            return Ok(WithoutEngine::Start(StartRule::WithoutSlot));
        };
        let (status, now) = (engine.status(), context.clock.now());
        let goes_on = status.is_up && now < deadline;
        if status.is_local && goes_on {
            return Ok(WithoutEngine::WaitUntil(now + AWAY_RETRY));
        }
        let mut state = self.cell.state.lock();
        let request = state.lane.slot_request(id, now);
        let (Some(request), Some(at)) = (request, state.lane.starts_unfixed(id)) else {
            return Ok(WithoutEngine::Start(StartRule::WithoutSlot));
        };
        let start = match context.config.load().away {
            Away::Stop if goes_on => return Ok(WithoutEngine::WaitUntil(now + AWAY_RETRY)),
            Away::Stop => return Err(NoTurn::EngineAway),
            Away::Alone => AwayStart::Alone,
            Away::Share => engine.away_start(request.cell_delay, at.since(now), now.since(since)),
        };
        let (at, rule) = match start {
            AwayStart::Alone => (at, Some(StartRule::WithoutSlot)),
            AwayStart::Within(begin, end) => {
                let slot = Slot { end: now + end, kind: SlotKind::Cell };
                (now + begin, Some(StartRule::Slot(slot)))
            }
            AwayStart::NotBefore(length) => (now + length, None),
            AwayStart::Never if now < deadline && now.since(since) < FIRST_CONTACT_MAX => {
                (now + AWAY_RETRY, None)
            }
            AwayStart::Never => return Err(NoTurn::EngineAway),
        };
        if let Some(rule) = rule.filter(|_| at <= now + CONNECT_LEAD) {
            state.lane.fix_start_at(id, at);
            return Ok(WithoutEngine::Start(rule));
        }
        // An engine that has failed once may respond in time for a slot.
        if at > deadline && !goes_on {
            let (wait, by) = (at.since(now), WaitReason::Share);
            return Err(NoTurn::TooLong { wait, by, line: None, delay: Duration::ZERO });
        }
        Ok(WithoutEngine::WaitUntil(at))
    }
}

// A place among the requests under way at a host where there are more proxies than those may be: each
// proxy's part would be less than one.

/// How often a place is taken again. It is given to another a minute after its proxy has gone.
const RENEWAL: Duration = Duration::from_secs(20);

/// A place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    engine: Arc<dyn Engine>,
    lane: Origin,
    id: u64,
    _renewal: AbortOnDropHandle<()>,
}

impl Place {
    pub(super) fn new(lane: &Origin, engine: &Arc<dyn Engine>, id: u64, places: usize) -> Self {
        let (engine, lane) = (Arc::clone(engine), lane.clone());
        let (renewing, of) = (Arc::clone(&engine), lane.clone());
        let renew = async move {
            loop {
                sleep(RENEWAL).await;
                // While the engine is away, the places that it knows last for a while.
                let _ = renewing.take_place(&of, id, places).await;
            }
        };
        let renewal = AbortOnDropHandle::new(tokio::spawn(renew));
        Self { engine, lane, id, _renewal: renewal }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Sent here: nothing need wait for it.
        drop(self.engine.leave_place(&self.lane, self.id));
    }
}

impl TurnGuard {
    /// How many places there are for all proxies, if these are fewer than the proxies.
    pub(super) fn places(&self) -> Option<usize> {
        let (id, state) = (self.id?, self.cell.state.lock());
        // Without the engine, what has a delay waits for the cells of this proxy instead.
        let has_cells = || {
            let now = self.cell.context.clock.now();
            state.lane.share().rank.is_some() && state.lane.slot_request(id, now).is_some()
        };
        state.lane.places_of_all().filter(|_| !has_cells())
    }
}

// The conditions of a turn: what applies to its request.

/// What applies to the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnConditions {
    pub role: Role,
    /// When its longest wait ends.
    pub deadline: Tick,
    /// Its waits are only counted.
    pub is_observed: bool,
    /// What the site asks of it.
    pub site_pace: Option<SitePace>,
}

/// What the request is, and whether it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A page that had to wait for its turn: its start may delay the next ones, so its time counts.
    PageQueued,
    /// A page that had its turn at once: there is no delay.
    PageAtOnce,
    Subresource,
    RobotsTxt,
}

impl Role {
    /// Of a request that `is_queued` or had its turn at once.
    pub(super) const fn of(kind: Kind<'_>, is_queued: bool) -> Self {
        match kind {
            Kind::Page { .. } if is_queued => Self::PageQueued,
            Kind::Page { .. } => Self::PageAtOnce,
            Kind::Subresource => Self::Subresource,
            Kind::RobotsTxt => Self::RobotsTxt,
        }
    }
}
