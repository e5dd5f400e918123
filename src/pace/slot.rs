//! The slot of a turn, where several proxies share the pace of its origin: a span in which it may
//! start, reserved at the engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::lane::TurnId;
use super::lane_cell::TurnGuard;
use super::refused::{Refused, WaitReason};
use super::shared_holds::take_up;
use super::tick::Tick;
use crate::engine::{self, Engine, SlotEnd, TurnRequest};

/// When to come back where the engine responds too late for any slot.
const LATE_RETRY: Duration = Duration::from_secs(1);

/// What became of a request for a slot.
enum Reserved {
    /// A start before this moment keeps the distance to those of other proxies.
    Until(Tick),
    /// The engine is away: this proxy keeps its part of the pace by itself.
    Away,
    /// The next slot is so far ahead.
    Beyond(Duration),
    Lost,
}

impl TurnGuard {
    /// Reserves a slot for the turn, which does not start before it. Returns its end; `None` where
    /// there is no engine, or no delay.
    ///
    /// # Errors
    ///
    /// There is none until `deadline`.
    pub(super) async fn reserve(
        &self,
        id: TurnId,
        deadline: Tick,
    ) -> Result<Option<Tick>, Refused> {
        let shared = &self.cell.shared;
        let Some(engine) = shared.cluster.engine() else { return Ok(None) };
        loop {
            match self.try_reserve(engine, id, deadline).await {
                Some(Reserved::Until(end)) => return Ok(Some(end)),
                None | Some(Reserved::Away) => return Ok(None),
                Some(Reserved::Beyond(wait)) => {
                    let now = shared.ticks.now();
                    self.cell.state.lock().lane.put_off(id, now + wait);
                    if now + wait > deadline {
                        let (by, line, delay) = (WaitReason::CrawlDelay, None, Duration::ZERO);
                        return Err(Refused::TooLong { wait, by, line, delay });
                    }
                    // Not worth another request before half of it is over.
                    sleep_until(shared.ticks.instant(now + wait / 2)).await;
                }
                Some(Reserved::Lost) => {
                    // The engine responds too late: without a slot other proxies may start as well.
                    engine.stats().note_slot(SlotEnd::Missed);
                    if shared.ticks.now() >= deadline {
                        let (by, line, delay) = (WaitReason::Share, None, Duration::ZERO);
                        return Err(Refused::TooLong { wait: LATE_RETRY, by, line, delay });
                    }
                }
            }
        }
    }

    async fn try_reserve(
        &self,
        engine: &Arc<dyn Engine>,
        id: TurnId,
        deadline: Tick,
    ) -> Option<Reserved> {
        let (cell, ticks) = (&self.cell, &self.cell.shared.ticks);
        let sent = ticks.now();
        let request = cell.state.lock().lane.slot_request(id, sent)?;
        let horizon = deadline.since(sent);
        let slack = engine::slack(engine.status().round_trip, horizon);
        let turned = engine.turn(TurnRequest {
            origin: &cell.key,
            group: &request.group,
            own_delay: request.own_delay,
            asked_delay: request.asked_delay,
            slack,
            horizon,
            count: 1,
            left: request.left,
        });
        let Ok(turned) = turned.await else { return Some(Reserved::Away) };
        let received = ticks.now();
        take_up(cell, turned.hold, received);
        let Some(slot) = turned.slots.first() else {
            // The site is far behind, or rests for longer.
            return Some(Reserved::Beyond(turned.beyond.unwrap_or(slack).max(slack)));
        };
        let from_start = |tick: Tick| tick.since(Tick::default());
        let window = engine::start_window(from_start(sent), from_start(received), *slot, slack);
        let Some((begin, end)) = window else { return Some(Reserved::Lost) };
        cell.state.lock().lane.put_off(id, Tick::after(begin));
        Some(Reserved::Until(Tick::after(end)))
    }
}

#[cfg(test)]
mod tests;
