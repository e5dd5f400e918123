//! HTTP/2 connections to origins, each shared by many exchanges. Who comes first opens one and the
//! others wait for it; nobody waits where the origin is known to speak HTTP/1.1 only.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use hyper::client::conn::http2::SendRequest;
use lru::LruCache;
use tokio::sync::OnceCell;

use super::error::Error;
use super::http2::Window;
use super::outgoing::Outgoing;
use super::terms::{Standing, Terms};
use crate::clients::Held;
use crate::egress::limits::HTTP2_STREAMS_MAX;
use crate::runtime::clock;
use crate::types::origin::Origin;

/// Origins remembered as speaking HTTP/1.1 only: nobody waits to share a connection to them.
const HTTP1_ORIGINS_MAX: usize = 4096;

/// A connection that exchanges share.
#[derive(Clone, Debug)]
pub struct Multiplexed {
    sender: SendRequest<Outgoing>,
    window: Window,
    usage: Arc<Mutex<Usage>>,
}

#[derive(Debug)]
struct Usage {
    standing: Standing,
    streams: usize,
    idle_since: Instant,
    /// It takes no further exchange; those under way go on.
    retired: bool,
    /// Whether the origin asked for a client certificate, and has not answered anything yet.
    asked: bool,
}

/// A place on a shared connection, for one exchange.
#[derive(Debug)]
pub struct Stream {
    pub sender: SendRequest<Outgoing>,
    connection: Multiplexed,
    /// For a window that is large.
    pub memory: Option<Held>,
}

/// How the shared connections of one worker are used.
#[derive(Clone, Copy, Debug, Default)]
pub struct InUse {
    /// Connections without a stream.
    pub idle: usize,
    /// Connections with one.
    pub busy: usize,
    pub streams: usize,
}

/// The outcome of opening a connection, for all who waited: `None` is one that cannot be shared.
pub type Opening = OnceCell<Result<Option<Multiplexed>, Error>>;

/// The shared connections of one worker.
#[derive(Debug)]
pub struct Table {
    state: Mutex<State>,
    /// How many connections there are.
    count: AtomicUsize,
}

#[derive(Debug)]
struct State {
    connections: HashMap<Origin, Vec<Multiplexed>>,
    opening: HashMap<(Origin, Window), Weak<Opening>>,
    http1: LruCache<Origin, ()>,
}

impl Multiplexed {
    pub fn new(
        sender: SendRequest<Outgoing>,
        window: Window,
        standing: Standing,
        asked: bool,
    ) -> Self {
        let usage =
            Usage { standing, streams: 0, idle_since: clock::monotonic(), retired: false, asked };
        Self { sender, window, usage: Arc::new(Mutex::new(usage)) }
    }

    pub fn stream(&self) -> Stream {
        self.usage().streams += 1;
        Stream { sender: self.sender.clone(), connection: self.clone(), memory: None }
    }

    /// That of each of its streams.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The address that it leads to.
    pub fn peer(&self) -> Option<IpAddr> {
        self.usage().standing.peer()
    }

    /// Whether it may be used on these terms. If not, it takes no further exchange.
    pub fn holds(&self, origin: &Origin, terms: &Arc<Terms>) -> bool {
        let mut usage = self.usage();
        let holds = usage.standing.holds(origin, terms);
        usage.retired |= !holds;
        holds
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        // Also taken while dropping, where a panic would be a second one.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.usage().retired
    }

    fn has_room(&self) -> bool {
        self.is_open() && self.usage().streams < HTTP2_STREAMS_MAX
    }

    fn is_worth_keeping(&self, now: Instant, timeout: Duration) -> bool {
        let usage = self.usage();
        let in_time = usage.streams > 0 || now.duration_since(usage.idle_since) < timeout;
        in_time && !usage.retired && !self.sender.is_closed()
    }
}

impl Stream {
    pub const fn connection(&self) -> &Multiplexed {
        &self.connection
    }

    pub fn asked(&self) -> bool {
        self.connection.usage().asked
    }

    /// The origin has answered: it does without a client certificate.
    pub fn answered(&self) {
        self.connection.usage().asked = false;
    }

    /// Lets the connection take no further exchange: the origin is leaving it.
    pub fn retire(&self) {
        self.connection.usage().retired = true;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut usage = self.connection.usage();
        usage.streams -= 1;
        usage.idle_since = clock::monotonic();
    }
}

impl Table {
    pub fn new() -> Self {
        let http1 =
            LruCache::sparse(NonZeroUsize::new(HTTP1_ORIGINS_MAX).expect("a bound above zero"));
        let state = State { connections: HashMap::default(), opening: HashMap::default(), http1 };
        Self { state: Mutex::new(state), count: AtomicUsize::new(0) }
    }

    /// A place on a connection to `origin` that has room for it and may be used on these terms.
    pub fn stream(&self, origin: &Origin, window: Window, terms: &Arc<Terms>) -> Option<Stream> {
        let state = self.state();
        let connections = state.connections.get(origin)?.iter();
        let mut usable = connections.filter(|connection| {
            connection.window == window && connection.has_room() && connection.holds(origin, terms)
        });
        usable.next().map(Multiplexed::stream)
    }

    /// Whether `origin` is remembered as speaking HTTP/1.1 only.
    pub fn is_http1(&self, origin: &Origin) -> bool {
        self.state().http1.contains(origin)
    }

    /// The opening of a connection to `origin`, joined by all who want one. `None` when the origin
    /// speaks HTTP/1.1, and everybody opens a connection alone.
    pub fn opening(&self, origin: &Origin, window: Window) -> Option<Arc<Opening>> {
        let mut state = self.state();
        if state.http1.get(origin).is_some() {
            return None;
        }
        let key = (origin.clone(), window);
        if let Some(opening) = state.opening.get(&key).and_then(Weak::upgrade) {
            return Some(opening);
        }
        let opening = Arc::new(Opening::new());
        state.opening.insert(key, Arc::downgrade(&opening));
        Some(opening)
    }

    /// The opening is over: keeps what was opened, if it can be shared, and what was learnt.
    pub fn opened(&self, origin: &Origin, window: Window, shared: Option<&Multiplexed>) {
        let mut state = self.state();
        state.opening.remove(&(origin.clone(), window));
        match shared {
            Some(connection) => {
                state.http1.pop(origin);
                state.connections.entry(origin.clone()).or_default().push(connection.clone());
                self.count.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                state.http1.put(origin.clone(), ());
            }
        }
    }

    /// Nothing was opened, and nothing learnt.
    pub fn failed(&self, origin: &Origin, window: Window) {
        self.state().opening.remove(&(origin.clone(), window));
    }

    /// How many connections there are. It costs nothing: whoever gives one back to the pool asks.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn in_use(&self) -> InUse {
        let state = self.state();
        state.connections.values().flatten().fold(InUse::default(), |sum, connection| {
            let streams = connection.usage().streams;
            InUse {
                idle: sum.idle + usize::from(streams == 0),
                busy: sum.busy + usize::from(streams > 0),
                streams: sum.streams + streams,
            }
        })
    }

    /// Closes what was not used for `timeout`, or was closed by its origin.
    pub fn sweep(&self, now: Instant, timeout: Duration) {
        let mut state = self.state();
        state.connections.retain(|_, connections| {
            connections.retain(|connection| connection.is_worth_keeping(now, timeout));
            !connections.is_empty()
        });
        self.count.store(state.connections.values().map(Vec::len).sum(), Ordering::Relaxed);
        state.opening.retain(|_, opening| opening.strong_count() > 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
