//! Idle connections to origins, kept for the next request. One pool for each worker: a connection
//! lives and dies on the runtime that made it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use hyper::client::conn::http1::SendRequest;

use super::body::{Answered, Outgoing};
use super::slots::Slot;
use crate::clock;
use crate::origin::Origin;

/// How many connections wait idle, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub idle_max: usize,
    pub idle_timeout: Duration,
}

#[derive(Debug)]
pub struct Pool {
    bounds: Bounds,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    by_origin: HashMap<Origin, VecDeque<(SendRequest<Outgoing>, Instant)>>,
    count: usize,
}

/// A connection in use for one exchange, and the slot that permits it.
#[derive(Debug)]
pub struct Lease {
    pub(super) sender: SendRequest<Outgoing>,
    pub(super) pool: Weak<Pool>,
    /// Whether the request has been sent whole: a connection with an unfinished upload is not reused.
    pub(super) sent: Arc<AtomicBool>,
    pub(super) _answered: Option<Answered>,
    pub(super) slot: Slot,
}

impl Lease {
    /// Back to the pool when the connection can serve another exchange.
    pub fn give_back(self) {
        if !self.sent.load(Ordering::Acquire) || self.sender.is_closed() {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.put(self.slot.origin(), self.sender);
        }
    }
}

impl Pool {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, idle: Mutex::default() })
    }

    /// The connection to `origin` that became idle last and has not idled too long.
    pub fn take(&self, origin: &Origin) -> Option<SendRequest<Outgoing>> {
        let mut idle = self.idle.lock().expect("no panic while locked");
        let connections = idle.by_origin.get_mut(origin)?;
        let (before, now) = (connections.len(), clock::monotonic());
        let mut taken = None;
        while let Some((sender, since)) = connections.pop_back() {
            if !sender.is_closed() && now.duration_since(since) < self.bounds.idle_timeout {
                taken = Some(sender);
                break;
            }
        }
        let gone = before - connections.len();
        if connections.is_empty() {
            idle.by_origin.remove(origin);
        }
        idle.count -= gone;
        taken
    }

    fn put(&self, origin: &Origin, sender: SendRequest<Outgoing>) {
        let now = clock::monotonic();
        let mut idle = self.idle.lock().expect("no panic while locked");
        if idle.count >= self.bounds.idle_max {
            idle.sweep(now, self.bounds.idle_timeout);
        }
        if idle.count >= self.bounds.idle_max {
            return;
        }
        idle.count += 1;
        match idle.by_origin.get_mut(origin) {
            Some(connections) => connections.push_back((sender, now)),
            None => {
                idle.by_origin.insert(origin.clone(), VecDeque::from([(sender, now)]));
            }
        }
    }

    /// Closes what has idled too long, or was closed by its origin.
    pub fn sweep(&self) {
        let mut idle = self.idle.lock().expect("no panic while locked");
        idle.sweep(clock::monotonic(), self.bounds.idle_timeout);
    }
}

impl Idle {
    fn sweep(&mut self, now: Instant, timeout: Duration) {
        self.by_origin.retain(|_, connections| {
            connections.retain(|(sender, since)| !sender.is_closed() && now.duration_since(*since) < timeout);
            !connections.is_empty()
        });
        self.count = self.by_origin.values().map(VecDeque::len).sum();
    }
}
