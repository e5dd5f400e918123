//! The engine within one process, for tests. It computes what the
//! scripts of `redis` do; a property holds the two against each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;

use super::cells::OwnRank;
use super::clock::{EngineClock, Micros, micros};
use super::error::{Error, ErrorKind};
use super::format::{self, FORMAT};
use super::lane::SlotsRequestMicros;
use super::members::{Heartbeat, LogHead, Members, NamedHeads, in_order};
use super::site::{Cluster, HeartbeatRequest, PresenceTimes, Site};
use super::stats::Stats;
use super::{
    Config, Engine, FileDigest, GivenSlot, Hold, HoldRequest, KEPT, KNOWN_BYTES_MAX, LEASE,
    LeaseToken, LookupRequest, LookupResponse, Pending, Presence, PublishOutcome, PublishRequest,
    ReservedSlots, SlotsRequest, Status, bounded_micros, ready,
};
use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::origin::Origin;

/// One proxy's handle on a state that proxies of the same process share.
#[derive(Debug)]
pub struct MemoryEngine {
    shared: Arc<Shared>,
    config: Config,
    /// The clock of this proxy.
    own: Arc<dyn EngineClock>,
    members: Arc<Lock<Members>>,
    head: Lock<Option<LogHead>>,
    is_away: AtomicBool,
    has_beaten: AtomicBool,
    /// This proxy has signed off.
    has_left: AtomicBool,
    /// The number of operations that are to fail, though the engine counts as up.
    failures: AtomicUsize,
    stats: Arc<Stats>,
}

#[derive(Debug)]
struct Shared {
    state: Lock<State>,
    clock: Arc<dyn EngineClock>,
}

impl MemoryEngine {
    /// The first handle on a state of its own, in which nothing can have been forgotten.
    pub fn new(config: Config, clock: Arc<dyn EngineClock>) -> Self {
        let mut state = State::empty();
        state.cluster.epoch = Some(0);
        Self::on(Arc::new(Shared { state: Lock::new(state), clock }), config)
    }

    /// Another proxy's handle on the same state.
    pub fn beside(&self, config: Config) -> Self {
        Self::on(Arc::clone(&self.shared), config)
    }

    fn on(shared: Arc<Shared>, config: Config) -> Self {
        let own = Arc::clone(&shared.clock);
        Self {
            shared,
            members: Arc::new(Lock::new(Members::new(OwnRank::default()))),
            config,
            own,
            head: Lock::default(),
            is_away: AtomicBool::new(false),
            has_beaten: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            failures: AtomicUsize::new(0),
            stats: Arc::default(),
        }
    }

    /// With another clock than the engine's.
    #[must_use]
    pub fn with_own_clock(self, own: Arc<dyn EngineClock>) -> Self {
        Self { own, ..self }
    }

    /// The time by the clock of this proxy.
    fn own_time(&self) -> Duration {
        Duration::from_micros(self.own.now())
    }

    /// Takes the engine away from this proxy, or gives it back.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Lets the next operations of this proxy fail, as if responses were lost. The engine counts as
    /// up meanwhile.
    pub fn fail(&self, operations: usize) {
        self.failures.store(operations, Ordering::SeqCst);
    }

    /// Loses all data, as a server that restarts without any.
    pub fn lose(&self) {
        *self.shared.state.lock() = State::empty();
    }

    fn now(&self) -> Micros {
        self.shared.clock.now()
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_away.load(Ordering::SeqCst) {
            self.stats.note_error(ErrorKind::Broken);
            return Err(ErrorKind::Broken.with("taken away"));
        }
        let one_less = |failures: usize| failures.checked_sub(1);
        let is_lost = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if is_lost.is_ok() {
            self.stats.note_error(ErrorKind::Timeout);
            return Err(ErrorKind::Timeout.with("lost"));
        }
        Ok(())
    }

    /// Acts on what is known of `origin` itself.
    fn with_site<T>(
        &self,
        origin: &Origin,
        act: impl FnOnce(&mut Site, Micros) -> T,
    ) -> Result<T, Error> {
        self.check()?;
        let mut state = self.shared.state.lock();
        let now = self.now();
        state.site(origin, now).map(|site| act(site, now))
    }

    /// Acts on the lane of `origin`.
    fn with_lane<T>(
        &self,
        origin: &Origin,
        act: impl FnOnce(&mut Site, Micros) -> T,
    ) -> Result<T, Error> {
        self.with_site(&origin.lane(), act)
    }

    fn hold_max(&self) -> Micros {
        bounded_micros(self.config.hold_max)
    }

    fn presence(&self, site: &mut Site, is_used: bool, now: Micros) -> Presence {
        let times =
            PresenceTimes { now, interval: micros(self.members.lock().presence_interval()) };
        let member = self.config.member();
        let proxies = site.announce(is_used.then_some(&member), times);
        Presence { proxies, hold: site.lane.hold_at(now, self.hold_max()) }
    }
}

impl Engine for MemoryEngine {
    fn lookup(&self, request: LookupRequest<'_>) -> Pending<LookupResponse> {
        let member = self.config.member();
        let outcome = self.with_site(request.origin, |site, now| {
            site.lookup(request.have, &member, request.may_fetch, now)
        });
        let response = outcome.and_then(|outcome| {
            let mut state = self.shared.state.lock();
            let now = self.now();
            let site = state.site(&request.origin.lane(), now)?;
            Ok(LookupResponse { outcome, presence: self.presence(site, request.is_used, now) })
        });
        if let Ok(response) = &response {
            self.stats.note_lookup(response.outcome.kind());
        }
        ready(response)
    }

    fn publish(&self, request: PublishRequest<'_>) -> Pending<PublishOutcome> {
        if request.value.len() > KNOWN_BYTES_MAX {
            let length = format!("{} bytes", request.value.len());
            return ready(Err(ErrorKind::TooLarge.with(length)));
        }
        ready(self.with_site(request.origin, |site, now| {
            site.publish(request.token, request.value, micros(KEPT), now)
        }))
    }

    fn renew_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        ready(self.with_site(origin, |site, now| site.set_lease_end(token, now + micros(LEASE))))
    }

    fn release_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        ready(self.with_site(origin, |site, now| site.set_lease_end(token, now)))
    }

    fn reserve_slots(&self, request: SlotsRequest<'_>) -> Pending<ReservedSlots> {
        let view = self.members.lock().view(self.own_time());
        let missing = match view {
            Ok(missing) => missing,
            // What was started without the engine is reported whatever is known of others.
            Err(_) if request.count == 0 => None,
            // Without a heartbeat no other has a rank either.
            Err(_) if !self.has_beaten.load(Ordering::SeqCst) => None,
            Err(error) => {
                self.stats.note_error(error.kind);
                return ready(Err(error));
            }
        };
        let (known_since, hold_max) = (self.members.lock().known_since(), self.hold_max());
        let group = format::group_name(request.group);
        let ask = SlotsRequestMicros::of(&request, &group, known_since);
        ready(self.with_lane(request.origin, |site, now| {
            let slots = site.lane.reserve_slots(&ask, missing.as_deref(), now, hold_max);
            ReservedSlots {
                slots: slots.slots.into_iter().map(Duration::from_micros).collect(),
                beyond: slots.beyond.map(Duration::from_micros),
                hold: site.lane.hold_at(now, hold_max),
                given: slots.last.map(|at| GivenSlot { at, slack: request.slack }),
            }
        }))
    }

    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<Hold> {
        let hold_max = self.hold_max();
        ready(self.with_lane(request.origin, |site, now| {
            site.lane.set_hold(&request, now, now, hold_max)
        }))
    }

    fn reset_backoff(&self, origin: &Origin) -> Pending<bool> {
        ready(self.with_lane(origin, |site, now| site.lane.reset_backoff(now)))
    }

    fn end_hold(&self, origin: &Origin) -> Pending<bool> {
        ready(self.with_lane(origin, |site, now| site.lane.end_hold(now)))
    }

    fn announce_presence(&self, origin: &Origin) -> Pending<Presence> {
        ready(self.with_lane(origin, |site, now| self.presence(site, true, now)))
    }

    fn take_place(&self, origin: &Origin, id: u64, places: usize) -> Pending<bool> {
        let id = self.config.place_id(id);
        ready(self.with_lane(origin, |site, now| site.take_place(id, places, now)))
    }

    fn leave_place(&self, origin: &Origin, id: u64) -> Pending<()> {
        let id = self.config.place_id(id);
        ready(self.with_lane(origin, |site, _| {
            site.places.remove(&id);
        }))
    }

    fn heartbeat(&self) -> Pending<Heartbeat> {
        if let Err(error) = self.check() {
            return ready(Err(error));
        }
        let sent = self.own_time();
        let claim = self.members.lock().claim(sent);
        let request = HeartbeatRequest {
            proxy: &self.config.name,
            process: &self.config.process,
            is_first: !self.has_beaten.swap(true, Ordering::SeqCst),
            format: FORMAT,
            settings: self.config.settings_word(),
            head: *self.head.lock(),
            claim,
        };
        let now = self.now();
        let heartbeat = self.shared.state.lock().cluster.heartbeat(&request, now);
        // It says how the log ends. A proxy that has signed off is to be no member again.
        if self.has_left.load(Ordering::SeqCst) {
            self.shared.state.lock().cluster.leave(&self.config.name, &self.config.process);
        }
        let (members, stats, own) =
            (Arc::clone(&self.members), Arc::clone(&self.stats), Arc::clone(&self.own));
        // A response that is lost says nothing: it counts when it is awaited.
        Box::pin(async move {
            let times = (sent, Duration::from_micros(own.now()));
            if members.lock().note(heartbeat.clone(), times, claim.is_alone) {
                stats.note_lost();
            }
            Ok(heartbeat)
        })
    }

    fn leave(&self) -> Pending<()> {
        self.has_left.store(true, Ordering::SeqCst);
        if self.members.lock().own_rank.has_untold() {
            return ready(Ok(()));
        }
        let leave = || {
            self.shared.state.lock().cluster.leave(&self.config.name, &self.config.process);
        };
        ready(self.check().map(|()| leave()))
    }

    fn ranks(&self) -> Option<(&Lock<Members>, Duration)> {
        Some((&self.members, self.own_time()))
    }

    fn permits(&self, slot: &GivenSlot, delay: Duration) -> bool {
        // Without a heartbeat no other has a rank either.
        !self.has_beaten.load(Ordering::SeqCst)
            || self.members.lock().permits(self.own_time(), slot.times(), delay)
    }

    fn get_file(&self, sha256: FileDigest) -> Pending<Option<Bytes>> {
        ready(self.check().map(|()| self.shared.state.lock().file(&sha256)))
    }

    fn put_file(&self, sha256: FileDigest, content: Bytes) -> Pending<()> {
        let result = self.check().and_then(|()| self.config.check_file(&content));
        ready(result.map(|()| self.shared.state.lock().put_file(sha256, content)))
    }

    fn heads(&self) -> Pending<NamedHeads> {
        let heads = || {
            let state = self.shared.state.lock();
            let heads = state.cluster.heads.values();
            in_order(heads.map(|(_, name, head)| (name.clone(), *head)).collect())
        };
        ready(self.check().map(|()| heads()))
    }

    fn hours(&self, log: LogId) -> Pending<Vec<LogHead>> {
        ready(self.check().map(|()| self.shared.state.lock().cluster.hours(log)))
    }

    fn set_head(&self, head: LogHead) {
        *self.head.lock() = Some(head);
    }

    fn status(&self) -> Status {
        let (members, is_up) = (self.members.lock(), !self.is_away.load(Ordering::SeqCst));
        Status {
            is_up,
            was_reached: true,
            last_error: (!is_up).then(|| ErrorKind::Broken.with("taken away")),
            members: members.last().members,
            rank: members.own_rank.rank(),
            missing: members.missing(),
            namesake: members.last().has_namesake.then(|| self.config.name.clone()),
            same_settings: members.last().same_settings,
            epoch: members.epoch(),
            presence_interval: members.presence_interval(),
            clock_offset: Some(0),
            server: Some("memory".to_owned()),
            ..Status::default()
        }
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// Sites are swept when there are twice as many as after the last sweep, and this many.
const SWEEP_MIN: usize = 1024;
/// Sites with something to remember: as many as there can be lanes.
const SITES_MAX: usize = 1_000_000;
/// The files of a hundred thousand sites; the least recently used go first.
const FILES_BYTES_MAX: usize = 256 << 20;

/// What a server would hold.
#[derive(Debug)]
struct State {
    pub sites: HashMap<Origin, Site>,
    sweep_at: usize,
    files: LruCache<FileDigest, Bytes>,
    file_bytes: usize,
    pub cluster: Cluster,
}

impl State {
    /// No data yet; the first heartbeat begins it.
    fn empty() -> Self {
        Self {
            sites: HashMap::new(),
            sweep_at: SWEEP_MIN,
            files: LruCache::unbounded(),
            file_bytes: 0,
            cluster: Cluster::default(),
        }
    }

    /// The state of an origin, made if need be.
    fn site(&mut self, origin: &Origin, now: Micros) -> Result<&mut Site, Error> {
        if self.sites.len() >= self.sweep_at && !self.sites.contains_key(origin) {
            self.sites.retain(|_, site| !site.is_over(now));
            if self.sites.len() >= SITES_MAX {
                return Err(ErrorKind::Memory.with("too many origins"));
            }
            self.sweep_at = SWEEP_MIN.max(2 * self.sites.len()).min(SITES_MAX);
        }
        Ok(self.sites.entry(origin.clone()).or_default())
    }

    fn file(&mut self, sha256: &FileDigest) -> Option<Bytes> {
        self.files.get(sha256).cloned()
    }

    fn put_file(&mut self, sha256: FileDigest, content: Bytes) {
        self.file_bytes += content.len();
        if let Some(before) = self.files.put(sha256, content) {
            self.file_bytes -= before.len();
        }
        while self.file_bytes > FILES_BYTES_MAX {
            let Some((_, content)) = self.files.pop_lru() else { break };
            self.file_bytes -= content.len();
        }
    }
}

impl MemoryEngine {
    /// What is stored of an origin and of its lane: kind of key and field, and the value as a server has it.
    pub fn dump(&self, origin: &Origin) -> BTreeMap<(&'static str, String), String> {
        let mut dump = BTreeMap::new();
        let state = self.shared.state.lock();
        let mut put = |key, field: &str, value| dump.insert((key, field.to_owned()), value);
        if let Some(value) = state.sites.get(origin).and_then(|site| site.known.as_ref()) {
            put("known", "token", value.token.0.to_string());
        }
        if let Some(lease) = state.sites.get(origin).and_then(|site| site.lease.as_ref()) {
            let text = format!("{} {} {}", lease.token.0, lease.until, lease.holder);
            put("lease", "", text);
        }
        let Some(site) = state.sites.get(&*origin.lane()) else { return dump };
        let lane = &site.lane;
        if let Some(own) = lane.own {
            put("pace", "n", format!("{} {}", own.next, own.reach));
        }
        for (group, next) in &lane.groups {
            put("pace", &format!("g:{group}"), format!("{} {}", next.next, next.reach));
        }
        if let Some(hold) = lane.hold {
            put("pace", "h", hold.until.to_string());
            put("pace", "s", hold.status.to_string());
            put("pace", "c", hold.cause.word().to_owned());
        }
        if lane.streak > 0 {
            put("pace", "f", lane.streak.to_string());
        }
        for (proxy, seen) in &site.presence {
            put("presence", proxy, seen.to_string());
        }
        dump
    }
}
