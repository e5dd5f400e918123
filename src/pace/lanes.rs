//! The lanes of all origins.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::Guard;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::addresses::Addresses;
use super::config::Config;
use super::context::PaceContext;
use super::engine_holds;
use super::lane::{Lane, kept::KeptLane};
use super::lane_cell::{LaneCell, State};
use super::limits::{KEPT_DELAY_MAX, KEPT_HOLD_MIN, KEPT_LANES_MAX, LANES_MAX};
use super::no_turn::NoTurn;
use super::shard::Shard;
use super::stats::{Counts, WaitTotals};
use super::tick::Tick;
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Locks that share the lanes, so that workers seldom wait for each other.
const SHARDS: usize = 64;

/// The lanes of all origins, by [`Origin::lane`], for the life of the process.
#[derive(Debug)]
pub struct Lanes {
    shards: [Lock<Shard>; SHARDS],
    hasher: RandomState,
    pub(super) context: Arc<PaceContext>,
    pub(super) addresses: Addresses,
    count: AtomicUsize,
    /// The process before did not say what lies ahead.
    history_lost: AtomicBool,
}

/// What is known of the lane of an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// Requests that wait.
    pub waiting: usize,
    /// What lies ahead.
    pub ahead: KeptLane,
}

impl Lanes {
    /// Lanes under `config`.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Arc<Self> {
        let context = PaceContext::new(config, clock);
        Arc::new(Self {
            shards: std::array::from_fn(|_| Lock::default()),
            hasher: RandomState::default(),
            addresses: Addresses::new(Arc::clone(&context)),
            context,
            count: AtomicUsize::new(0),
            history_lost: AtomicBool::new(false),
        })
    }

    /// For commands that send single requests: none waits.
    pub fn off(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::new(Config::off(), clock)
    }

    /// Applies other settings. Lanes keep their state.
    pub fn change(&self, config: Config) {
        self.context.config.store(Arc::new(config));
        let now = self.now();
        for cell in self.all() {
            let (config, max_exchanges) = {
                let config = self.context.config.load();
                (config.lane(&cell.key), config.max_exchanges)
            };
            let exchanges = cell.update(now, |state| {
                state.lane.change(config);
                state.exchanges.resize(max_exchanges);
                state.exchanges.grant()
            });
            cell.send_exchanges(exchanges);
        }
        self.addresses.change();
    }

    /// Takes up the lanes that the process before has left. If it did not leave all that it knew,
    /// no other lane starts before a delay after the start of this process. Those of addresses are
    /// not left.
    pub fn restore(&self, kept: Vec<(Origin, KeptLane)>, is_complete: bool) {
        self.history_lost.store(!is_complete, Ordering::Relaxed);
        self.addresses.set_history_lost();
        let (config, now) = (self.context.config.load_full(), self.now());
        let hold_max = config.max_retry_after.max(2 * config.lane.holds.backoff_max);
        for (origin, lane) in kept {
            // A full table costs time later, and nothing now.
            let _ = self.with_lane(&origin, |_, state| {
                state.lane.restore(lane, (KEPT_DELAY_MAX, hold_max), now);
            });
        }
    }

    /// The lanes that have a time ahead, the longest first; without `all`, those with a long hold.
    /// And whether nothing else is known to lie ahead.
    pub fn kept(&self, all: bool) -> (Vec<(Origin, KeptLane)>, bool) {
        let now = self.now();
        let mut kept = Vec::new();
        let mut keep = |origin: &Origin, lane: Option<KeptLane>| {
            let is_held = |lane: &KeptLane| lane.hold.is_some_and(|it| it.rest >= KEPT_HOLD_MIN);
            kept.extend(lane.filter(|lane| all || is_held(lane)).map(|it| (origin.clone(), it)));
        };
        for shard in &self.shards {
            let shard = shard.lock();
            shard.compact.iter().for_each(|(origin, lane)| keep(origin, lane.kept(now)));
            let cells = shard.cells.iter();
            cells.for_each(|(origin, cell)| keep(origin, cell.state.lock().lane.kept(now)));
        }
        kept.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.length()));
        // What the process before knew of other origins may lie ahead still.
        let history_lost =
            self.history_lost.load(Ordering::Relaxed) && now < Tick::default() + KEPT_DELAY_MAX;
        let is_complete = all && !history_lost && kept.len() <= KEPT_LANES_MAX;
        kept.truncate(KEPT_LANES_MAX);
        (kept, is_complete)
    }

    /// Counts that lanes were written to the store.
    pub fn note_write(&self) {
        self.context.stats.note_write();
    }

    /// Whether a long hold has begun, or was ended, since the last call.
    pub fn has_new_holds(&self) -> bool {
        self.context.has_new_holds.swap(false, Ordering::Relaxed)
    }

    /// The lane of `origin`, made if need be.
    pub(super) fn with_lane<T>(
        &self,
        origin: &Origin,
        act: impl FnOnce(&Arc<LaneCell>, &mut State) -> T,
    ) -> Result<T, NoTurn> {
        let lane = origin.lane();
        loop {
            let cell = self.cell(&lane)?;
            let mut state = cell.state.lock();
            if !state.is_removed {
                return Ok(act(&cell, &mut state));
            }
        }
    }

    /// The lane of this name ([`Origin::lane`]).
    fn cell(&self, origin: &Origin) -> Result<Arc<LaneCell>, NoTurn> {
        let mut shard = self.shard(origin).lock();
        if let Some(cell) = shard.cells.get(origin) {
            return Ok(Arc::clone(cell));
        }
        let config = self.context.config.load().lane(origin);
        let before = shard.len();
        let share = self.context.peers.share();
        shard.sweep(self.now(), config.holds, share);
        self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
        let mut lane = match shard.compact.remove(origin) {
            Some(compact) => compact.expand(config),
            None if self.count.fetch_add(1, Ordering::Relaxed) >= LANES_MAX => {
                self.count.fetch_sub(1, Ordering::Relaxed);
                return Err(NoTurn::Full);
            }
            None => Lane::new(config, self.history_lost.load(Ordering::Relaxed)),
        };
        lane.set_share(share);
        let max_exchanges = self.context.config.load().max_exchanges;
        let cell = LaneCell::new(origin.clone(), lane, max_exchanges, &self.context);
        shard.cells.insert(origin.clone(), Arc::clone(&cell));
        Ok(cell)
    }

    fn shard(&self, origin: &Origin) -> &Lock<Shard> {
        let hash = self.hasher.hash_one(origin);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    pub(super) fn all(&self) -> Vec<Arc<LaneCell>> {
        let cells = |shard: &Lock<Shard>| shard.lock().cells.values().cloned().collect::<Vec<_>>();
        self.shards.iter().flat_map(cells).collect()
    }

    /// What is known of the lane of `origin`, if some request would have to wait there.
    pub fn view(&self, origin: &Origin) -> Option<LaneView> {
        let origin = origin.lane();
        let (now, shard) = (self.now(), self.shard(&origin).lock());
        if let Some(lane) = shard.compact.get(&*origin) {
            return lane.kept(now).map(|ahead| LaneView { waiting: 0, ahead });
        }
        let cell = shard.cells.get(&*origin).cloned()?;
        drop(shard);
        let state = cell.state.lock();
        let ahead = state.lane.kept(now).unwrap_or_default();
        let view = LaneView { waiting: state.waiters.len(), ahead };
        (view != LaneView::default()).then_some(view)
    }

    /// Ends the hold of `origin`; whether there was one.
    pub fn end_hold(&self, origin: &Origin) -> bool {
        if self.view(origin).is_none_or(|view| view.ahead.hold.is_none()) {
            return false;
        }
        let Ok(cell) = self.cell(&origin.lane()) else { return false };
        let now = self.now();
        let was_held = cell.update(now, |state| {
            let was_held = state.lane.hold_at(now).is_some();
            state.lane.end_hold();
            was_held
        });
        if was_held {
            engine_holds::end_hold(&cell);
        }
        // The store has it, too.
        self.context.has_new_holds.fetch_or(was_held, Ordering::Relaxed);
        was_held
    }

    /// The counts at this moment.
    pub fn counts(&self) -> Counts {
        let now = self.now();
        let mut counts = self.context.stats.counts();
        counts.waiting = self.context.waiting.load(Ordering::Relaxed);
        let bounds = self.context.config.load().lane.holds;
        let share = self.context.peers.share();
        for shard in &self.shards {
            let shard = shard.lock();
            let compact = shard.compact.values();
            counts.lanes +=
                compact.clone().filter(|lane| !lane.is_over(now, bounds, share)).count();
            counts.holds += compact.filter(|lane| lane.hold_at(now).is_some()).count();
        }
        for cell in self.all() {
            let state = cell.state.lock();
            counts.lanes += usize::from(!state.lane.is_idle(now));
            counts.holds += usize::from(state.lane.hold_at(now).is_some());
            counts.exchanges_waiting += state.exchanges.counts().1;
        }
        counts
    }

    /// The exchanges under way, with all origins.
    pub fn exchanges(&self) -> usize {
        self.all().iter().map(|cell| cell.state.lock().exchanges.counts().0).sum()
    }

    /// The waits since the start, in all.
    pub fn wait_totals(&self) -> WaitTotals {
        self.context.stats.totals()
    }

    /// The settings in effect.
    pub fn config(&self) -> Guard<Arc<Config>> {
        self.context.config.load()
    }

    pub(super) fn now(&self) -> Tick {
        self.context.clock.now()
    }
}
