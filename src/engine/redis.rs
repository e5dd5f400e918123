//! The engine of a Redis or Valkey server: one node, the primary that sentinels name, or a cluster.
//!
//! Each operation is one script, or one command, on the keys of one hash slot. A thread of its own
//! has the connections; callers wait on a channel.

mod call;
mod calls;
mod cluster;
mod connect;
mod connection;
mod hash_slots;
mod node;
mod probe;
mod promises;
mod reply;
mod reply_meter;
mod router;
mod script;
mod server_error;
mod settings;
mod shared;
mod shared_once;
mod stream;
mod thread;
mod tls_config;
mod values;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::error::{Error, ErrorKind};
use super::files::{Sha256, has_digest};
use super::hold::{Hold, HoldRequest};
use super::lease_token::LeaseToken;
use super::length::bounded_micros;
use super::log_head::{LogHead, NamedHeads};
use super::lookup::{
    FILE_KEPT_ONCE, KEPT_ONCE, KNOWN_BYTES_MAX, LEASE, LookupRequest, LookupResponse,
    PublishOutcome, PublishRequest,
};
use super::members::Heartbeat;
use super::pending::{Pending, ready};
use super::presence::Presence;
use super::slots::{ReservedSlots, SlotsRequest};
use super::stats::{LookupKind, Operation, Stats};
use super::status::Status;
use super::{Engine, format};
use crate::runtime::clock::{Clock, monotonic};
use crate::types::origin::Origin;
use call::{Call, number};
pub use script::Script;
pub use settings::{Address, Password, RedisConfig, ServerUrl, ServerUrlError};
use shared::Shared;
pub use tls_config::{TlsConfig, TlsConfigError, tls_config};
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
        thread::start(Arc::clone(&shared), shutdown.clone())?;
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

    /// Waits until all nodes can be reached.
    pub fn wait_until_reachable(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut up = self.shared.up.subscribe();
        async move {
            // It cannot fail while the engine is there.
            let _ = up.wait_for(|is_up| *is_up).await;
        }
    }

    /// Whether two live proxies have this name, by what their last heartbeats have found.
    pub fn has_namesake(&self, name: &str) -> Pending<bool> {
        let range = vec![number(0), number(63)];
        let key = self.shared.keys.name(name);
        self.run(Call::command(Operation::Heartbeat, "GETRANGE", key, range), |reply| {
            Some(reply::bytes(reply)?.contains(&b' '))
        })
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
                Ok(response) => shared.stats.note_lookup(LookupKind::of(&response.outcome)),
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
        let bytes_max = number(format::stored_max(KNOWN_BYTES_MAX) as u64);
        let once = self.keep_once_ms(KEPT_ONCE);
        let arguments = vec![number(request.token.0), value, self.keep_ms(), bytes_max, once];
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
        let (call, losses) = (self.slots_call(request, promised), self.shared.stats.losses());
        let (shared, hold_max) = (Arc::clone(&self.shared), self.shared.config.hold_max);
        let delays = [request.lane_delay, request.site_delay];
        let group = request.group.to_owned();
        let reserved = self.run(call, move |reply| values::reserved_slots(reply, hold_max));
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

    fn heartbeat(&self) -> Pending<Heartbeat> {
        let shared = Arc::clone(&self.shared);
        self.run(self.shared.heartbeat_call(), move |reply| shared.note_heartbeat(reply))
    }

    fn get_file(&self, sha256: Sha256) -> Pending<Option<Bytes>> {
        let max = self.shared.config.file_max;
        let arguments = vec![
            number(format::stored_max(max) as u64),
            number(bounded_micros(self.shared.config.keep)),
        ];
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

    fn put_file(&self, sha256: Sha256, content: Bytes) -> Pending<()> {
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
        let arguments = vec![value, self.keep_ms(), self.keep_once_ms(FILE_KEPT_ONCE)];
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

    fn set_head(&self, head: LogHead) {
        self.shared.set_head(head);
    }

    fn status(&self) -> Status {
        self.shared.status()
    }

    fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}
