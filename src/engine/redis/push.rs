//! Holds that other proxies begin, as soon as the server publishes them, on a connection of its own; and
//! that the server's data began anew. Without the right to subscribe, and until the connection is there,
//! a hold is learnt with the next slot or announcement.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_core::Stream;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use redis::{Msg, RedisError, Value};
use tokio::time::{sleep, timeout};

use super::call::digits;
use super::connection::{error_of, push_connection};
use super::node::ask_sentinels;
use super::settings::Address;
use super::shared::Shared;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::{Hold, HoldCause};

/// A lane is followed for so many intervals of announcements after its last use.
const INTERVALS: u32 = 3;
/// A connection that fails is made anew after this; one that is not allowed, after that.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_REFUSED: Duration = Duration::from_mins(1);
/// How often it is asked whether the server is still there, and how often lanes are left.
const CHECK: Duration = Duration::from_secs(5);

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

/// Follows until that fails, or the settings have changed.
async fn follow_once(shared: &Shared) -> Error {
    shared.followed.forget_subscriptions();
    let limit = shared.redis.load().connect_timeout();
    let late = |_| ErrorKind::Timeout.with("no subscription in time");
    let mut changes = shared.changes.subscribe();
    let (sink, stream) = match timeout(limit, connect(shared)).await.map_err(late).flatten() {
        Ok(connection) => connection.split(),
        Err(error) => return error,
    };
    tokio::select! {
        Err(error) = keep(shared, sink) => error,
        error = receive(shared, stream) => error,
        _ = changes.changed() => ErrorKind::Connection.with("the settings have changed"),
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
async fn keep(shared: &Shared, mut sink: PubSubSink) -> Result<Infallible, Error> {
    let failed = |error: RedisError| error_of(&error);
    let late = |_| ErrorKind::Timeout.with("the server does not respond");
    sink.subscribe(shared.keys.cluster("epoch")).await.map_err(failed)?;
    loop {
        let new = shared.followed.take_new();
        if !new.is_empty() {
            sink.subscribe(new).await.map_err(failed)?;
            continue;
        }
        if timeout(CHECK, shared.followed.has_new.notified()).await.is_ok() {
            continue;
        }
        let length = INTERVALS * shared.members.lock().presence_interval();
        let unused = shared.followed.take_unused(length);
        if !unused.is_empty() {
            sink.unsubscribe(unused).await.map_err(failed)?;
        }
        timeout(CHECK, sink.ping::<Value>()).await.map_err(late)?.map_err(failed)?;
    }
}

async fn receive(shared: &Shared, stream: PubSubStream) -> Error {
    let mut stream = pin!(stream);
    while let Some(message) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
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
    let mut words = payload.splitn(3, |byte| *byte == b' ');
    let left = Duration::from_micros(digits(words.next()?)?).min(hold_max);
    let status = u16::try_from(digits(words.next()?)?).ok()?;
    let status = if (100..=599).contains(&status) { status } else { 503 };
    let cause = HoldCause::of(words.next()?);
    (!left.is_zero()).then_some(Hold { left, status, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
