//! Agrees with other proxies, through the engine, which of them fetches a robots.txt, and publishes
//! what it found. Without an engine each fetches for itself.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::time::sleep;

use super::agents::{AGENTS_PER_ORIGIN_MAX, Asker};
use super::answer::Answer;
use super::counters::{Counters, EngineReport};
use super::entries::{Entries, LockedEntries};
use super::entry::{Course, Entry};
use super::fetch::{FetchIdentity, FetchRobots};
use super::fetch_listener::{ListenerSlot, Subscribers};
use super::origin_robots::Undecided;
use super::persisted::{Digest, Persisted, PublishedEntry};
use super::single_flight::SingleFlight;
use crate::engine::{
    CLOCK_OFFSET_MAX_MICROS, Engine, LeaseToken, LookupOutcome, LookupRequest, LookupResponse,
    PublishRequest,
};
use crate::pace::KeptHold;
use crate::policy::profile::Profile;
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::Origin;

/// The first wait while another proxy fetches; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(150);
/// The longest of these waits.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long another proxy's fetch is waited for, its redirects and retries included.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Values of one lookup that cannot be read: after so many this proxy fetches for itself.
const DAMAGED_MAX: u32 = 3;
/// How often a lease is renewed; it lasts three times as long.
const RENEWAL: Duration = Duration::from_secs(1);

/// What one client may have shared of origins of which nothing was known: so much at once, and so
/// much a second after that. An origin counts as one, and its file as one for each eight kibibytes.
/// Further ones each proxy fetches for itself.
const NEW_AT_ONCE: f64 = 2000.0;
const NEW_PER_SECOND: f64 = 1.0;
const NEW_BYTES: usize = 8 << 10;
/// Clients of which that is remembered; further ones are one together.
const NEW_CLIENTS_MAX: usize = 16_384;

/// The engine, once it is set.
#[derive(Debug, Default)]
pub(super) struct FetchCoordinator {
    engine: OnceLock<Arc<dyn Engine>>,
    new_origins: NewOrigins,
}

/// What clients have had shared of late.
#[derive(Debug, Default)]
struct NewOrigins(Lock<HashMap<ClientKey, (f64, Instant)>>);

/// What is to be done about an origin whose robots.txt is due.
pub(super) enum EngineLookup {
    /// Another proxy has found this, which is current.
    Found(Arc<Entry>),
    /// This proxy fetches, on top of an entry; with a lease, it is the only one that does.
    Fetch(Option<Arc<Entry>>, Option<Lease>),
    /// Another proxy still fetches.
    TimedOut,
}

/// The right to fetch for all proxies.
pub(super) struct Lease {
    engine: Arc<dyn Engine>,
    origin: Origin,
    pub(super) token: LeaseToken,
    /// Whether nothing is known of the origin.
    is_new: bool,
}

/// The parameters of a lookup at the engine.
pub(super) struct EngineLookupRequest<'a> {
    pub entries: &'a Arc<Entries>,
    pub origin: &'a Origin,
    pub profile: &'a Arc<Profile>,
}

impl FetchCoordinator {
    /// Sets the engine, unless there is one.
    pub(super) fn set(&self, engine: Arc<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    /// Asks the engine about an origin of which `own` is known here, and waits while another proxy
    /// fetches. Without an engine, or while it is away, this proxy fetches for itself.
    pub(super) async fn lookup_or_lease(
        &self,
        request: EngineLookupRequest<'_>,
        own: Option<Arc<Entry>>,
        is_current: impl Fn(&Entry) -> bool,
    ) -> EngineLookup {
        let Some(engine) = self.engine.get() else { return EngineLookup::Fetch(own, None) };
        let (mut best, mut pause, end) = (own, PAUSE_MIN, monotonic() + WAIT_MAX);
        let mut have = best.as_ref().map_or_else(LeaseToken::default, |entry| entry.token);
        let mut damaged = 0;
        loop {
            let lookup =
                LookupRequest { origin: request.origin, have, may_fetch: true, is_used: true };
            let Ok(LookupResponse { outcome, .. }) = engine.lookup(lookup).await else {
                return EngineLookup::Fetch(best, None);
            };
            match outcome {
                LookupOutcome::Newer { token, value } => {
                    have = token;
                    let found = restore(&**engine, &request, &best, token, &value).await;
                    let Some(found) = found else {
                        // Another program may write ever new ones.
                        damaged += 1;
                        if damaged > DAMAGED_MAX {
                            return EngineLookup::Fetch(best, None);
                        }
                        continue;
                    };
                    // A newer result of this proxy, from a time when the engine was away, is kept.
                    if best.as_ref().is_none_or(|best| best.tried_at() <= found.tried_at()) {
                        if is_current(&found) {
                            return EngineLookup::Found(found);
                        }
                        best = Some(found);
                    }
                }
                LookupOutcome::Lease(token) => {
                    let (engine, origin) = (Arc::clone(engine), request.origin.clone());
                    let is_new = have == LeaseToken::default();
                    let lease = Lease { engine, origin, token, is_new };
                    return EngineLookup::Fetch(best, Some(lease));
                }
                LookupOutcome::Wait(_) if monotonic() >= end => return EngineLookup::TimedOut,
                LookupOutcome::Wait(_) => {
                    // Up to a quarter more, so that not all ask at once.
                    sleep(pause.mul_f64(1.0 + fastrand::f64() / 4.0)).await;
                    pause = PAUSE_MAX.min(2 * pause);
                }
                LookupOutcome::Unchanged => return EngineLookup::Fetch(best, None),
            }
        }
    }

    /// Shares what was found under a lease, in the name of `client`, unless that has had too many new
    /// origins shared of late.
    pub(super) async fn publish(&self, lease: Lease, entry: &Entry, client: &ClientKey) {
        let files = entry.answers().filter_map(Answer::snapshot);
        let bytes = files.map(|snapshot| snapshot.body.len()).sum();
        // The file of this machine has it already, and forgets the oldest.
        let is_local = lease.engine.status().is_local;
        if is_local || lease.is_new && !self.new_origins.take(client, bytes, monotonic()) {
            return lease.release().await;
        }
        lease.publish(entry).await;
    }

    /// What the proxies know of `origin` together; `None`: no server is set.
    pub(super) async fn report(&self, origin: &Origin) -> Option<EngineReport> {
        let request =
            LookupRequest { origin, have: LeaseToken::default(), may_fetch: false, is_used: false };
        let engine = self.engine.get().filter(|engine| !engine.status().is_local)?;
        Some(match engine.lookup(request).await {
            Ok(LookupResponse { outcome, presence }) => {
                let known = match outcome {
                    LookupOutcome::Newer { value, .. } => PublishedEntry::read(&value),
                    _ => None,
                };
                let known = known.map(|entry| entry.known).filter(|it| *it != Persisted::default());
                let hold = presence.hold.map(KeptHold::from);
                EngineReport { fault: None, known, proxies: presence.proxies, hold }
            }
            Err(fault) => EngineReport { fault: Some(fault.to_string()), ..Default::default() },
        })
    }

    /// Lets all proxies forget `origin`. Whether that worked.
    pub(super) async fn forget(&self, origin: &Origin) -> bool {
        let engine = self.engine.get().filter(|engine| !engine.status().is_local);
        let Some(engine) = engine else { return true };
        let mut have = LeaseToken::default();
        for _ in 0..=DAMAGED_MAX {
            let request = LookupRequest { origin, have, may_fetch: true, is_used: false };
            match engine.lookup(request).await.map(|response| response.outcome) {
                Ok(LookupOutcome::Newer { token, .. }) => have = token,
                // Nothing is known: it is published as an entry without a result.
                Ok(LookupOutcome::Lease(token)) => {
                    let value = PublishedEntry::default().write();
                    return engine
                        .publish(PublishRequest { origin, token, value: &value })
                        .await
                        .is_ok();
                }
                // The result of a fetch that is under way will be known, as in this process.
                Ok(LookupOutcome::Wait(_) | LookupOutcome::Unchanged) => return true,
                Err(_) => return false,
            }
        }
        // Another program writes ever new ones.
        false
    }
}

impl NewOrigins {
    /// Whether a client may have another one shared, with a file of so many bytes.
    fn take(&self, client: &ClientKey, bytes: usize, now: Instant) -> bool {
        let mut clients = self.0.lock();
        let refilled = |(left, since): (f64, Instant)| {
            let more = now.saturating_duration_since(since).as_secs_f64() * NEW_PER_SECOND;
            (left + more).min(NEW_AT_ONCE)
        };
        let mut client = client;
        if clients.len() >= NEW_CLIENTS_MAX && !clients.contains_key(client) {
            clients.retain(|_, bucket| refilled(*bucket) < NEW_AT_ONCE);
            if clients.len() >= NEW_CLIENTS_MAX {
                client = &ClientKey::Proxy;
            }
        }
        let bucket = clients.entry(client.clone()).or_insert((NEW_AT_ONCE, now));
        let cost = (1 + bytes / NEW_BYTES) as f64;
        let left = refilled(*bucket);
        let has_room = cost <= left;
        *bucket = (if has_room { left - cost } else { left }, now);
        has_room
    }
}

impl Lease {
    /// Runs `fetch` and renews the lease meanwhile.
    pub(super) async fn during<T>(&self, fetch: impl Future<Output = T>) -> T {
        let renew = async {
            loop {
                sleep(RENEWAL).await;
                // One that is lost costs a second fetch: what it finds is superseded.
                let _ = self.engine.renew_lease(&self.origin, self.token).await;
            }
        };
        tokio::select! {
            fetched = fetch => fetched,
            () = renew => unreachable!("it never ends"),
        }
    }

    /// Shares what was found, its files first.
    pub(super) async fn publish(self, entry: &Entry) {
        let Self { engine, origin, token, .. } = &self;
        let offset = engine.status().clock_offset;
        if offset.is_some_and(|offset| offset.unsigned_abs() > CLOCK_OFFSET_MAX_MICROS) {
            return self.release().await;
        }
        let files: HashMap<_, _> =
            entry.answers().filter_map(Answer::snapshot).map(|it| (it.sha256, it)).collect();
        for (sha256, snapshot) in files {
            if engine.put_file(sha256, snapshot.body.clone()).await.is_err() {
                // Too large, or the engine is away: others fetch for themselves.
                return self.release().await;
            }
        }
        let value = PublishedEntry::of(entry).write();
        if engine.publish(PublishRequest { origin, token: *token, value: &value }).await.is_err() {
            self.release().await;
        }
    }

    /// Ends the lease without a result.
    pub(super) async fn release(self) {
        let _ = self.engine.release_lease(&self.origin, self.token).await;
    }
}

/// The entry that another proxy has published; `None` if it is not whole.
async fn restore(
    engine: &dyn Engine,
    request: &EngineLookupRequest<'_>,
    own: &Option<Arc<Entry>>,
    token: LeaseToken,
    value: &[u8],
) -> Option<Arc<Entry>> {
    let shared = PublishedEntry::read(value)?;
    let wanted = shared.files();
    // All agents that have a place, and the common copy.
    if wanted.len() > AGENTS_PER_ORIGIN_MAX + 1 {
        return None;
    }
    let mut files = Vec::new();
    for Digest(sha256) in wanted {
        let mut own = own.iter().flat_map(|own| own.answers()).filter_map(Answer::snapshot);
        files.push(match own.find(|snapshot| snapshot.sha256 == sha256) {
            Some(snapshot) => snapshot.body.clone(),
            None => engine.get_file(sha256).await.ok()??,
        });
    }
    let (persisted, blobs) = shared.parts(files)?;
    let (entries, profile) = (Arc::clone(request.entries), Arc::clone(request.profile));
    let build = move || entries.builder.restore_for(&profile, persisted, blobs);
    let (entry, _) = request.entries.background.run(build).await??;
    Some(Arc::new(Entry { token, ..Entry::clone(&entry) }))
}

/// The fetches in flight by origin and identity.
type Flights = SingleFlight<Origin, FetchIdentity, Arc<Entry>, Undecided>;

/// The entries, the fetches in flight that renew them, and what these are made and reported with.
///
/// Flights are not part of the entries: evicting one must not start a second fetch. A lookup, and a
/// flight that completes, hold the lock of the entries while they use the flights, so the new entry
/// and the end of its flight become visible together.
pub(super) struct StoreCore {
    pub(super) entries: Arc<Entries>,
    pub(super) flights: Arc<Flights>,
    pub(super) fetcher: ArcSwap<Arc<dyn FetchRobots>>,
    pub(super) engine: FetchCoordinator,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Counters,
    pub(super) subscribers: Subscribers,
    pub(super) listener: ListenerSlot,
}

impl StoreCore {
    /// The identity of a fetch for `agent`.
    pub(super) fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.fetcher.load().identity(agent)
    }

    /// What `entry` says to a request for the agent with that identity of a fetch.
    pub(super) fn course<'a>(
        &self,
        entry: &'a Entry,
        profile: &Arc<Profile>,
        (agent, client): (&FetchIdentity, &ClientKey),
    ) -> Course<'a> {
        let is_common = self.identity(None) == *agent;
        let asker = Asker::Identity { own: agent, is_common };
        entry.course(asker, profile, self.clock.wall(), || client.clone())
    }

    /// The entry of `origin` in memory, or the one of the last fetch that completed while others
    /// are in flight.
    pub(super) fn newest(
        &self,
        entries: &mut LockedEntries,
        origin: &Origin,
    ) -> Option<Arc<Entry>> {
        let in_memory = entries.memory.get(origin).cloned();
        in_memory.or_else(|| self.flights.last_value(origin))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn a_client_has_a_rate_of_new_origins_and_another_one_its_own() {
        let (new_origins, now) = (NewOrigins::default(), monotonic());
        let client = |last| ClientKey::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let (one, other) = (client(1), client(2));
        let taken = |client: &ClientKey, bytes, at| {
            (0..5000).take_while(|_| new_origins.take(client, bytes, at)).count()
        };
        assert_eq!(taken(&one, 0, now), 2000);
        assert_eq!(taken(&one, 0, now + Duration::from_secs(10)), 10);
        assert_eq!(taken(&other, 500 << 10, now), 31, "of large files fewer");
        assert_eq!(taken(&one, 0, now + Duration::from_secs(100_000)), 2000);
    }
}
