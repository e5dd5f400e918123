//! A place among the requests under way at a host where there are more proxies than those may be: each
//! proxy's part would be less than one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::lane::LaneLimit;
use super::lane_cell::{LaneCell, TurnGuard};
use super::lanes::Lanes;
use super::no_turn::{NoTurn, Waited};
use super::turn::Turn;
use super::turn_request::{RemainingWait, TurnRequest, too_long};
use crate::engine::Engine;
use crate::types::origin::Origin;

/// How long is waited until the engine is asked for a place again, at random between the two.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;
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
    fn new(cell: &Arc<LaneCell>, engine: &Arc<dyn Engine>, id: u64, places: usize) -> Self {
        let (engine, lane) = (Arc::clone(engine), cell.key.clone());
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
    fn places(&self) -> Option<usize> {
        let (id, state) = (self.id?, self.cell.state.lock());
        // Without the engine, what has a delay waits for the cells of this proxy instead.
        let has_cells = || {
            let now = self.cell.context.clock.now();
            state.lane.share().rank.is_some() && state.lane.slot_request(id, now).is_some()
        };
        state.lane.places_of_all().filter(|_| !has_cells())
    }
}

impl Lanes {
    /// Waits for a place for the turn, where there are more proxies than places. Without the engine
    /// this proxy's part applies.
    ///
    /// # Errors
    ///
    /// None is free until the request has waited for as long as it may, or the proxy stops.
    pub(super) async fn take_place(
        &self,
        turn: &mut Turn,
        request: &TurnRequest<'_>,
    ) -> Result<(), NoTurn> {
        let Some(engine) = self.context.peers.engine() else { return Ok(()) };
        let mut told = None;
        let id = fastrand::u64(..);
        loop {
            let guard = turn.guard();
            let Some(places) = guard.places() else { return Ok(()) };
            if let Ok(true) = engine.take_place(&guard.cell.key, id, places).await {
                turn.set_place(Place::new(&turn.guard().cell, engine, id, places));
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
                () = self.stopping(request.shutdown, turn) => return Err(NoTurn::Stopping),
            }
        }
    }

    async fn stopping(&self, shutdown: &CancellationToken, turn: &Turn) {
        self.context.stopped_before(shutdown, || turn.deadline()).await;
    }
}
