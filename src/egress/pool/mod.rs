//! One worker's connections to origins, kept between exchanges: idle ones of HTTP/1.1, shared ones of
//! HTTP/2. Each worker has a pool of its own, because the runtime that opened a connection drives its
//! socket.

mod lease;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use foldhash::HashMap;

use super::config::{ConfigSnapshot, IDLE_MAX};
use super::http1::Http1Connection;
use super::http2::{Http2Connection, Http2Pool};
use crate::clients::BodyMemory;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;
pub use lease::Lease;

/// The kept connections of one worker.
#[derive(Debug)]
pub struct Pool {
    current: Arc<ArcSwap<ConfigSnapshot>>,
    memory: Arc<BodyMemory>,
    /// Whether a connection can outlive its exchange here.
    keeps: bool,
    idle: Lock<IdleConnections>,
    pub http2: Http2Pool,
}

/// The pools of all workers.
#[derive(Debug, Default)]
pub struct Pools(Lock<Vec<Weak<Pool>>>);

impl Pools {
    /// Registers a pool.
    pub fn add(&self, pool: &Arc<Pool>) {
        self.0.lock().push(Arc::downgrade(pool));
    }

    /// The pools of the workers that run.
    pub fn all(&self) -> Vec<Arc<Pool>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Pool {
    /// A pool; one that keeps nothing unless it `keeps` connections.
    pub fn new(
        current: Arc<ArcSwap<ConfigSnapshot>>,
        memory: Arc<BodyMemory>,
        keeps: bool,
    ) -> Arc<Self> {
        let http2 = Http2Pool::new();
        Arc::new(Self { current, memory, keeps, idle: Lock::default(), http2 })
    }

    /// Whether a connection can outlive its exchange here.
    pub const fn keeps(&self) -> bool {
        self.keeps
    }

    /// The memory that requests may hold.
    pub const fn memory(&self) -> &Arc<BodyMemory> {
        &self.memory
    }

    /// The connection to `origin` that became idle last, has not idled too long, and may still be
    /// used. Those that may not are closed.
    pub fn take(&self, origin: &Origin) -> Option<Box<Http1Connection>> {
        let now = clock::monotonic();
        self.idle.lock().take(origin, &self.current.load(), now)
    }

    /// Keeps an idle connection, if there is room for it and memory for its buffer.
    pub fn keep(&self, origin: &Origin, mut connection: Box<Http1Connection>) {
        if connection.closes_when_idle() || connection.has_large_buffer() && !self.memory.is_ample()
        {
            return;
        }
        connection.park();
        if self.make_room() {
            self.idle.lock().put(origin, connection, clock::monotonic());
        }
    }

    /// Keeps a connection that can be shared, if there is room for it.
    pub fn keep_shared(&self, origin: &Origin, connection: &Http2Connection) {
        if self.make_room() {
            self.http2.keep(origin, connection);
        }
    }

    /// Makes room for one more connection by a sweep, if need be; whether there is room.
    fn make_room(&self) -> bool {
        if !self.keeps {
            return false;
        }
        if self.len() >= IDLE_MAX {
            self.sweep();
        }
        self.len() < IDLE_MAX
    }

    fn len(&self) -> usize {
        self.idle() + self.http2.len()
    }

    /// Idle connections of HTTP/1.1.
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    /// Closes connections that have idled too long or that their origin has closed.
    pub fn sweep(&self) {
        let now = clock::monotonic();
        let timeout = self.current.load().config.idle_timeout;
        self.idle.lock().sweep(now, timeout);
        self.http2.sweep(now, timeout);
    }
}

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub struct IdleConnections {
    /// An origin keeps its entry until the next sweep when its last connection is taken: the worker
    /// will have a connection to it again.
    by_origin: HashMap<Origin, VecDeque<IdleConnection>>,
    len: usize,
}

/// A connection, and since when it is idle.
#[derive(Debug)]
struct IdleConnection {
    connection: Box<Http1Connection>,
    since: Instant,
}

impl IdleConnections {
    /// The number of connections.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Takes the connection to `origin` that became idle last, has not idled too long, and may
    /// still be used. Closes those that may not.
    pub fn take(
        &mut self,
        origin: &Origin,
        current: &Arc<ConfigSnapshot>,
        now: Instant,
    ) -> Option<Box<Http1Connection>> {
        let connections = self.by_origin.get_mut(origin)?;
        while let Some(IdleConnection { mut connection, since }) = connections.pop_back() {
            self.len -= 1;
            let time = now.duration_since(since);
            let is_in_time = connection.may_idle(time, current.config.idle_timeout);
            if is_in_time && connection.revalidate(origin, current) && connection.check_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// Adds a connection that has just become idle.
    pub fn put(&mut self, origin: &Origin, connection: Box<Http1Connection>, now: Instant) {
        self.len += 1;
        let entry = IdleConnection { connection, since: now };
        match self.by_origin.get_mut(origin) {
            Some(connections) => connections.push_back(entry),
            None => {
                self.by_origin.insert(origin.clone(), VecDeque::from([entry]));
            }
        }
    }

    /// Closes connections that have idled for `timeout` or that their origin has closed.
    pub fn sweep(&mut self, now: Instant, timeout: Duration) {
        self.by_origin.retain(|_, connections| {
            connections.retain_mut(|IdleConnection { connection, since }| {
                connection.may_idle(now.duration_since(*since), timeout) && connection.check_idle()
            });
            !connections.is_empty()
        });
        self.len = self.by_origin.values().map(VecDeque::len).sum();
    }
}
