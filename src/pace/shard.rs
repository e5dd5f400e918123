//! A part of all lanes, under one lock: those in use, and those of which only times ahead are
//! remembered. Where they take too much memory, those that end first are forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::HashMap;

use super::config::fair_share;
use super::context::PaceContext;
use super::lane::{CompactLane, Lane};
use super::lane_cell::{Key, LaneCell};
use super::tick::Tick;
use crate::types::ClientKey;
use crate::types::origin::Origin;

/// Lanes are looked through when there are twice as many as after the last time, and this many.
const SWEEP_MIN: usize = 64;

/// Where lanes take too much memory, this part of the bound is made free: the work is then small
/// for each lane that comes.
const FREED: usize = 8;

/// Some lanes, by the hash of their names.
#[derive(Debug)]
pub(super) struct Shard<K: Key = Origin> {
    cells: HashMap<K, Arc<LaneCell<K>>>,
    /// Boxed, since up to half of a table is empty.
    compact: HashMap<K, Box<UnusedLane>>,
    compact_at: usize,
    forget_at: usize,
    /// The memory that all of them take.
    bytes: Arc<AtomicUsize>,
    /// Room is made when they take more than the bound, and this much.
    make_room_at: usize,
}

/// A lane that is not in use.
#[derive(Debug)]
struct UnusedLane {
    /// The client that its memory is counted for.
    owner: ClientKey,
    lane: CompactLane,
}

/// What decides which lanes need not be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct SweepConditions {
    pub now: Tick,
    /// The memory that the lanes of the shard may take.
    pub bytes_max: usize,
}

impl<K: Key> Default for Shard<K> {
    fn default() -> Self {
        Self {
            cells: HashMap::default(),
            compact: HashMap::default(),
            compact_at: SWEEP_MIN,
            forget_at: SWEEP_MIN,
            bytes: Arc::default(),
            make_room_at: 0,
        }
    }
}

impl<K: Key> Shard<K> {
    /// The lane of `key`, if it is in use, or was not long ago.
    pub(super) fn get(&self, key: &K) -> Option<&Arc<LaneCell<K>>> {
        self.cells.get(key)
    }

    /// The number of lanes.
    pub(super) fn len(&self) -> usize {
        self.cells.len() + self.compact.len()
    }

    /// The lanes that are in use, or were not long ago.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Arc<LaneCell<K>>> {
        self.cells.values()
    }

    /// The lanes of which only times ahead are remembered, each with its client.
    pub(super) fn unused(&self) -> impl Iterator<Item = (&K, &ClientKey, &CompactLane)> {
        self.compact.iter().map(|(key, unused)| (key, &unused.owner, &unused.lane))
    }

    /// What is remembered of the lane of `key`, if it is not in use.
    pub(super) fn get_unused(&self, key: &K) -> Option<&CompactLane> {
        self.compact.get(key).map(|unused| &unused.lane)
    }

    /// Removes what is remembered of a lane that is not in use, to use it again.
    pub(super) fn take_unused(&mut self, key: &K) -> Option<(ClientKey, CompactLane)> {
        let UnusedLane { owner, lane } = *self.compact.remove(key)?;
        self.bytes.fetch_sub(unused_bytes(key, &lane), Ordering::Relaxed);
        Some((owner, lane))
    }

    /// Puts `lane` in, which is counted for `owner`.
    pub(super) fn insert(
        &mut self,
        key: K,
        (owner, lane): (ClientKey, Lane),
        max_exchanges: usize,
        context: &Arc<PaceContext>,
    ) -> Arc<LaneCell<K>> {
        let cell = LaneCell::new(key.clone(), (owner, lane), max_exchanges, &self.bytes, context);
        self.cells.insert(key, Arc::clone(&cell));
        cell
    }

    /// Removes the lanes whose keys are not to be kept.
    pub(super) fn remove_unless(&mut self, keep: impl Fn(&K) -> bool) -> Vec<Arc<LaneCell<K>>> {
        let bytes = &self.bytes;
        self.compact.retain(|key, unused| {
            let is_kept = keep(key);
            if !is_kept {
                bytes.fetch_sub(unused_bytes(key, &unused.lane), Ordering::Relaxed);
            }
            is_kept
        });
        let removed: Vec<_> = self.cells.extract_if(|key, _| !keep(key)).collect();
        removed
            .into_iter()
            .map(|(_, cell)| {
                cell.state.lock().remove(&cell);
                cell
            })
            .collect()
    }

    /// Folds the lanes that are not in use, and forgets those of which nothing need be remembered,
    /// if there have come to be many. If they take too much memory still, forgets those that end
    /// first; returns how many, and when the last of these would have ended.
    pub(super) fn sweep(&mut self, conditions: &SweepConditions) -> Option<(usize, Tick)> {
        let is_full = self.is_full(conditions);
        if is_full || self.cells.len() >= self.compact_at {
            self.compact(conditions);
            self.compact_at = SWEEP_MIN.max(2 * self.cells.len());
        }
        if is_full || self.compact.len() >= self.forget_at {
            self.forget(|unused| is_over(&unused.lane, conditions));
            self.forget_at = SWEEP_MIN.max(2 * self.compact.len());
        }
        if !is_full {
            return None;
        }
        let bytes_left = conditions.bytes_max - conditions.bytes_max / FREED;
        let has_room = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed) <= bytes_left;
        let forgotten = if has_room(&self.bytes) { None } else { self.make_room(bytes_left) };
        // What is in use stays: there is no more to be had before many more have come.
        self.make_room_at = if has_room(&self.bytes) {
            0
        } else {
            self.bytes.load(Ordering::Relaxed) + conditions.bytes_max / FREED
        };
        forgotten
    }

    /// Whether the lanes take more memory than they may.
    pub(super) fn is_full(&self, conditions: &SweepConditions) -> bool {
        self.bytes.load(Ordering::Relaxed) > conditions.bytes_max.max(self.make_room_at)
    }

    fn compact(&mut self, conditions: &SweepConditions) {
        let Self { cells, compact, bytes, .. } = self;
        cells.retain(|key, cell| {
            let mut state = cell.state.lock();
            let lane =
                if state.has_no_requests() { state.lane.compact(conditions.now) } else { None };
            let Some(lane) = lane else { return true };
            let owner = state.owner.clone();
            state.remove(cell);
            if !is_over(&lane, conditions) {
                bytes.fetch_add(unused_bytes(key, &lane), Ordering::Relaxed);
                compact.insert(key.clone(), Box::new(UnusedLane { owner, lane }));
            }
            false
        });
    }

    /// Forgets lanes that are not in use.
    fn forget(&mut self, mut is_it: impl FnMut(&UnusedLane) -> bool) {
        let bytes = &self.bytes;
        self.compact.retain(|key, unused| {
            let is_it = is_it(unused);
            if is_it {
                bytes.fetch_sub(unused_bytes(key, &unused.lane), Ordering::Relaxed);
            }
            !is_it
        });
    }

    /// Forgets, of the clients whose lanes take most memory, those lanes that end first, until all
    /// take no more than `bytes_left`.
    fn make_room(&mut self, bytes_left: usize) -> Option<(usize, Tick)> {
        let before = self.len();
        let mut clients = HashMap::<ClientKey, Owned>::default();
        for cell in self.cells.values() {
            let state = cell.state.lock();
            let owned = clients.entry(state.owner.clone()).or_default();
            owned.bytes += state.counted;
            if state.has_no_requests() && state.lane.is_unused() {
                owned.unused.push((state.lane.ends_at(), state.counted));
            }
        }
        for (key, unused) in &self.compact {
            let bytes = unused_bytes(key, &unused.lane);
            let owned = clients.entry(unused.owner.clone()).or_default();
            owned.bytes += bytes;
            owned.unused.push((unused.lane.ends_at(), bytes));
        }
        let share = fair_share(clients.values().map(|owned| owned.bytes).collect(), bytes_left);
        let ends: HashMap<ClientKey, Tick> = clients
            .into_iter()
            .filter_map(|(client, owned)| Some((client, owned.forgotten_until(share)?)))
            .collect();
        self.forget(|unused| {
            ends.get(&unused.owner).is_some_and(|end| unused.lane.ends_at() <= *end)
        });
        self.cells.retain(|_, cell| {
            let mut state = cell.state.lock();
            let is_forgotten = state.has_no_requests()
                && state.lane.is_unused()
                && ends.get(&state.owner).is_some_and(|end| state.lane.ends_at() <= *end);
            if is_forgotten {
                state.remove(cell);
            }
            !is_forgotten
        });
        let forgotten = before - self.len();
        ends.into_values().max().map(|until| (forgotten, until))
    }
}

/// The lanes of one client.
#[derive(Default)]
struct Owned {
    bytes: usize,
    /// Of those that are not in use, the end and the memory.
    unused: Vec<(Tick, usize)>,
}

impl Owned {
    /// So much of it is to be forgotten that the rest takes no more than `share`: what ends until
    /// then. `None`: nothing.
    fn forgotten_until(mut self, share: usize) -> Option<Tick> {
        self.unused.sort_unstable();
        let mut rest = self.bytes;
        let mut end = None;
        for (ends_at, bytes) in self.unused {
            if rest <= share {
                break;
            }
            rest -= bytes;
            end = Some(ends_at);
        }
        end
    }
}

fn is_over(lane: &CompactLane, conditions: &SweepConditions) -> bool {
    lane.is_over(conditions.now)
}

/// The memory of a lane that is not in use, with its place in a table, which is empty by half.
fn unused_bytes<K: Key>(key: &K, lane: &CompactLane) -> usize {
    2 * size_of::<(K, Box<UnusedLane>)>()
        + key.heap_bytes()
        + size_of::<UnusedLane>()
        + lane.heap_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::config::Config;
    use crate::pace::hold::{Cause, Hold};
    use crate::runtime::clock::SystemClock;
    use crate::types::origin::{Host, Scheme};

    const NOW: Tick = Tick::from_micros(1);

    fn origin(number: usize) -> Origin {
        Origin::new(Scheme::Http, Host::Name(format!("site-{number}.example").into()), 80)
    }

    fn client(number: usize) -> ClientKey {
        ClientKey::User(number.to_string().into())
    }

    fn conditions(now: Tick, bytes_max: usize) -> SweepConditions {
        SweepConditions { now, bytes_max }
    }

    /// Lanes that come one after another, under a bound.
    struct World {
        shard: Shard,
        context: Arc<PaceContext>,
        bytes_max: usize,
        count: usize,
        /// Until which the last that was forgotten would have had a hold.
        forgotten_until: Option<Tick>,
    }

    impl World {
        fn new(bytes_max: usize) -> Self {
            let context = PaceContext::new(Config::off(), Arc::new(SystemClock));
            let shard = Shard::default();
            Self { shard, context, bytes_max, count: 0, forgotten_until: None }
        }

        /// A new lane of `owner`, with a hold of so many seconds; 0: none.
        fn add(&mut self, owner: &ClientKey, hold: u64) -> Arc<LaneCell> {
            let mut lane = Lane::new(Config::off().lane, false);
            if hold > 0 {
                let until = NOW + Duration::from_secs(hold);
                lane.set_hold(Hold { until, status: 429, cause: Cause::RetryAfter }, NOW);
            }
            let forgotten = self.shard.sweep(&conditions(NOW, self.bytes_max));
            self.forgotten_until = forgotten.map(|(_, until)| until).max(self.forgotten_until);
            self.count += 1;
            let key = origin(self.count - 1);
            self.shard.insert(key, (owner.clone(), lane), usize::MAX, &self.context)
        }

        /// The holds of `owner` that are remembered, in seconds.
        fn holds(&self, owner: &ClientKey) -> Vec<u64> {
            let ends = |ends_at: Tick| ends_at.since(NOW).as_secs();
            let unused = self.shard.unused().filter(|(_, client, _)| *client == owner);
            let unused = unused.map(|(_, _, lane)| ends(lane.ends_at()));
            let cells = self.shard.cells().map(|cell| cell.state.lock());
            let cells = cells.filter(|state| state.owner == *owner);
            let mut holds: Vec<_> =
                unused.chain(cells.map(|state| ends(state.lane.ends_at()))).collect();
            holds.sort_unstable();
            holds
        }
    }

    #[test]
    fn what_is_not_in_use_is_folded_and_then_forgotten() {
        let mut world = World::new(usize::MAX);
        let mut used = Vec::new();
        for number in 0..SWEEP_MIN {
            let cell = world.add(&client(0), if number % 2 == 0 { 60 } else { 0 });
            if number < 2 {
                used.push(cell.issue_guard(&mut cell.state.lock(), None, client(0)));
            }
        }
        let shard = &mut world.shard;
        assert_eq!((shard.cells.len(), shard.compact.len()), (SWEEP_MIN, 0));
        shard.sweep(&conditions(NOW, usize::MAX));
        // The two with an exchange stay, and of the others those on hold.
        assert_eq!((shard.cells.len(), shard.compact.len()), (2, SWEEP_MIN / 2 - 1));
        shard.forget_at = 0;
        shard.sweep(&conditions(NOW + Duration::from_secs(60), usize::MAX));
        assert_eq!(shard.compact.len(), 0);
        drop(used);
    }

    /// Whatever lies ahead of the lanes that are there, one that comes has a place.
    #[test]
    fn p6_at_the_bound_the_lanes_that_end_first_are_forgotten() {
        const BOUND: usize = 1 << 18;
        for (name, hold) in [
            // Those that end in the same microsecond are forgotten together: here fifty.
            ("nearly the same", (|number| 3600 + number / 50) as fn(u64) -> u64),
            ("rising", |number| 1000 + number),
            ("falling", |number| 100_000 - number),
            ("nothing", |_| 0),
        ] {
            let mut world = World::new(BOUND);
            for number in 0..20_000 {
                world.add(&client(0), hold(number));
                // A new lane is not in the count of those before it.
                assert!(world.shard.bytes.load(Ordering::Relaxed) <= BOUND + 4096, "{name}");
            }
            let kept = world.holds(&client(0));
            let forgotten = world.forgotten_until.map(|until| until.since(NOW).as_secs());
            assert_eq!(forgotten.is_some(), name != "nothing", "{name}");
            if name != "falling" {
                let kept_from = forgotten.map_or(0, |until| until.min(hold(19_999)));
                assert!(kept.iter().all(|hold| *hold >= kept_from), "{name}");
            }
            if name == "nothing" {
                continue;
            }
            assert!(kept.len() > 500, "{name}: {}", kept.len());
        }
    }

    /// (name, lanes and hold of each client in turn, lanes of the first client that stay)
    #[test]
    fn p6_a_client_with_many_lanes_pushes_out_none_of_others() {
        const BOUND: usize = 1 << 18;
        for (name, others, hold, expected) in [
            ("one with longer holds", 1, 100_000, 100),
            ("one with shorter holds", 1, 10, 100),
            ("three", 3, 100_000, 100),
        ] {
            let mut world = World::new(BOUND);
            for number in 0..20_000 {
                if number < 100 {
                    world.add(&client(0), 60);
                }
                world.add(&client(1 + number % others), hold);
            }
            assert_eq!(world.holds(&client(0)).len(), expected, "{name}");
        }
    }

    #[test]
    fn p6_what_is_in_use_stays_and_is_counted_for_its_client() {
        let mut world = World::new(1 << 18);
        let mut guards = Vec::new();
        for _ in 0..2000 {
            let cell = world.add(&client(1), 0);
            guards.push(cell.issue_guard(&mut cell.state.lock(), None, client(1)));
            world.add(&client(0), 60);
        }
        let is_used = |cell: &&Arc<LaneCell>| !cell.state.lock().has_no_requests();
        assert_eq!(world.shard.cells().filter(is_used).count(), 2000);
        assert!(!world.holds(&client(0)).is_empty());
        drop(guards);
        world.make_room();
        assert_eq!(world.shard.bytes.load(Ordering::Relaxed), world.recounted());
    }

    impl World {
        fn make_room(&mut self) {
            self.shard.make_room_at = 0;
            self.shard.sweep(&conditions(NOW, self.bytes_max));
        }

        /// The memory of all lanes, counted again.
        fn recounted(&self) -> usize {
            let unused = self.shard.unused().map(|(key, _, lane)| unused_bytes(key, lane));
            let cells = self.shard.cells();
            let cells = cells.map(|cell| cell.bytes(&cell.state.lock().lane));
            unused.chain(cells).sum()
        }
    }

    #[test]
    fn what_is_wanted_is_shared_fairly() {
        for (wanted, total, expected) in [
            (&[][..], 10, usize::MAX),
            (&[4, 6], 10, usize::MAX),
            (&[4, 7], 10, 6),
            (&[20, 20], 10, 5),
            (&[1, 2, 100, 50], 43, 20),
            (&[11], 10, 10),
        ] {
            assert_eq!(fair_share(wanted.to_vec(), total), expected, "{wanted:?}");
        }
    }
}
