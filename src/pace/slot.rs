//! A slot, and its reservation at the engine, where several proxies share the pace of an origin.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::conditions::TurnConditions;
use super::engine_holds;
use super::lane::{LaneLimit, TurnId};
use super::lane_cell::TurnGuard;
use super::no_turn::{NoTurn, WaitReason};
use super::tick::Tick;
use super::waited::Waited;
use crate::engine::{self, Engine, ErrorKind, SlotOutcome, SlotsRequest};

/// The time before the slot of a turn at which its connection is made.
pub(super) const CONNECT_LEAD: Duration = Duration::from_secs(1);
/// When to come back where the engine responds too late for any slot.
const LATE_RETRY: Duration = Duration::from_secs(1);

/// The end of a span in which a turn may start without coming too close to the starts of other
/// proxies. It begins at the `fixed_start` of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    end: Tick,
    /// How often the engine had lost its data before.
    losses: u64,
}

impl Slot {
    /// None yet: one is to be reserved before the start.
    pub(super) const TO_RESERVE: Self = Self { end: Tick::from_micros(0), losses: 0 };

    /// Whether a turn that has not started may not start any more: the slot is over, or the engine
    /// has lost its data, and may have given the time to others.
    pub(super) fn is_over(&self, now: Tick, engine: Option<&Arc<dyn Engine>>) -> bool {
        self.end <= now || engine.is_some_and(|engine| engine.stats().losses() != self.losses)
    }

    /// Whether it has been reserved.
    pub(super) fn is_reserved(&self) -> bool {
        self.end > Self::TO_RESERVE.end
    }
}

/// When a turn starts, as far as other proxies decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartRule {
    /// The turn has no delay, or there is no engine; or that is away, and its proxies do not divide
    /// the pace then (`engine.away = "alone"`).
    WithoutSlot,
    Slot(Slot),
    /// The engine is away: the turn starts by this proxy's share of the pace.
    FallbackShare,
}

/// What became of a request for a slot.
enum ReserveAttempt {
    Slot(Slot),
    EngineAway,
    /// The next slot is so far ahead.
    Beyond(Duration),
    /// The engine has responded too late: without a slot other proxies may start as well.
    TooLate,
}

impl TurnGuard {
    /// Reserves a slot at the engine for the turn, which does not start before it; without the
    /// engine it falls back to this proxy's share.
    ///
    /// # Errors
    ///
    /// There is none until `deadline`.
    pub(super) async fn reserve_at_engine(
        &self,
        id: TurnId,
        conditions: &TurnConditions,
    ) -> Result<StartRule, NoTurn> {
        let (context, deadline) = (&self.cell.context, conditions.deadline);
        let Some(engine) = context.peers.engine() else { return Ok(StartRule::WithoutSlot) };
        let mut away_since = None;
        loop {
            let Some(attempt) = self.try_reserve(engine, id, deadline).await else {
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
                ReserveAttempt::TooLate => {
                    engine.stats().note_slot(SlotOutcome::Missed);
                    if context.clock.now() >= deadline {
                        let (by, line, delay) = (WaitReason::Share, None, Duration::ZERO);
                        return Err(NoTurn::TooLong { wait: LATE_RETRY, by, line, delay });
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
    ) -> Option<ReserveAttempt> {
        let (cell, clock) = (&self.cell, &self.cell.context.clock);
        let sent = clock.now();
        let request = cell.state.lock().lane.slot_request(id, sent)?;
        let horizon = deadline.since(sent).min(engine::HORIZON_MAX);
        let slack = engine::slack(engine.status().round_trip, horizon);
        let losses = engine.stats().losses();
        let reserved = engine.reserve_slots(SlotsRequest {
            origin: &cell.key,
            group: &request.group,
            lane_delay: request.lane_delay,
            site_delay: request.site_delay,
            slack,
            horizon,
            count: 1,
            left: request.left,
        });
        let Ok(reserved) = reserved.await else { return Some(ReserveAttempt::EngineAway) };
        let received = clock.now();
        engine_holds::apply(cell, reserved.hold, received);
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
        let Some((begin, end)) = window else { return Some(ReserveAttempt::TooLate) };
        cell.state.lock().lane.fix_start_at(id, Tick::after(begin));
        Some(ReserveAttempt::Slot(Slot { end: Tick::after(end), losses }))
    }
}

#[cfg(test)]
mod tests;
