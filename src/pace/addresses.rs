//! The lanes of addresses: limits that all origins of one address have in common
//! (`pace.address_delay`, `pace.address_concurrency`).

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::config::ADDRESS_LANES_BYTES_MAX;
use super::context::PaceContext;
use super::lane::{Arrival, Lane};
use super::lane_cell::{Grants, LaneCell, NotQueued, QueuedRequest, State, TurnGuard, send_grants};
use super::no_turn::{NoTurn, WaitReason};
use super::shard::{Shard, SweepConditions};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// A queued request, and what is granted meanwhile.
type Queued<'a> = Result<(QueuedRequest<'a, IpAddr>, Grants<IpAddr>), NotQueued>;

/// The lanes of the addresses in use.
#[derive(Debug)]
pub(super) struct Addresses {
    context: Arc<PaceContext>,
    /// Whether there are limits: mostly there are none, and this is all that is looked at.
    has_limits: AtomicBool,
    /// A process before this one may have used an address: its lanes are not kept.
    history_lost: AtomicBool,
    shard: Lock<Shard<IpAddr>>,
}

impl Addresses {
    pub(super) fn new(context: Arc<PaceContext>) -> Self {
        let has_limits = AtomicBool::new(context.config.load().addresses.are_set());
        let shard = Lock::default();
        Self { context, has_limits, history_lost: AtomicBool::new(false), shard }
    }

    /// Lets the first start at each address wait for the delay after the start of this process.
    pub(super) fn set_history_lost(&self) {
        self.history_lost.store(true, Ordering::Relaxed);
    }

    /// Whether any address has limits.
    pub(super) fn have_limits(&self) -> bool {
        self.has_limits.load(Ordering::Relaxed)
    }

    /// The address whose lane a request over a connection to `address` takes a turn in; `None`: it
    /// has no limits.
    pub(super) fn limited(&self, address: IpAddr) -> Option<IpAddr> {
        let address = address.to_canonical();
        self.context.config.load().addresses.apply_to(address).then_some(address)
    }

    /// A turn at `address`, if the request need not wait.
    pub(super) fn try_acquire(
        &self,
        address: IpAddr,
        arrival: &Arrival<'_>,
    ) -> Option<TurnGuard<IpAddr>> {
        let now = self.context.clock.now();
        self.with(address, arrival.client, |cell, state| {
            let id = state.lane.try_acquire(arrival, now)?;
            Some(cell.issue_guard(state, Some(id), arrival.client.clone()))
        })
    }

    /// A turn at `address` that has started, where the mode is to observe, and how long the request
    /// would have waited.
    pub(super) fn observe(
        &self,
        address: IpAddr,
        arrival: &Arrival<'_>,
    ) -> (TurnGuard<IpAddr>, Duration) {
        let now = self.context.clock.now();
        self.with(address, arrival.client, |cell, state| {
            let wait = state.lane.estimate(arrival, now);
            let id = state.lane.observe(arrival, now);
            (cell.issue_guard(state, Some(id), arrival.client.clone()), wait)
        })
    }

    /// Waits for a turn at `address`. `None`: the address has no limits any more.
    ///
    /// # Errors
    ///
    /// There will be none within the longest wait of the request, or before the proxy stops.
    pub(super) async fn acquire(
        &self,
        address: IpAddr,
        arrival: &Arrival<'_>,
        shutdown: &CancellationToken,
    ) -> Result<Option<TurnGuard<IpAddr>>, NoTurn> {
        let now = self.context.clock.now();
        let queued: Queued<'_> = self
            .with(address, arrival.client, |cell, state| cell.queue(state, (arrival, None), now));
        let (mut waiting, granted) = queued.map_err(|not_queued| match not_queued {
            NotQueued::TooLong { wait, .. } => self.too_long(wait),
            NotQueued::Full => NoTurn::Full,
        })?;
        send_grants(granted);
        let guard = waiting.wait_for_grant(shutdown).await?;
        let state = waiting.cell.state.lock();
        if guard.is_some() || state.is_removed {
            return Ok(guard);
        }
        let wait = state.lane.estimate(arrival, self.context.clock.now());
        Err(self.too_long(wait.max(Duration::from_secs(1))))
    }

    /// The refusal of a request that would wait for so long.
    pub(super) fn too_long(&self, wait: Duration) -> NoTurn {
        NoTurn::TooLong { wait, by: WaitReason::Address, line: None, delay: self.delay() }
    }

    /// The delay between two starts at an address.
    pub(super) fn delay(&self) -> Duration {
        self.context.config.load().addresses.delay
    }

    /// The lanes of addresses that are in use, or were not long ago.
    pub(super) fn cells(&self) -> Vec<Arc<LaneCell<IpAddr>>> {
        self.shard.lock().cells().cloned().collect()
    }

    /// Applies the settings. The requests that wait at an address that has no limits any more need
    /// not wait.
    pub(super) fn change(&self) {
        let (limits, lane) = {
            let config = self.context.config.load();
            (config.addresses.clone(), config.address_lane())
        };
        self.has_limits.store(limits.are_set(), Ordering::Relaxed);
        let now = self.context.clock.now();
        let removed = self.shard.lock().remove_unless(|address| limits.apply_to(*address));
        for cell in removed {
            let waiters = std::mem::take(&mut cell.state.lock().waiters);
            drop(waiters);
        }
        for cell in self.cells() {
            cell.update(now, |state| state.lane.change(lane));
        }
    }

    /// Acts on the lane of `address`, made for `client` if need be.
    fn with<T>(
        &self,
        address: IpAddr,
        client: &ClientKey,
        act: impl FnOnce(&Arc<LaneCell<IpAddr>>, &mut State<IpAddr>) -> T,
    ) -> T {
        loop {
            let cell = self.cell(address, client);
            let mut state = cell.state.lock();
            if !state.is_removed {
                return act(&cell, &mut state);
            }
        }
    }

    fn cell(&self, address: IpAddr, client: &ClientKey) -> Arc<LaneCell<IpAddr>> {
        let mut shard = self.shard.lock();
        if let Some(cell) = shard.get(&address) {
            return Arc::clone(cell);
        }
        let config = self.context.config.load().address_lane();
        let conditions =
            SweepConditions { now: self.context.clock.now(), bytes_max: ADDRESS_LANES_BYTES_MAX };
        if let Some((lanes, _)) = shard.sweep(&conditions) {
            self.context.stats.note_forgotten(lanes);
        }
        let (owner, lane) = match shard.take_unused(&address) {
            Some((owner, compact)) => (owner, compact.expand(config)),
            None => {
                let history_lost = self.history_lost.load(Ordering::Relaxed);
                (client.clone(), Lane::new(config, history_lost))
            }
        };
        // The exchanges with an origin are counted in the lane of the origin.
        shard.insert(address, (owner, lane), 0, &self.context)
    }
}
