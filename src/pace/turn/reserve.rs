//! A turn reserves its slot, where several proxies share the pace, and replaces one that it missed.

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

    /// Has a slot reserved before the start, as one that was missed.
    pub(in crate::pace) fn reserve_later(&mut self) {
        self.0.slot = Some(Slot::MISSED);
    }

    /// Reserves another slot, if the turn has missed its own. The turn at the address is given back
    /// if that takes long.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(in crate::pace) async fn replace_missed_slot(&mut self) -> Result<(), NoTurn> {
        let since = self.now();
        let Some(id) = self.0.guard.id.filter(|_| self.0.has_missed_slot(since)) else {
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
        if rule != StartRule::Free {
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
            StartRule::Free | StartRule::OwnShare => None,
        };
        if let Some(waited) = self.waited.as_mut().filter(|_| rule == StartRule::OwnShare) {
            let (by, line, delay) = (WaitReason::Share, None, Duration::ZERO);
            *waited = Waited { by, line, delay, ..*waited };
        }
    }

    /// Counts how its slot ended, if it has one that is not counted.
    pub(super) fn note_slot(&mut self, outcome: SlotOutcome) {
        if self.slot.is_some_and(|slot| slot.was_reserved())
            && !self.is_slot_noted
            && let Some(engine) = self.guard.cell.context.cluster.engine()
        {
            self.is_slot_noted = true;
            engine.stats().note_slot(outcome);
        }
    }

    /// Whether its slot ends before it has started.
    pub(super) fn has_missed_slot(&self, now: Tick) -> bool {
        self.slot.is_some_and(|slot| slot.is_over(now, self.guard.cell.context.cluster.engine()))
    }
}
