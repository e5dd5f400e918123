//! Announces this proxy at the origins that it requests, so that the proxies there share its
//! concurrency, and learn of holds.

use std::sync::Arc;
use std::time::Duration;

use super::engine_holds;
use super::lane::Share;
use super::lane_cell::LaneCell;
use super::lanes::Lanes;
use crate::engine::Engine;

/// Origins that are announced at once; the others follow when these have been.
const ANNOUNCED_AT_ONCE: usize = 256;

/// An engine that does not say how often marks are due.
const PRESENCE_INTERVAL_MIN: Duration = Duration::from_secs(1);

impl Lanes {
    /// Shares the pace with the other proxies of `engine`. Only the first call has an effect.
    pub fn set_engine(&self, engine: Arc<dyn Engine>) {
        self.context.peers.set(engine);
        // It may be away from the start.
        self.update_share();
    }

    /// Brings this proxy's share of the pace up to date.
    fn update_share(&self) {
        let now = self.now();
        let Some(share) = self.context.peers.update(&self.context.config.load(), now) else {
            return;
        };
        for cell in self.all() {
            cell.update(now, |state| {
                let proxies = state.lane.share().proxies;
                state.lane.set_share(Share { proxies, ..share });
            });
        }
    }

    /// Brings this proxy's share of the pace up to date, and announces it where it sends requests.
    /// To be called each second, where there is an engine.
    pub async fn sync(&self) {
        let Some(engine) = self.context.peers.engine() else { return };
        self.update_share();
        let (now, status) = (self.now(), engine.status());
        if status.is_up {
            let interval = status.presence_interval.max(PRESENCE_INTERVAL_MIN);
            let is_due = |cell: &Arc<LaneCell>| cell.state.lock().begin_announcement(now, interval);
            let due: Vec<_> = self.all().into_iter().filter(is_due).collect();
            announce(engine, &due).await;
        }
    }
}

/// Announces this proxy at the origins of `cells`, and applies what the engine says of them.
async fn announce(engine: &Arc<dyn Engine>, cells: &[Arc<LaneCell>]) {
    for cells in cells.chunks(ANNOUNCED_AT_ONCE) {
        // The calls are sent at once; only their responses are awaited in turn.
        let calls: Vec<_> = cells.iter().map(|cell| engine.announce_presence(&cell.key)).collect();
        for (cell, call) in cells.iter().zip(calls) {
            let Ok(presence) = call.await else { return };
            let proxies = u32::try_from(presence.proxies).unwrap_or(u32::MAX).max(1);
            let now = cell.context.clock.now();
            cell.update(now, |state| {
                state.lane.set_share(Share { proxies, ..cell.context.peers.share() });
            });
            engine_holds::apply(cell, presence.hold, now);
        }
    }
}
