//! A request in the queue of a lane.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::hold::Hold;
use super::lane::{Arrival, Enqueued, LaneLimit, WaiterId};
use super::lane_cell::{Grants, Key, LaneCell, State, TurnGuard, Waiter, send_grants};
use super::no_turn::NoTurn;
use super::tick::Tick;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// A request in a queue; it leaves when dropped.
#[derive(Debug)]
pub(super) struct QueuedRequest<'a, K: Key = Origin> {
    pub cell: Arc<LaneCell<K>>,
    client: &'a ClientKey,
    waiter: WaiterId,
    grant: oneshot::Receiver<TurnGuard<K>>,
    /// When its longest wait ends.
    deadline: Tick,
    /// The reason for the wait, and the time at which it is likely to end.
    pub limit: LaneLimit,
    expected: Tick,
    /// The delay of the lane itself.
    pub lane_delay: Duration,
}

/// Why a request is not queued.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotQueued {
    /// It would wait for so long, which is longer than it may wait.
    TooLong { wait: Duration, hold: Option<Hold>, limit: LaneLimit },
    /// Too many requests wait.
    Full,
}

impl<K: Key> LaneCell<K> {
    /// Queues a request that has to wait. What is granted is to be handed over without the lock.
    pub(super) fn queue<'a>(
        self: &Arc<Self>,
        state: &mut State<K>,
        arrival: &Arrival<'a>,
        now: Tick,
    ) -> Result<(QueuedRequest<'a, K>, Grants<K>), NotQueued> {
        let Arrival { client, max_wait, .. } = *arrival;
        let (max, max_per_lane) = {
            let config = self.context.config.load();
            (config.max_waiting, config.max_waiting_per_origin)
        };
        let limit = state.lane.limit(arrival, now);
        let expected = now + state.lane.estimate(arrival, now);
        let lane_delay = state.lane.lane_delay(now);
        if !has_room(state, client, max_per_lane) {
            return Err(NotQueued::Full);
        }
        let waiter = match state.lane.enqueue(arrival, now) {
            Enqueued::TooLong { wait, hold } => {
                return Err(NotQueued::TooLong { wait, hold, limit });
            }
            Enqueued::Waits(waiter) => waiter,
        };
        self.count_bytes(state);
        if self.context.waiting.fetch_add(1, Ordering::Relaxed) >= max {
            self.context.waiting.fetch_sub(1, Ordering::Relaxed);
            state.lane.leave(client, waiter);
            return Err(NotQueued::Full);
        }
        let (sender, grant) = oneshot::channel();
        let deadline = now + max_wait;
        state.waiters.insert(waiter, Waiter { client: client.clone(), grant: sender, deadline });
        let granted = self.grant_and_set_timer(state, now);
        let cell = Arc::clone(self);
        Ok((
            QueuedRequest { cell, client, waiter, grant, deadline, limit, expected, lane_delay },
            granted,
        ))
    }
}

/// Whether one more request of `client` may wait among at most `max`; an eighth is kept from each
/// client.
fn has_room<K: Key>(state: &State<K>, client: &ClientKey, max: usize) -> bool {
    state.waiters.len() < max && state.lane.waiting_of(client) < max - max / 8
}

impl<K: Key> QueuedRequest<'_, K> {
    /// The turn, if it has been granted.
    pub(super) fn try_grant(&mut self) -> Option<TurnGuard<K>> {
        self.grant.try_recv().ok()
    }

    /// Waits for the turn. `None`: the request has waited for as long as it may, or it was removed
    /// from the queue.
    ///
    /// # Errors
    ///
    /// The proxy stops before the turn would come.
    pub(super) async fn wait_for_grant(
        &mut self,
        shutdown: &CancellationToken,
    ) -> Result<Option<TurnGuard<K>>, NoTurn> {
        let context = &self.cell.context;
        tokio::select! {
            biased;
            granted = &mut self.grant => Ok(granted.ok()),
            () = sleep_until(context.clock.instant(self.deadline)) => Ok(None),
            () = context.stopped_before(shutdown, self.expected) => Err(NoTurn::Stopping),
        }
    }
}

impl<K: Key> Drop for QueuedRequest<'_, K> {
    fn drop(&mut self) {
        let context = &self.cell.context;
        context.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.cell.state.lock();
        // One that has its turn has left the queue.
        if state.waiters.remove(&self.waiter).is_some() {
            state.lane.leave(self.client, self.waiter);
            let granted = self.cell.grant_and_set_timer(&mut state, context.clock.now());
            drop(state);
            send_grants(granted);
        }
    }
}
