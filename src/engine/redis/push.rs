//! Holds that other proxies begin, as soon as the server publishes them, on a connection of its own; and
//! that the server's data began anew. Without the right to subscribe, and until the connection is there,
//! a hold is learnt with the next slot or announcement.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures_core::Stream;
use redis::Msg;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::call::digits;
use super::connection::push_connection;
use super::node::ask_sentinels;
use super::settings::Address;
use super::shared::Shared;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::{Hold, HoldCause};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Lanes that are followed at a time; further ones are asked about as without a subscription.
const LANES_MAX: usize = 16_384;
/// A lane is followed for so many intervals of announcements after its last use.
const INTERVALS: u32 = 3;
/// Lanes of one command.
const AT_ONCE: usize = 256;
/// A connection that fails is made anew after this; one that is not allowed, after that.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_REFUSED: Duration = Duration::from_mins(1);
/// How often it is asked whether the server is still there, and how often lanes are left.
const CHECK: Duration = Duration::from_secs(5);

/// The lanes whose holds are pushed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    lanes: Lock<HashMap<Vec<u8>, Lane>>,
    /// There are new ones.
    has_new: Notify,
}

#[derive(Debug)]
struct Lane {
    origin: Origin,
    used: Instant,
    is_subscribed: bool,
}

impl Followed {
    /// Notes that this proxy sends requests to the origin of this key.
    pub(super) fn note(&self, key: &[u8], origin: &Origin) {
        let now = monotonic();
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(key) {
            lane.used = now;
        } else if lanes.len() < LANES_MAX {
            let origin = origin.lane().into_owned();
            lanes.insert(key.to_vec(), Lane { origin, used: now, is_subscribed: false });
            self.has_new.notify_one();
        }
    }

    fn origin(&self, key: &[u8]) -> Option<Origin> {
        self.lanes.lock().get(key).map(|lane| lane.origin.clone())
    }

    /// Those that are not subscribed yet, as if they were now.
    fn take_new(&self) -> Vec<Vec<u8>> {
        let mut lanes = self.lanes.lock();
        let new = lanes.iter_mut().filter(|(_, lane)| !lane.is_subscribed).take(AT_ONCE);
        new.map(|(key, lane)| {
            lane.is_subscribed = true;
            key.clone()
        })
        .collect()
    }

    /// None is: the connection is new.
    fn forget_subscriptions(&self) {
        self.lanes.lock().values_mut().for_each(|lane| lane.is_subscribed = false);
    }

    /// Those that have not been used for so long.
    fn take_unused(&self, length: Duration) -> Vec<Vec<u8>> {
        let now = monotonic();
        let is_unused = |_: &Vec<u8>, lane: &mut Lane| now - lane.used > length;
        self.lanes.lock().extract_if(is_unused).map(|(key, _)| key).take(AT_ONCE).collect()
    }
}

/// Follows what is published, for as long as the engine's thread lives.
pub(super) async fn follow(shared: &Shared) {
    if shared.redis.load().clock.is_some() || !shared.config.is_member {
        return;
    }
    let mut was_refused = false;
    loop {
        // A server that is away is found by the connections of the nodes.
        let mut up = shared.up.subscribe();
        if up.wait_for(|is_up| *is_up).await.is_err() {
            return;
        }
        let error = follow_once(shared).await;
        let is_refused = error.kind == ErrorKind::Permission;
        if is_refused && !was_refused {
            tracing::info!(
                %error,
                "holds of other proxies are learnt within 15 s: the engine's user may not subscribe"
            );
        }
        was_refused = is_refused;
        sleep(if is_refused { RETRY_REFUSED } else { RETRY }).await;
    }
}

/// Follows until that fails.
async fn follow_once(shared: &Shared) -> Error {
    shared.followed.forget_subscriptions();
    let limit = shared.redis.load().connect_timeout();
    let connected = timeout(limit, connect(shared)).await;
    let late = || ErrorKind::Timeout.with("no subscription in time");
    match connected.unwrap_or_else(|_| Err(late())) {
        Ok(connection) => {
            let (sink, stream) = connection.split();
            let mut changes = shared.changes.subscribe();
            tokio::select! {
                error = keep(shared, sink) => error,
                error = receive(shared, stream) => error,
                _ = changes.changed() => late(),
            }
        }
        Err(error) => error,
    }
}

async fn connect(shared: &Shared) -> Result<PubSub, Error> {
    let (config, own) = (shared.redis.load_full(), &shared.config);
    let nodes = shared.router.map();
    let nodes = nodes.nodes.iter().filter(|node| node.is_up());
    let mut addresses: Vec<Address> = nodes.filter_map(|node| node.address.clone()).collect();
    if let Some(primary) = config.sentinel.as_ref().filter(|_| addresses.is_empty()) {
        addresses.push(ask_sentinels(primary, &config, own).await?);
    } else if addresses.is_empty() {
        addresses.clone_from(&config.addresses);
    }
    // Any node of a cluster passes on what is published at another.
    let mut last = ErrorKind::Connection.with("no node is up");
    for address in addresses {
        match push_connection(&address, &config, own).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Subscribes to the lanes in use, leaves the others, and asks whether the server is still there.
async fn keep(shared: &Shared, mut sink: PubSubSink) -> Error {
    let failed = |error: redis::RedisError| super::connection::error_of(&error);
    let epoch = shared.keys.cluster("epoch");
    if let Err(error) = sink.subscribe(epoch).await {
        return failed(error);
    }
    loop {
        loop {
            let new = shared.followed.take_new();
            if new.is_empty() {
                break;
            }
            if let Err(error) = sink.subscribe(new).await {
                return failed(error);
            }
        }
        if timeout(CHECK, shared.followed.has_new.notified()).await.is_ok() {
            continue;
        }
        let length = INTERVALS * shared.members.lock().presence_interval();
        let unused = shared.followed.take_unused(length);
        if !unused.is_empty()
            && let Err(error) = sink.unsubscribe(unused).await
        {
            return failed(error);
        }
        match timeout(CHECK, sink.ping::<redis::Value>()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return failed(error),
            Err(_) => return ErrorKind::Timeout.with("the server does not respond"),
        }
    }
}

async fn receive(shared: &Shared, stream: PubSubStream) -> Error {
    let mut stream = pin!(stream);
    let next = |stream: &mut Pin<&mut PubSubStream>, cx: &mut std::task::Context<'_>| {
        stream.as_mut().poll_next(cx)
    };
    while let Some(message) = std::future::poll_fn(|cx| next(&mut stream, cx)).await {
        note(shared, &message);
    }
    ErrorKind::Connection.with("the subscription has ended")
}

fn note(shared: &Shared, message: &Msg) {
    let channel = message.get_channel_name().as_bytes();
    let Some(origin) = shared.followed.origin(channel) else {
        // The data began anew: with a heartbeat it is known what is lost.
        return shared.heartbeat.notify_one();
    };
    let hold = hold(message.get_payload_bytes(), shared.config.hold_max);
    if let (Some(hold), Some(listener)) = (hold, shared.listener.get()) {
        listener.tell(&origin, hold);
    }
}

/// What is left of a hold in microseconds, its status and its cause, as the script has published them.
fn hold(payload: &[u8], hold_max: Duration) -> Option<Hold> {
    let mut words = payload.splitn(3, |octet| *octet == b' ');
    let left = Duration::from_micros(digits(words.next()?)?).min(hold_max);
    let status = u16::try_from(digits(words.next()?)?).ok()?;
    let status = if (100..=599).contains(&status) { status } else { 503 };
    let cause = HoldCause::of(words.next()?);
    (!left.is_zero()).then_some(Hold { left, status, cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn a_published_hold_is_read_and_nonsense_is_none() {
        let max = Duration::from_secs(3600);
        let held = |payload: &str| hold(payload.as_bytes(), max);
        let of = |left, status| {
            Some(Hold { left: Duration::from_secs(left), status, cause: HoldCause::RetryAfter })
        };
        assert_eq!(held("30000000 429 retry_after"), of(30, 429));
        assert_eq!(held("99999999999 1000 retry_after"), of(3600, 503), "no longer than any");
        for nonsense in ["", "30000000", "30000000 429", "x 429 retry_after", "-3 429 retry_after"]
        {
            assert_eq!(held(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(held("0 429 retry_after"), None);
    }

    #[test]
    fn lanes_in_use_are_subscribed_once_and_left_when_they_are_not_used() {
        let followed = Followed::default();
        let origin = Origin::from_authority(Scheme::Https, "example.com").unwrap();
        followed.note(b"a", &origin);
        followed.note(b"a", &origin);
        followed.note(b"b", &origin);
        assert_eq!(followed.take_new().len(), 2);
        assert_eq!(followed.take_new().len(), 0);
        followed.forget_subscriptions();
        assert_eq!(followed.take_new().len(), 2);
        assert_eq!(followed.take_unused(Duration::from_mins(1)).len(), 0);
        assert_eq!(followed.take_unused(Duration::ZERO).len(), 2);
        assert_eq!(followed.origin(b"a"), None);
        for number in 0..2 * LANES_MAX {
            followed.note(&number.to_be_bytes(), &origin);
        }
        assert_eq!(followed.lanes.lock().len(), LANES_MAX);
    }
}
