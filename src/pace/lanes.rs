//! The lanes of all origins. Through them a request starts over its connection: when its time has
//! come at the origin, and at the address that the connection leads to. They also announce this proxy
//! at the origins that it requests, so that the proxies there share its concurrency, and learn of
//! holds.
//!
//! The lanes are entered in this order, and a turn at an address never waits for an origin: a request
//! that has to wait for its origin, or for an engine, gives the turn at the address back within a
//! second.

use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::Guard;
use foldhash::HashMap;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::addresses::Addresses;
use super::config::{Config, KEPT_DELAY_MAX, KEPT_HOLD_MIN, KEPT_LANES_MAX, fair_share};
use super::context::PaceContext;
use super::hold::RETRY_AFTER_MAX;
use super::lane::kept::KeptLane;
use super::lane::{Lane, Share};
use super::lane_cell::{self, LaneCell, State};
use super::lane_waits::{LaneHold, LaneWait, LaneWaits};
use super::listener::PaceListener;
use super::no_turn::{NoTurn, WaitReason};
use super::shard::{Shard, SweepConditions};
use super::stats::{Counts, WaitTotals};
use super::tick::Tick;
use super::turn::Turn;
use crate::engine::{self, Engine, Pending, ReservedSlots, SlotsRequest};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
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
    /// The process before did not say what lies ahead.
    history_lost: AtomicBool,
    /// Until then something may lie ahead that has been forgotten for want of memory.
    forgotten_until: Lock<Tick>,
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
            history_lost: AtomicBool::new(false),
            forgotten_until: Lock::default(),
        })
    }

    /// For commands that send single requests: none waits.
    pub fn off(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::new(Config::off(), clock)
    }

    /// Tells `listener` of waits and holds, in place of the log. Only the first call has an effect.
    pub fn set_listener(&self, listener: Arc<dyn PaceListener>) {
        self.context.set_listener(listener);
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
        let now = self.now();
        for (origin, lane) in kept {
            self.with_lane(&origin, &ClientKey::Proxy, |cell, state| {
                state.lane.restore(lane, (KEPT_DELAY_MAX, RETRY_AFTER_MAX), now);
                cell.count_bytes(state);
            });
        }
    }

    /// The lanes that have a time ahead, the longest first; without `all`, those with a long hold.
    /// And whether nothing else is known to lie ahead.
    pub fn kept(&self, all: bool) -> (Vec<(Origin, KeptLane)>, bool) {
        let now = self.now();
        let is_held = |lane: &KeptLane| lane.hold.is_some_and(|it| it.rest >= KEPT_HOLD_MIN);
        let mut kept = HashMap::<ClientKey, Vec<(Origin, KeptLane)>>::default();
        let mut keep = |client: &ClientKey, origin: &Origin, lane: Option<KeptLane>| {
            if let Some(lane) = lane.filter(|lane| all || is_held(lane)) {
                kept.entry(client.clone()).or_default().push((origin.clone(), lane));
            }
        };
        for shard in &self.shards {
            let shard = shard.lock();
            shard.unused().for_each(|(origin, client, lane)| keep(client, origin, lane.kept(now)));
            for cell in shard.cells() {
                let state = cell.state.lock();
                keep(&state.owner, &cell.key, state.lane.kept(now));
            }
        }
        // What the process before knew of other origins may lie ahead still.
        let history_lost =
            self.history_lost.load(Ordering::Relaxed) && now < Tick::default() + KEPT_DELAY_MAX;
        let has_forgotten = now < *self.forgotten_until.lock();
        let share = fair_share(kept.values().map(Vec::len).collect(), KEPT_LANES_MAX);
        let is_complete = all && !history_lost && !has_forgotten && share == usize::MAX;
        let longest_first = |(_, lane): &(Origin, KeptLane)| Reverse(lane.length());
        let of_client = |mut lanes: Vec<(Origin, KeptLane)>| {
            if lanes.len() > share {
                lanes.sort_by_key(longest_first);
                lanes.truncate(share);
            }
            lanes
        };
        let mut kept: Vec<_> = kept.into_values().flat_map(of_client).collect();
        kept.sort_by_key(longest_first);
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

    /// The lane of `origin`, made for `client` if need be.
    pub(super) fn with_lane<T>(
        &self,
        origin: &Origin,
        client: &ClientKey,
        act: impl FnOnce(&Arc<LaneCell>, &mut State) -> T,
    ) -> T {
        let lane = origin.lane();
        loop {
            let cell = self.cell(&lane, client);
            let mut state = cell.state.lock();
            if !state.is_removed {
                state.own(client);
                return act(&cell, &mut state);
            }
        }
    }

    /// The lane of this name ([`Origin::lane`]), made for `client` if need be.
    fn cell(&self, origin: &Origin, client: &ClientKey) -> Arc<LaneCell> {
        let mut shard = self.shard(origin).lock();
        if let Some(cell) = shard.get(origin) {
            return Arc::clone(cell);
        }
        let conditions = self.conditions();
        self.sweep(&mut shard, &conditions);
        let config = self.context.config.load();
        let (lane_config, max_exchanges) = (config.lane(origin), config.max_exchanges);
        let (owner, mut lane) = match shard.take_unused(origin) {
            Some((owner, compact)) => (owner, compact.expand(lane_config)),
            None => {
                let history_lost = self.history_lost.load(Ordering::Relaxed);
                (client.clone(), Lane::new(lane_config, history_lost))
            }
        };
        lane.set_share(self.context.peers.share());
        shard.insert(origin.clone(), (owner, lane), max_exchanges, &self.context)
    }

    /// Forgets the lanes that end first, where those of a shard have come to take too much memory.
    /// To be called each second.
    pub fn make_room(&self) {
        let conditions = self.conditions();
        for shard in &self.shards {
            let mut shard = shard.lock();
            if shard.is_full(&conditions) {
                self.sweep(&mut shard, &conditions);
            }
        }
    }

    fn sweep(&self, shard: &mut Shard, conditions: &SweepConditions) {
        if let Some((lanes, until)) = shard.sweep(conditions) {
            self.context.stats.note_forgotten(lanes);
            let mut forgotten_until = self.forgotten_until.lock();
            *forgotten_until = until.max(*forgotten_until);
        }
    }

    fn conditions(&self) -> SweepConditions {
        let config = self.context.config.load();
        SweepConditions { now: self.now(), bytes_max: config.lanes_bytes_max / SHARDS }
    }

    fn shard(&self, origin: &Origin) -> &Lock<Shard> {
        let hash = self.hasher.hash_one(origin);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    pub(super) fn all(&self) -> Vec<Arc<LaneCell>> {
        let cells = |shard: &Lock<Shard>| shard.lock().cells().cloned().collect::<Vec<_>>();
        self.shards.iter().flat_map(cells).collect()
    }

    /// What is known of the lane of `origin`, if some request would have to wait there.
    pub fn view(&self, origin: &Origin) -> Option<LaneView> {
        let origin = origin.lane();
        let (now, shard) = (self.now(), self.shard(&origin).lock());
        if let Some(lane) = shard.get_unused(&origin) {
            return lane.kept(now).map(|ahead| LaneView { waiting: 0, ahead });
        }
        let cell = shard.get(&origin).cloned()?;
        drop(shard);
        let state = cell.state.lock();
        let ahead = state.lane.kept(now).unwrap_or_default();
        let view = LaneView { waiting: state.waiters.len(), ahead };
        (view != LaneView::default()).then_some(view)
    }

    /// What waits in all lanes at this moment and why, and which are held: at most `max` of them. A walk
    /// through all; no lock is held for longer than a part of them.
    pub fn waits(&self, max: usize) -> LaneWaits {
        let (now, mut waits) = (self.now(), LaneWaits::default());
        for shard in &self.shards {
            let shard = shard.lock();
            for (origin, _, lane) in shard.unused() {
                if let Some(hold) = lane.hold_at(now) {
                    waits.add(LaneWait::held(origin.to_string(), LaneHold::of(hold, now)), max);
                }
            }
            let cells: Vec<_> = shard.cells().cloned().collect();
            drop(shard);
            for cell in cells {
                let wait = cell.state.lock().wait(&cell.key, now);
                wait.into_iter().for_each(|wait| waits.add(wait, max));
            }
        }
        for cell in self.addresses.cells() {
            let wait = cell.state.lock().wait(&cell.key, now);
            wait.into_iter().for_each(|mut wait| {
                // Whatever it is in the lane, it is a limit of the address.
                wait.longest.iter_mut().for_each(|longest| longest.by = WaitReason::Address);
                waits.add(wait, max);
            });
        }
        waits.keep(max);
        waits
    }

    /// Ends the hold of `origin`; whether there was one.
    pub fn end_hold(&self, origin: &Origin) -> bool {
        if self.view(origin).is_none_or(|view| view.ahead.hold.is_none()) {
            return false;
        }
        let cell = self.cell(&origin.lane(), &ClientKey::Proxy);
        let now = self.now();
        let was_held = cell.update(now, |state| {
            let was_held = state.lane.hold_at(now).is_some();
            state.lane.end_hold();
            was_held
        });
        if was_held {
            lane_cell::end_hold(&cell);
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
        for shard in &self.shards {
            for (_, _, lane) in shard.lock().unused() {
                counts.lanes += usize::from(!lane.is_over(now));
                counts.holds += usize::from(lane.hold_at(now).is_some());
            }
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

impl Lanes {
    /// Whether starts at addresses have limits. Where they have none, no address need be given.
    pub fn has_address_limits(&self) -> bool {
        self.addresses.have_limits()
    }

    /// Starts the request of `turn`, if that need not wait and has waited for nothing since it was
    /// taken. It is to be written at once.
    pub fn try_start_immediately(&self, turn: &mut Turn) -> bool {
        !self.has_address_limits() && turn.try_start_immediately()
    }

    /// Starts the request of `turn` over a connection to `address`, unless it has to wait. It is to
    /// be written at once.
    pub fn try_start(&self, turn: &mut Turn, address: Option<IpAddr>) -> bool {
        if let Some(address) = self.limited(turn, address) {
            return turn.try_start_at_address(&self.addresses, address);
        }
        turn.leave_address();
        turn.try_start_at_origin()
    }

    /// Waits until [`Self::try_start`] is likely to start the request. Returns how long it took.
    ///
    /// # Errors
    ///
    /// The request would wait for longer than it may, or the proxy stops first.
    pub async fn wait_for_start_time(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<Duration, NoTurn> {
        let since = self.now();
        let waited = self.wait_for_both(turn, address, shutdown).await;
        waited.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))?;
        Ok(self.now().since(since))
    }

    async fn wait_for_both(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        turn.wait_for_origin_start().await?;
        if let Some(address) = self.limited(turn, address) {
            turn.wait_at_address(&self.addresses, address, shutdown).await?;
        }
        turn.reserve_if_needed().await
    }

    /// Waits until the request has started.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_for_start_time`].
    pub async fn start(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        while !self.try_start(turn, address) {
            self.wait_for_start_time(turn, address, shutdown).await?;
        }
        Ok(())
    }

    /// The address at which the request takes a turn, if it has limits.
    fn limited(&self, turn: &Turn, address: Option<IpAddr>) -> Option<IpAddr> {
        if !self.has_address_limits() || !turn.counts_at_addresses() {
            return None;
        }
        self.addresses.limited(address?)
    }
}

/// A hold that ends so much later than what is known is another one.
const HOLD_NOTICEABLE: Duration = Duration::from_millis(250);

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

    /// Takes up a hold that another process has begun, where this one sends requests, or is about to.
    pub fn take_up_hold(&self, lane: &Origin, hold: engine::Hold, is_used: bool) {
        let cell = if is_used {
            Some(self.with_lane(lane, &ClientKey::Proxy, |cell, _| Arc::clone(cell)))
        } else {
            self.shard(lane).lock().get(lane).cloned()
        };
        let Some(cell) = cell else { return };
        let now = self.now();
        // This process's own comes back to it.
        let known = cell.state.lock().lane.hold_for_all(now);
        if known.is_none_or(|known| known.until + HOLD_NOTICEABLE < now + hold.left) {
            lane_cell::apply_engine_hold(&cell, Some(hold), (now, now));
        }
    }

    /// Brings this proxy's share up to date.
    fn update_share(&self) {
        let now = self.now();
        let Some(share) = self.context.peers.update(self.context.config.load().away) else {
            return;
        };
        for cell in self.all() {
            cell.update(now, |state| {
                let proxies = state.lane.share().proxies;
                state.lane.set_share(Share { proxies, ..share });
            });
        }
    }

    /// Tells the engine what was started without it, once it responds again. To be called often.
    pub async fn tell(&self) {
        if let Some(engine) = self.context.peers.engine().filter(|engine| engine.has_to_tell()) {
            self.tell_starts(engine).await;
        }
    }

    /// Brings this proxy's share up to date, and announces it where it sends requests. To be called each
    /// second, where there is an engine.
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

impl Lanes {
    /// Announces this proxy at an origin, whether or not that is due.
    #[cfg(test)]
    pub(super) async fn announce_again(&self, origin: &Origin) {
        let cell = self.cell(&origin.lane(), &ClientKey::Proxy);
        announce(self.context.peers.engine().expect("there is one"), &[cell]).await;
    }

    /// Tells the engine how long after this proxy's starts nothing may start, and ends its time alone:
    /// from then on others use its cells. If the engine goes again meanwhile, that time goes on.
    async fn tell_starts(&self, engine: &Arc<dyn Engine>) {
        let (lanes, _) = self.kept(true);
        for lanes in lanes.chunks(ANNOUNCED_AT_ONCE) {
            let calls: Vec<_> = lanes.iter().flat_map(|it| raise(engine, it)).collect();
            for call in calls {
                if call.await.is_err() {
                    return;
                }
            }
        }
        engine.end_alone();
    }
}

/// The operations that move the next starts of a lane at the engine forward.
fn raise(
    engine: &Arc<dyn Engine>,
    (origin, lane): &(Origin, KeptLane),
) -> Vec<Pending<ReservedSlots>> {
    let ask = |group: &str, lane_delay: Duration, site_delay: Duration| {
        engine.reserve_slots(SlotsRequest {
            origin,
            group,
            lane_delay,
            site_delay,
            cell_delay: lane_delay.max(site_delay),
            slack: Duration::ZERO,
            horizon: engine::HORIZON_MAX,
            count: 0,
            left: lane_delay.max(site_delay),
            missed: None,
        })
    };
    let of_lane = (!lane.next.is_zero()).then(|| ask("", lane.next, Duration::ZERO));
    let groups = lane.groups.iter().filter(|(_, next)| !next.is_zero());
    let groups = groups.map(|(group, next)| ask(group, Duration::ZERO, *next));
    of_lane.into_iter().chain(groups).collect()
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
            lane_cell::apply_engine_hold(cell, presence.hold, (now, now));
        }
    }
}

#[cfg(test)]
mod tests {

    use http::header::{HeaderMap, RETRY_AFTER};
    use http::{HeaderValue, StatusCode};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::pace::config::{AddressLimits, PaceMode};
    use crate::pace::hold::Cause;
    use crate::pace::turn_request::TurnRequest;
    use crate::pace::visits::Visit;
    use crate::policy::pace::SitePace;
    use crate::robots::DelayRecord;
    use crate::runtime::clock::{ManualClock, SystemClock};
    use crate::types::origin::{Host, Scheme};
    use crate::types::timestamp::Timestamp;

    fn origin(name: &str) -> Origin {
        Origin::from_authority(Scheme::Https, name).unwrap()
    }

    /// A request of `client`, which the origin answers with so many seconds of rest.
    async fn rest(lanes: &Lanes, client: &str, origin: &Origin, seconds: &'static str) {
        let request = TurnRequest {
            origin,
            client: &ClientKey::User(client.into()),
            mode: None,
            group: "",
            site_pace: None,
            outside_visit_time: None,
            visit: Visit::None,
            is_robots_txt: false,
            max_wait: None,
            shutdown: &CancellationToken::new(),
        };
        let turn = lanes.acquire(&request).await.expect("a new origin has a turn");
        let after = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(seconds))]);
        turn.note_response(StatusCode::TOO_MANY_REQUESTS, &after);
    }

    #[tokio::test]
    async fn p6_a_client_with_many_hosts_shuts_none_and_forgets_none_of_others() {
        let config = Config { mode: PaceMode::Enforce, lanes_bytes_max: 2 << 20, ..Config::off() };
        let lanes = Lanes::new(config, Arc::new(SystemClock));
        let is_held =
            |origin: &Origin| lanes.view(origin).is_some_and(|it| it.ahead.hold.is_some());
        let others: Vec<_> = (0..20).map(|number| origin(&format!("{number}.other"))).collect();
        for origin in &others {
            rest(&lanes, "other", origin, "600").await;
        }
        for number in 0..20_000 {
            rest(&lanes, "hostile", &origin(&format!("{number}.example")), "3600").await;
        }
        assert!(others.iter().all(is_held));
        let counts = lanes.counts();
        assert!(counts.forgotten > 10_000, "{}", counts.forgotten);
        assert!(counts.holds > 2000 && counts.holds < 10_000, "{}", counts.holds);
        let (kept, is_complete) = lanes.kept(true);
        assert!(!is_complete, "what was forgotten lies ahead still");
        assert!(others.iter().all(|origin| kept.iter().any(|(kept, _)| kept == origin)));
    }

    /// Requests that wait, until this is dropped.
    struct WaitingRequests(Vec<tokio::task::JoinHandle<()>>, Arc<Lanes>);

    impl WaitingRequests {
        /// One more of `client` at `host`, of which the site asks a delay in line 3 of its robots.txt.
        async fn add(&mut self, client: &str, host: &str, delay: u64) {
            let lanes = Arc::clone(&self.1);
            let (client, origin) = (ClientKey::User(client.into()), origin(host));
            let delay = Duration::from_secs(delay);
            let site = SitePace {
                delay,
                asked: delay,
                record: DelayRecord::CrawlDelay,
                line: 3,
                is_exempted: false,
            };
            self.0.push(tokio::spawn(async move {
                let request = TurnRequest {
                    origin: &origin,
                    client: &client,
                    mode: None,
                    group: "examplebot",
                    site_pace: Some(site),
                    outside_visit_time: None,
                    visit: Visit::None,
                    is_robots_txt: false,
                    max_wait: None,
                    shutdown: &CancellationToken::new(),
                };
                let mut turn = lanes.acquire(&request).await.expect("it may wait");
                assert!(lanes.try_start(&mut turn, None));
                std::future::pending().await
            }));
            while self.1.counts().waiting + self.1.exchanges() < self.0.len() {
                tokio::task::yield_now().await;
            }
        }
    }

    impl Drop for WaitingRequests {
        fn drop(&mut self) {
            self.0.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }

    #[tokio::test]
    async fn who_waits_is_told_with_the_reason_and_within_bounds() {
        let clock = ManualClock::starting_at(Timestamp::from_millis(1_000_000));
        let config = Config {
            mode: PaceMode::Enforce,
            max_wait: Duration::from_hours(1),
            max_waiting_per_origin: 100,
            ..config()
        };
        let lanes = Lanes::new(config, Arc::clone(&clock) as _);
        assert_eq!(lanes.waits(10), LaneWaits::default());
        let mut requests = WaitingRequests(Vec::new(), Arc::clone(&lanes));
        // The first has its turn at once.
        for client in ["ada", "ada", "ada", "bob"] {
            requests.add(client, "slow.example", 60).await;
        }
        for host in ["1.example", "2.example"] {
            rest(&lanes, "ada", &origin(host), "600").await;
        }
        clock.advance(Duration::from_secs(5));
        let waits = lanes.waits(2);
        assert_eq!((waits.lanes.len(), waits.other_lanes, waits.other_waiting), (2, 1, 0));
        let slow = &waits.lanes[0];
        assert_eq!(
            (slow.lane.as_str(), slow.waiting(), slow.under_way),
            ("https://slow.example", 3, 1)
        );
        let clients = slow.clients.clients.iter().map(|it| (it.user.as_deref(), it.waiting));
        assert_eq!(clients.collect::<Vec<_>>(), [(Some("ada"), 2), (Some("bob"), 1)]);
        let longest = slow.longest.as_ref().expect("a request");
        assert_eq!((longest.by, longest.line), (WaitReason::CrawlDelay, Some(3)));
        assert_eq!(longest.group.as_deref(), Some("examplebot"));
        // The clock goes on by itself, too.
        assert_eq!((longest.waited_ms >= 5_000, longest.delay_ms), (true, 60_000));
        assert!(longest.next_ms.is_some_and(|next| next <= 55_000), "{longest:?}");
        let hold = waits.lanes[1].hold.as_ref().expect("a hold");
        assert_eq!((hold.status, hold.cause), (429, Cause::RetryAfter));
        assert!((60_000..=595_000).contains(&hold.left_ms), "{hold:?}");
        assert_eq!(waits.lanes[1].longest, None);
        // A hold is the reason once there is one.
        lanes.take_up_hold(
            &origin("slow.example"),
            engine::Hold {
                left: Duration::from_secs(600),
                status: 429,
                cause: engine::HoldCause::RetryAfter,
            },
            true,
        );
        let longest = lanes.waits(1).lanes[0].longest.clone().expect("a request");
        assert_eq!(longest.by, WaitReason::Hold);
        assert!(longest.next_ms.is_some_and(|next| next > 60_000), "{longest:?}");
        // All that have left are gone.
        drop(requests);
        while lanes.counts().waiting > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lanes.waits(0).lanes.len(), 0);
        assert_eq!(lanes.waits(0).other_lanes, 3, "the holds");
    }

    fn config() -> Config {
        Config { mode: PaceMode::Enforce, max_wait: Duration::from_secs(1), ..Config::off() }
    }

    async fn turn(lanes: &Lanes) -> Turn {
        let request = TurnRequest {
            origin: &Origin::new(Scheme::Http, Host::Name("a.example".into()), 80),
            client: &ClientKey::Proxy,
            mode: None,
            group: "",
            site_pace: None,
            outside_visit_time: None,
            visit: Visit::Document,
            is_robots_txt: false,
            max_wait: None,
            shutdown: &CancellationToken::new(),
        };
        lanes.acquire(&request).await.expect("nothing to wait for")
    }

    #[tokio::test]
    async fn a_request_that_has_waited_for_its_connection_starts_in_no_hold() {
        let lanes = Lanes::new(config(), Arc::new(SystemClock));
        let (first, mut second) = (turn(&lanes).await, turn(&lanes).await);
        let rest = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
        first.note_response(StatusCode::TOO_MANY_REQUESTS, &rest);
        assert!(!lanes.try_start(&mut second, None), "its origin is held");
        assert!(!lanes.try_start_immediately(&mut second), "it has waited");
        let no_turn = lanes.wait_for_start_time(&mut second, None, &CancellationToken::new()).await;
        assert!(matches!(no_turn, Err(NoTurn::Held { .. })), "{no_turn:?}");
    }

    #[tokio::test]
    async fn a_request_that_waits_for_nothing_starts_once_at_once() {
        let lanes = Lanes::new(config(), Arc::new(SystemClock));
        let mut taken = turn(&lanes).await;
        assert!(lanes.try_start_immediately(&mut taken));
        assert!(!lanes.try_start_immediately(&mut taken));
        taken.rearm();
        assert!(lanes.try_start(&mut taken, None));
    }

    #[tokio::test]
    async fn a_request_with_a_limit_at_its_address_does_not_start_at_once() {
        let addresses = AddressLimits { delay: Duration::from_secs(1), ..config().addresses };
        let lanes = Lanes::new(Config { addresses, ..config() }, Arc::new(SystemClock));
        assert!(!lanes.try_start_immediately(&mut turn(&lanes).await));
    }
}
