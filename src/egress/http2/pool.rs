//! The shared HTTP/2 connections of one worker. The first exchange with an origin opens a
//! connection, and the others wait for it; none waits for an origin that is known to speak HTTP/1.1
//! only.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use lru::LruCache;
use tokio::sync::OnceCell;

use super::{Http2Connection, Http2Stream, Window};
use crate::egress::config::ConfigSnapshot;
use crate::egress::error::Error;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Origins remembered as speaking HTTP/1.1 only: requests do not wait to share a connection to
/// them.
const HTTP1_ORIGINS_MAX: usize = 4096;

/// The usage of one worker's shared connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http2Usage {
    /// Connections without a stream.
    pub idle: usize,
    /// Connections with a stream.
    pub busy: usize,
    pub streams: usize,
}

/// The outcome of opening a connection, for all exchanges that wait: `None` is a connection that
/// cannot be shared.
pub type Opening = OnceCell<Result<Option<Http2Connection>, Error>>;

/// The shared connections of one worker.
#[derive(Debug)]
pub struct Http2Pool {
    state: Lock<State>,
    /// The number of connections.
    len: AtomicUsize,
}

#[derive(Debug)]
struct State {
    connections: HashMap<Origin, Vec<Http2Connection>>,
    opening: HashMap<(Origin, Window), Weak<Opening>>,
    /// Origins that speak HTTP/1.1 only.
    http1: LruCache<Origin, ()>,
}

impl Http2Pool {
    /// An empty pool.
    pub fn new() -> Self {
        let http1 =
            LruCache::sparse(NonZeroUsize::new(HTTP1_ORIGINS_MAX).expect("a bound above zero"));
        let state = State { connections: HashMap::default(), opening: HashMap::default(), http1 };
        Self { state: Lock::new(state), len: AtomicUsize::new(0) }
    }

    /// A stream of a connection to `origin` that has room for it and may be used under `current`.
    pub fn stream(
        &self,
        origin: &Origin,
        window: Window,
        current: &Arc<ConfigSnapshot>,
    ) -> Option<Http2Stream> {
        let state = self.state.lock();
        let connections = state.connections.get(origin)?.iter();
        let mut usable = connections.filter(|connection| {
            connection.window() == window
                && connection.has_room()
                && connection.revalidate(origin, current)
        });
        usable.next().map(Http2Connection::stream)
    }

    /// Whether `origin` is known to speak HTTP/1.1 only.
    pub fn is_http1(&self, origin: &Origin) -> bool {
        self.state.lock().http1.contains(origin)
    }

    /// The opening of a connection to `origin`, which all exchanges that need one join. `None` when
    /// the origin speaks HTTP/1.1: each exchange then opens a connection of its own.
    pub fn opening(&self, origin: &Origin, window: Window) -> Option<Arc<Opening>> {
        let mut state = self.state.lock();
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

    /// Keeps a new connection.
    pub fn keep(&self, origin: &Origin, connection: &Http2Connection) {
        let mut state = self.state.lock();
        state.http1.pop(origin);
        let connections = state.connections.entry(origin.clone()).or_default();
        connections.push(connection.clone());
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that `origin` speaks HTTP/1.1 only.
    pub fn note_http1(&self, origin: &Origin) {
        self.state.lock().http1.put(origin.clone(), ());
    }

    /// Ends an opening, of which the connection, if there is one, is kept already.
    pub fn end_opening(&self, origin: &Origin, window: Window) {
        self.state.lock().opening.remove(&(origin.clone(), window));
    }

    /// The number of connections. Takes no lock: it is read whenever a connection is given back.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// How the connections are used.
    pub fn usage(&self) -> Http2Usage {
        let state = self.state.lock();
        state.connections.values().flatten().fold(Http2Usage::default(), |sum, connection| {
            let streams = connection.streams();
            Http2Usage {
                idle: sum.idle + usize::from(streams == 0),
                busy: sum.busy + usize::from(streams > 0),
                streams: sum.streams + streams,
            }
        })
    }

    /// Closes connections that were not used for `timeout` or that their origin has closed.
    pub fn sweep(&self, now: Instant, timeout: Duration) {
        let mut state = self.state.lock();
        state.connections.retain(|_, connections| {
            connections.retain(|connection| connection.is_worth_keeping(now, timeout));
            !connections.is_empty()
        });
        self.len.store(state.connections.values().map(Vec::len).sum(), Ordering::Relaxed);
        state.opening.retain(|_, opening| opening.strong_count() > 0);
    }
}
