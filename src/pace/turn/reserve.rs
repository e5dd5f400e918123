//! The slot of a turn, where several proxies keep one pace: when it is reserved, and how it ends.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};

use super::{ADDRESS_KEPT_MAX, Inner, Turn};
use crate::engine::SlotOutcome;
use crate::pace::lane_cell::LaneCell;
use crate::pace::no_turn::{NoTurn, WaitReason};
use crate::pace::slot::{CONNECT_LEAD, Slot, StartRule};
use crate::pace::tick::Tick;
use crate::pace::waited::Waited;

impl Turn {
    /// Reserves a slot at the engine, where there is one, and waits until it is near.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(in crate::pace) async fn reserve_slot(&mut self) -> Result<(), NoTurn> {
        self.0.reserve_slot().await
    }

    /// Leaves the reservation of a slot to [`Self::reserve_if_needed`], just before the start.
    pub(in crate::pace) fn reserve_later(&mut self) {
        self.0.slot = Some(Slot::TO_RESERVE);
    }

    /// Reserves a slot, if the turn has none yet or has missed its own. The turn at the address is
    /// given back if that takes long.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(in crate::pace) async fn reserve_if_needed(&mut self) -> Result<(), NoTurn> {
        let since = self.now();
        let Some(id) = self.0.guard.id.filter(|_| self.0.needs_slot(since)) else {
            return Ok(());
        };
        self.0.note_slot(SlotOutcome::Missed);
        let rule = {
            let Inner { guard, address, conditions, .. } = &mut *self.0;
            let mut reserved = pin!(guard.reserve_at_engine(id, conditions));
            tokio::select! {
                biased;
                end = &mut reserved => end?,
                () = sleep(ADDRESS_KEPT_MAX) => {
                    *address = None;
                    reserved.await?
                }
            }
        };
        self.0.apply(rule);
        self.0.note_waited(since);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.note_slot(SlotOutcome::Idle);
    }
}

impl Inner {
    async fn reserve_slot(&mut self) -> Result<(), NoTurn> {
        let Some(id) = self.guard.id else { return Ok(()) };
        let since = self.guard.cell.context.clock.now();
        let rule = self.guard.reserve_at_engine(id, &self.conditions).await?;
        self.apply(rule);
        if rule != StartRule::WithoutSlot {
            let LaneCell { context, state, .. } = &*self.guard.cell;
            let near = state.lock().lane.starts_at(id).map(|start| start - CONNECT_LEAD);
            if let Some(near) = near.filter(|near| *near > context.clock.now()) {
                sleep_until(context.clock.instant(near)).await;
            }
            self.note_waited(since);
        }
        Ok(())
    }

    /// Applies the rule for its start.
    fn apply(&mut self, rule: StartRule) {
        self.is_slot_noted = false;
        self.slot = match rule {
            StartRule::Slot(slot) => Some(slot),
            StartRule::WithoutSlot | StartRule::FallbackShare => None,
        };
        if let Some(waited) = self.waited.as_mut().filter(|_| rule == StartRule::FallbackShare) {
            let (by, line, delay) = (WaitReason::Share, None, Duration::ZERO);
            *waited = Waited { by, line, delay, ..*waited };
        }
    }

    /// Counts how its slot ended, if it has one that is not counted.
    pub(super) fn note_slot(&mut self, outcome: SlotOutcome) {
        if self.slot.is_some_and(|slot| slot.is_reserved())
            && !self.is_slot_noted
            && let Some(engine) = self.guard.cell.context.peers.engine()
        {
            self.is_slot_noted = true;
            engine.stats().note_slot(outcome);
        }
    }

    /// Whether it has to reserve a slot before it starts: it has missed its own, or has none yet.
    pub(super) fn needs_slot(&self, now: Tick) -> bool {
        self.slot.is_some_and(|slot| slot.is_over(now, self.guard.cell.context.peers.engine()))
    }
}
