//! A part of all lanes, under one lock: those in use, and those of which only times ahead are
//! remembered.

use std::sync::Arc;

use foldhash::HashMap;

use super::hold::Bounds;
use super::lane::{CompactLane, Share};
use super::lane_cell::LaneCell;
use super::tick::Tick;
use crate::types::origin::Origin;

/// Lanes are looked through when there are twice as many as after the last time, and this many.
const SWEEP_MIN: usize = 64;

/// Some origins, by the hash of their names.
#[derive(Debug)]
pub(super) struct Shard {
    pub cells: HashMap<Origin, Arc<LaneCell>>,
    /// Boxed, since up to half of a table is empty: a million lanes take 270 MiB so, and 420
    /// without.
    pub compact: HashMap<Origin, Box<CompactLane>>,
    compact_at: usize,
    forget_at: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            cells: HashMap::default(),
            compact: HashMap::default(),
            compact_at: SWEEP_MIN,
            forget_at: SWEEP_MIN,
        }
    }
}

impl Shard {
    /// The number of lanes.
    pub(super) fn len(&self) -> usize {
        self.cells.len() + self.compact.len()
    }

    /// Folds the lanes that are not in use, and forgets those of which nothing need be remembered,
    /// if there have come to be many.
    pub(super) fn sweep(&mut self, now: Tick, bounds: Bounds, share: Share) {
        if self.cells.len() >= self.compact_at {
            self.compact(now, bounds, share);
            self.compact_at = SWEEP_MIN.max(2 * self.cells.len());
        }
        if self.compact.len() >= self.forget_at {
            self.compact.retain(|_, lane| !lane.is_over(now, bounds, share));
            self.forget_at = SWEEP_MIN.max(2 * self.compact.len());
        }
    }

    fn compact(&mut self, now: Tick, bounds: Bounds, share: Share) {
        let compact = &mut self.compact;
        self.cells.retain(|origin, cell| {
            let mut state = cell.state.lock();
            let lane = if state.has_no_requests() { state.lane.compact(now) } else { None };
            let Some(lane) = lane else { return true };
            state.is_removed = true;
            if !lane.is_over(now, bounds, share) {
                compact.insert(origin.clone(), Box::new(lane));
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::config::Config;
    use crate::pace::context::PaceContext;
    use crate::pace::hold::{Cause, Hold};
    use crate::pace::lane::Lane;
    use crate::runtime::clock::SystemClock;
    use crate::types::origin::{Host, Scheme};

    fn origin(number: usize) -> Origin {
        Origin::new(Scheme::Http, Host::Name(format!("site-{number}.example").into()), 80)
    }

    #[test]
    fn what_is_not_in_use_is_folded_and_then_forgotten() {
        let context = PaceContext::new(Config::off(), Arc::new(SystemClock));
        let (bounds, now) = (Config::off().lane.holds, Tick::from_micros(1));
        let until = now + Duration::from_secs(60);
        let mut shard = Shard::default();
        let mut used = Vec::new();
        for number in 0..SWEEP_MIN {
            let mut lane = Lane::new(Config::off().lane, false);
            if number % 2 == 0 {
                lane.set_hold(Hold { until, status: 429, cause: Cause::RetryAfter }, now);
            }
            let cell = LaneCell::new(origin(number), lane, usize::MAX, &context);
            if number < 2 {
                let client = crate::types::client_key::ClientKey::Proxy;
                used.push(cell.issue_guard(&mut cell.state.lock(), None, client));
            }
            shard.sweep(now, bounds, Share::ALONE);
            shard.cells.insert(origin(number), cell);
        }
        assert_eq!((shard.cells.len(), shard.compact.len()), (SWEEP_MIN, 0));
        shard.sweep(now, bounds, Share::ALONE);
        // The two with an exchange stay, and of the others those on hold.
        assert_eq!((shard.cells.len(), shard.compact.len()), (2, SWEEP_MIN / 2 - 1));
        assert_eq!(shard.len(), 2 + SWEEP_MIN / 2 - 1);
        shard.forget_at = 0;
        shard.sweep(until, bounds, Share::ALONE);
        assert_eq!(shard.compact.len(), 0);
    }
}
