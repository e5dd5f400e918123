//! The engine of a Redis or Valkey server: one node, the primary that sentinels name, or a cluster.
//!
//! Each operation is one script, or one command, on the keys of one hash slot. A thread of its own
//! has the connections; callers wait on a channel.

mod call;
mod cluster;
mod connection;
mod node;
mod push;
mod reply_meter;
mod router;
mod settings;
mod shared;
mod values;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::cells::CellTimes;
use super::clock::micros;
use super::error::{Error, ErrorKind};
use super::members::{Heartbeat, Members, NamedHeads, Roster};
use super::stats::{Operation, Stats};
use super::{
    Config, Engine, FILE_KEPT_ONCE, FileDigest, GivenSlot, Hold, HoldCause, HoldLength,
    HoldListener, HoldRequest, KEPT, KEPT_ONCE, KNOWN_BYTES_MAX, LEASE, LeaseToken, LogHead,
    LookupOutcome, LookupRequest, LookupResponse, MissingRanks, PLACE, Pending, Presence,
    PublishOutcome, PublishRequest, ReservedSlots, SLOTS_MAX, SlotsRequest, Status, bounded_micros,
    format, has_digest, ready,
};
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::origin::{Origin, Scheme};
use crate::types::timestamp::Timestamp;
pub use call::Script;
use call::{Call, boolean, decimal};
pub use settings::{
    Address, Password, RedisConfig, ServerUrl, ServerUrlError, TlsConfig, TlsConfigError,
    tls_config,
};
use shared::Shared;
use values::StoredValue;

/// One proxy's engine on a server.
#[derive(Debug)]
pub struct RedisEngine {
    shared: Arc<Shared>,
    shutdown: CancellationToken,
}

/// A reply that is awaited.
type PendingReply = Result<oneshot::Receiver<Result<Value, Error>>, Error>;

impl RedisEngine {
    /// Starts the engine's thread, which connects. `wall` tells this machine's date, to which the
    /// server's is compared.
    ///
    /// # Errors
    ///
    /// The system gives no thread. Whether the server can be reached is in [`Engine::status`].
    pub fn start(config: Config, redis: RedisConfig, wall: Arc<dyn Clock>) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(config, redis, wall));
        let shutdown = CancellationToken::new();
        cluster::start_thread(Arc::clone(&shared), shutdown.clone())?;
        Ok(Self { shared, shutdown })
    }

    /// Takes other addresses, credentials and timeouts, and connects again, if they are others.
    /// Prefix, kind and name stay as they were.
    pub fn change(&self, redis: RedisConfig) {
        if self.shared.redis.load().is_same(&redis) {
            return;
        }
        self.shared.redis.store(Arc::new(redis));
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// The name of this proxy.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Waits until all nodes can be reached.
    pub fn wait_until_reachable(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut up = self.shared.up.subscribe();
        async move {
            // It cannot fail while the engine is there.
            let _ = up.wait_for(|is_up| *is_up).await;
        }
    }

    /// The proxies that share the engine, as their heartbeats have left them.
    pub fn roster(&self) -> Pending<Roster> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { values::roster(&shared).await })
    }

    /// The settings in effect.
    pub fn settings(&self) -> Arc<RedisConfig> {
        self.shared.redis.load_full()
    }

    fn run<T: Send + 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Option<T> + Send + 'static,
    ) -> Pending<T> {
        let operation = call.operation;
        let sent = self.shared.send(call);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let result = receive(sent).await.and_then(|reply| {
                read(reply).ok_or_else(|| ErrorKind::Protocol.with(operation.word()))
            });
            result.inspect_err(|error| shared.note_error(error))
        })
    }
}

impl Drop for RedisEngine {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn receive(sent: PendingReply) -> Result<Value, Error> {
    let gone = |_| Err(ErrorKind::Broken.with("the engine has ended"));
    sent?.await.unwrap_or_else(gone)
}

impl Engine for RedisEngine {
    fn lookup(&self, request: LookupRequest<'_>) -> Pending<LookupResponse> {
        let call = self.lookup_call(request);
        let (sent, shared) = (self.shared.send(call.clone()), Arc::clone(&self.shared));
        Box::pin(async move {
            let response = values::lookup(&shared, call, receive(sent).await).await;
            match &response {
                Ok(response) => shared.stats.note_lookup(response.outcome.kind()),
                Err(error) => shared.note_error(error),
            }
            response
        })
    }

    fn publish(&self, request: PublishRequest<'_>) -> Pending<PublishOutcome> {
        let known = self.shared.keys.of(request.origin, "known");
        let redis = self.shared.redis.load();
        let is_short = request.value.len() <= KNOWN_BYTES_MAX;
        let seal = redis.seal_key.as_ref();
        let value = format::encode_known(&known, request.token, request.value, seal);
        let Some(value) = value.filter(|_| is_short) else {
            let error = ErrorKind::TooLarge.with(format!("{} bytes", request.value.len()));
            self.shared.note_error(&error);
            return ready(Err(error));
        };
        let stored = value.len();
        let keys = vec![known.clone(), self.shared.keys.of(request.origin, "lease")];
        let bytes_max = decimal(format::stored_max(KNOWN_BYTES_MAX) as u64);
        let (kept, once) = (milliseconds(KEPT), milliseconds(KEPT_ONCE));
        let arguments = vec![decimal(request.token.0), value, kept, bytes_max, once];
        let call = Call::script(Operation::Publish, Script::Publish, keys, arguments);
        let shared = Arc::clone(&self.shared);
        self.run(call, move |reply| {
            let (outcome, is_new) = values::publish_outcome(reply)?;
            if is_new {
                shared.note_shared_once(known, stored);
            }
            Some(outcome)
        })
    }

    fn renew_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        self.run(self.lease_call(Operation::RenewLease, origin, token, LEASE), values::condition)
    }

    fn release_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        let call = self.lease_call(Operation::ReleaseLease, origin, token, Duration::ZERO);
        self.run(call, values::condition)
    }

    fn reserve_slots(&self, request: SlotsRequest<'_>) -> Pending<ReservedSlots> {
        let (key, sent) = (self.shared.keys.of_lane(request.origin, "pace"), monotonic());
        self.shared.followed.note(&key, request.origin);
        // A test that gives the time moves it.
        let is_checked = self.shared.redis.load().clock.is_none();
        let promised = match self.shared.promises.of(&key, request.group, sent) {
            Ok(promised) if is_checked => promised,
            Ok(_) => [None; 2],
            Err(error) => {
                self.shared.note_error(&error);
                return ready(Err(error));
            }
        };
        // What was started without the engine is reported whatever is known of others.
        let view = if request.count == 0 { Ok(None) } else { self.shared.view() };
        let missing = match view {
            Ok(missing) => missing,
            Err(error) => {
                self.shared.note_error(&error);
                return ready(Err(error));
            }
        };
        let call = self.slots_call(request, promised, missing.as_deref());
        let losses = self.shared.stats.losses();
        let (shared, hold_max) = (Arc::clone(&self.shared), self.shared.config.hold_max);
        let delays = [request.lane_delay, request.site_delay];
        let group = request.group.to_owned();
        let slack = request.slack;
        let reserved = self.run(call, move |reply| values::reserved_slots(reply, slack, hold_max));
        Box::pin(async move {
            let (slots, missing) = reserved.await?;
            // What the request was on its way may be missing.
            let is_removed = missing > monotonic() - sent;
            if is_removed && shared.stats.losses() == losses {
                let error = shared.promises.distrust(key, &group, sent);
                shared.note_removed(&error);
                return Err(error);
            }
            if is_checked {
                shared.promises.note((key, group), delays, &slots, sent);
            }
            Ok(slots)
        })
    }

    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<Hold> {
        let hold_max = self.shared.config.hold_max;
        self.run(self.hold_call(request), move |reply| values::hold(reply, hold_max))
    }

    fn reset_backoff(&self, origin: &Origin) -> Pending<bool> {
        self.run(self.reset_call(origin, "backoff"), values::condition)
    }

    fn end_hold(&self, origin: &Origin) -> Pending<bool> {
        self.run(self.reset_call(origin, "hold"), values::condition)
    }

    fn announce_presence(&self, origin: &Origin) -> Pending<Presence> {
        let hold_max = self.shared.config.hold_max;
        self.run(self.presence_call(origin), move |reply| values::presence(reply, hold_max))
    }

    fn take_place(&self, origin: &Origin, id: u64, places: usize) -> Pending<bool> {
        let keys = vec![self.shared.keys.of_lane(origin, "places")];
        let arguments = vec![
            self.shared.config.place_id(id).into_bytes(),
            decimal(places as u64),
            decimal(bounded_micros(PLACE)),
        ];
        let call = Call::script(Operation::TakePlace, Script::TakePlace, keys, arguments);
        self.run(call, values::condition)
    }

    fn leave_place(&self, origin: &Origin, id: u64) -> Pending<()> {
        let key = self.shared.keys.of_lane(origin, "places");
        let call = Call::command(
            Operation::TakePlace,
            "ZREM",
            key,
            vec![self.shared.config.place_id(id).into_bytes()],
        );
        self.run(call, |_| Some(()))
    }

    fn heartbeat(&self) -> Pending<Heartbeat> {
        let shared = Arc::clone(&self.shared);
        let (call, sent) = self.shared.heartbeat_call();
        let beaten = self.run(call, move |reply| shared.note_heartbeat(reply, sent));
        if !self.shared.has_left.load(Ordering::Relaxed) {
            return beaten;
        }
        // It says how the log ends. A proxy that has signed off is to be no member again.
        let left = self.leave();
        Box::pin(async move {
            let beaten = beaten.await?;
            left.await.map(|()| beaten)
        })
    }

    fn leave(&self) -> Pending<()> {
        self.shared.has_left.store(true, Ordering::Relaxed);
        if self.shared.members.lock().own_rank.has_untold() {
            return ready(Ok(()));
        }
        self.run(self.shared.leave_call(), |reply| values::condition(reply).map(drop))
    }

    fn ranks(&self) -> Option<(&Lock<Members>, Duration)> {
        Some((&self.shared.members, self.shared.own_time()))
    }

    fn permits(&self, slot: &GivenSlot, delay: Duration) -> bool {
        self.shared.permits(slot, delay)
    }

    fn get_file(&self, sha256: FileDigest) -> Pending<Option<Bytes>> {
        let max = self.shared.config.file_max;
        let arguments = vec![decimal(format::stored_max(max) as u64), decimal(micros(KEPT))];
        let keys = vec![self.shared.keys.file(&sha256)];
        let shared = Arc::clone(&self.shared);
        let sent = shared.send(Call::script(Operation::GetFile, Script::GetFile, keys, arguments));
        Box::pin(async move {
            let file = values::file(receive(sent).await, |value| {
                let content = format::decode_file(value, max).ok()?;
                has_digest(&content, &sha256).then(|| Bytes::from(content))
            });
            if matches!(file, Ok(StoredValue::Damaged)) {
                shared.stats.note_damaged();
            }
            file.map(StoredValue::intact).inspect_err(|error| shared.note_error(error))
        })
    }

    fn put_file(&self, sha256: FileDigest, content: Bytes) -> Pending<()> {
        let checked = self.shared.config.check_file(&content);
        let value = format::encode_file(&content);
        let value = value.ok_or_else(|| ErrorKind::TooLarge.with("not compressed"));
        let value = match checked.and(value) {
            Ok(value) => value,
            Err(error) => {
                self.shared.note_error(&error);
                return ready(Err(error));
            }
        };
        let key = self.shared.keys.file(&sha256);
        let stored = value.len();
        let arguments = vec![value, milliseconds(KEPT), milliseconds(FILE_KEPT_ONCE)];
        let call = Call::script(Operation::PutFile, Script::PutFile, vec![key.clone()], arguments);
        let shared = Arc::clone(&self.shared);
        self.run(call, move |reply| {
            if values::condition(reply)? {
                shared.note_shared_once(key, stored);
            }
            Some(())
        })
    }

    fn heads(&self) -> Pending<NamedHeads> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let heads = values::heads(&shared).await;
            heads.inspect_err(|error| shared.note_error(error))
        })
    }

    fn hours(&self, log: LogId) -> Pending<Vec<LogHead>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let heads = values::hours(&shared, log).await;
            heads.inspect_err(|error| shared.note_error(error))
        })
    }

    fn set_head(&self, head: LogHead) {
        self.shared.set_head(head);
    }

    fn on_hold(&self, listener: HoldListener) {
        // There is one set of lanes in a process.
        let _ = self.shared.listener.set(listener);
    }

    fn status(&self) -> Status {
        self.shared.status()
    }

    fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}

/// A length in milliseconds, as an argument.
fn milliseconds(length: Duration) -> Vec<u8> {
    decimal(micros(length) / 1000)
}

// The call of each operation: its script, its keys and its arguments, in the order in which the
// script names them.

impl RedisEngine {
    fn lease_call(
        &self,
        operation: Operation,
        origin: &Origin,
        token: LeaseToken,
        length: Duration,
    ) -> Call {
        let keys = vec![self.shared.keys.of(origin, "lease")];
        let arguments = vec![decimal(token.0), decimal(bounded_micros(length))];
        Call::script(operation, Script::RenewLease, keys, arguments)
    }

    fn reset_call(&self, origin: &Origin, what: &str) -> Call {
        let keys = vec![self.shared.keys.of_lane(origin, "pace")];
        Call::script(Operation::ResetBackoff, Script::ResetBackoff, keys, vec![what.into()])
    }

    fn hold_max(&self) -> Vec<u8> {
        decimal(bounded_micros(self.shared.config.hold_max))
    }

    fn presence_interval(&self) -> Vec<u8> {
        decimal(bounded_micros(self.shared.members.lock().presence_interval()))
    }

    fn lookup_call(&self, request: LookupRequest<'_>) -> Call {
        let arguments = vec![
            decimal(request.have.0),
            self.shared.config.member().into_bytes(),
            boolean(request.may_fetch),
            boolean(request.is_used),
            self.presence_interval(),
            self.hold_max(),
            decimal(format::stored_max(KNOWN_BYTES_MAX) as u64),
            decimal(bounded_micros(LEASE)),
            decimal(micros(KEPT)),
        ];
        let (keys, origin) = (&self.shared.keys, request.origin);
        let own = ["known", "lease"].map(|name| keys.of(origin, name));
        let of_lane = ["pace", "presence"].map(|name| keys.of_lane(origin, name));
        if request.is_used {
            self.shared.followed.note(&of_lane[0], origin);
        }
        let keys = own.into_iter().chain(of_lane).collect();
        Call::script(Operation::Lookup, Script::Lookup, keys, arguments)
    }

    /// `promised`: the next starts, from now, of the lane and of the group, as they were reserved.
    fn slots_call(
        &self,
        request: SlotsRequest<'_>,
        promised: [Option<i64>; 2],
        missing: Option<&MissingRanks>,
    ) -> Call {
        let [own, group] = promised
            .map(|micros| micros.map_or_else(Vec::new, |micros| micros.to_string().into_bytes()));
        let length = |length| decimal(bounded_micros(length));
        let missed = request.missed;
        let arguments = vec![
            format::group_name(request.group).into_owned().into_bytes(),
            length(request.lane_delay),
            length(request.site_delay),
            length(request.slack),
            length(request.horizon),
            decimal(request.count.min(SLOTS_MAX).into()),
            length(request.left),
            decimal(self.shared.members.lock().known_since()),
            self.hold_max(),
            own,
            group,
            missed.map_or_else(Vec::new, |slot| decimal(slot.at)),
            missed.map_or_else(Vec::new, |slot| decimal(micros(slot.slack))),
            decimal(CellTimes::of(request.cell_delay).length()),
            missing.map_or_else(Vec::new, |missing| decimal(missing.width().into())),
            missing.map_or_else(Vec::new, |missing| missing.bits().to_vec()),
        ];
        let keys = vec![self.shared.keys.of_lane(request.origin, "pace")];
        Call::script(Operation::ReserveSlots, Script::ReserveSlots, keys, arguments)
    }

    fn hold_call(&self, request: HoldRequest<'_>) -> Call {
        let length = |length| decimal(bounded_micros(length));
        let (kind, length, longest, jitter) = match request.length {
            HoldLength::For(time) => ("for", length(time), decimal(0), decimal(0)),
            HoldLength::BackOff { first, max, jitter } => {
                ("back_off", length(first), length(max), decimal(jitter.min(1000).into()))
            }
        };
        let (status, cause) = (decimal(request.status.into()), request.cause.word().into());
        let arguments = vec![kind.into(), length, longest, jitter, status, cause, self.hold_max()];
        let keys = vec![self.shared.keys.of_lane(request.origin, "pace")];
        Call::script(Operation::SetHold, Script::SetHold, keys, arguments)
    }

    fn presence_call(&self, origin: &Origin) -> Call {
        let keys = ["presence", "pace"].map(|name| self.shared.keys.of_lane(origin, name));
        self.shared.followed.note(&keys[1], origin);
        let keys = keys.into();
        let name = self.shared.config.member().into_bytes();
        let arguments = vec![name, self.presence_interval(), self.hold_max()];
        Call::script(Operation::AnnouncePresence, Script::AnnouncePresence, keys, arguments)
    }
}

/// What is written for an instant.
const CONTENT: &[u8] = b"courtesy doctor";
/// The delay and the hold that are asked for.
const INSTANT: Duration = Duration::from_millis(1);

/// The faults of operations, by their words.
#[derive(Debug, Default)]
struct Faults(Vec<(&'static str, Error)>);

impl Faults {
    fn note<T>(&mut self, what: Operation, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.0.push((what.word(), error))).ok()
    }
}

impl RedisEngine {
    /// Runs each operation once, and removes the keys that it has made. The prefix of the settings
    /// is to be one that no proxy uses. Returns the faults, by the words of the operations.
    pub async fn probe(&self) -> Vec<(&'static str, Error)> {
        let site = Origin::from_authority(Scheme::Https, "doctor.invalid");
        let site = site.expect("it has the form of an authority");
        let mut faults = Faults::default();
        self.probe_knowledge(&site, &mut faults).await;
        self.probe_pace(&site, &mut faults).await;
        let time = Timestamp::from_millis(0);
        self.set_head(LogHead { log: None, number: 1, hash: [0; 32], time, contradicts: false });
        faults.note(Operation::Heartbeat, self.heartbeat().await);
        faults.note(Operation::Heads, self.heads().await);
        self.remove(&site, &mut faults).await;
        faults.0
    }

    /// Publishes nothing on a channel of no proxy: whether that is allowed.
    pub fn probe_push(&self) -> Pending<()> {
        let key = self.shared.keys.cluster("epoch");
        let call = Call::command(Operation::SetHold, "PUBLISH", key, vec![Vec::new()]);
        self.run(call, |_| Some(()))
    }

    async fn probe_knowledge(&self, site: &Origin, faults: &mut Faults) {
        let request = LookupRequest {
            origin: site,
            have: LeaseToken::default(),
            may_fetch: true,
            is_used: true,
        };
        let response = faults.note(Operation::Lookup, self.lookup(request).await);
        let token = match response.map(|response| response.outcome) {
            Some(LookupOutcome::Lease(token)) => token,
            _ => LeaseToken::default(),
        };
        faults.note(Operation::RenewLease, self.renew_lease(site, token).await);
        let sha256 = Sha256::digest(CONTENT).into();
        let content = Bytes::from_static(CONTENT);
        faults.note(Operation::PutFile, self.put_file(sha256, content).await);
        faults.note(Operation::GetFile, self.get_file(sha256).await);
        let request = PublishRequest { origin: site, token, value: CONTENT };
        faults.note(Operation::Publish, self.publish(request).await);
        faults.note(Operation::ReleaseLease, self.release_lease(site, token).await);
    }

    async fn probe_pace(&self, site: &Origin, faults: &mut Faults) {
        let request = SlotsRequest {
            origin: site,
            group: "*",
            lane_delay: INSTANT,
            site_delay: INSTANT,
            slack: INSTANT,
            horizon: Duration::from_secs(1),
            cell_delay: Duration::ZERO,
            count: 1,
            left: Duration::ZERO,
            missed: None,
        };
        faults.note(Operation::ReserveSlots, self.reserve_slots(request).await);
        let (length, cause) = (HoldLength::For(INSTANT), HoldCause::RetryAfter);
        let request = HoldRequest { origin: site, length, status: 503, cause };
        faults.note(Operation::SetHold, self.set_hold(request).await);
        faults.note(Operation::ResetBackoff, self.reset_backoff(site).await);
        faults.note(Operation::AnnouncePresence, self.announce_presence(site).await);
        faults.note(Operation::TakePlace, self.take_place(site, 1, 1).await);
    }

    /// Removes what was written: each key by itself, as they may be on several nodes.
    async fn remove(&self, site: &Origin, faults: &mut Faults) {
        let keys = &self.shared.keys;
        let own = ["known", "lease"].map(|name| keys.of(site, name));
        let of_lane = ["pace", "presence", "places"].map(|name| keys.of_lane(site, name));
        let of_site = own.into_iter().chain(of_lane);
        let of_all = Shared::CLUSTER_KEYS.map(|name| keys.cluster(name));
        let file = keys.file(&Sha256::digest(CONTENT).into());
        for key in of_site.into_iter().chain(of_all).chain([file]) {
            let call = Call::command(Operation::ReleaseLease, "DEL", key, Vec::new());
            let removed = self.run(call, |_| Some(()));
            if faults.note(Operation::ReleaseLease, removed.await).is_none() {
                return;
            }
        }
    }
}
