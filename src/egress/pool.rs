//! Connections to origins, kept for the next request: idle ones of HTTP/1.1, shared ones of HTTP/2.
//! One pool for each worker: the runtime that made a connection has its socket. A worker that
//! has none of its own to an origin borrows one of another's rather than shake hands once more; where it
//! would do so again and again, it opens its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::alone::Alone;
use super::bulk::Bulk;
use super::dial::Link;
use super::multiplexed::{Multiplexed, Table};
use super::outgoing::Answered;
use super::slots::Slot;
use super::terms::Shared;
use crate::clients::BodyMemory;
use crate::egress::limits::BORROWED_MAX;
use crate::runtime::clock;
use crate::types::origin::{Origin, Scheme};

#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Whether a connection can outlive its exchange here.
    keeps: bool,
    idle: Mutex<Idle>,
    pub(super) multiplexed: Table,
}

#[derive(Debug, Default)]
struct Idle {
    /// An origin stays for a while when its last connection is taken: whoever had one will again.
    by_origin: HashMap<Origin, VecDeque<Resting>>,
    /// How often one was borrowed since the last sweep.
    borrowed: HashMap<Origin, u32>,
    count: usize,
}

/// A connection, and since when it is idle.
#[derive(Debug)]
struct Resting {
    alone: Box<Alone>,
    since: Instant,
}

/// A connection, or a stream of one, in use for one exchange, and the slot that permits it.
#[derive(Debug)]
pub struct Lease {
    pub(super) link: Link,
    /// Whether the connection can serve another exchange.
    pub(super) lasts: bool,
    pub(super) _answered: Option<Answered>,
    pub(super) slot: Slot,
}

impl Lease {
    /// Has the rest of an answer read in larger pieces, in the largest where it is in `bulk` and there is memory for
    /// that; whether there is memory for any.
    pub(super) fn grow(&mut self, bulk: &mut Option<Bulk>) -> bool {
        let Link::Http1(alone) = &mut self.link else { return true };
        let asker = self.slot.asker();
        if bulk.is_some() && alone.grow(asker, true) {
            return true;
        }
        *bulk = None;
        alone.grow(asker, false)
    }

    /// Back to the pool when the connection can serve another exchange. A shared one is there.
    pub fn give_back(self) {
        if let Link::Http1(mut alone) = self.link
            && self.lasts
            && alone.is_idle()
            && !alone.closes_when_idle()
            && let Some(home) = alone.home()
            && (!alone.has_grown() || home.memory().is_ample())
        {
            alone.rest();
            home.put(self.slot.origin(), alone);
        }
    }
}

impl Pool {
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, keeps: true, idle: Mutex::default(), multiplexed: Table::new() })
    }

    /// One that keeps nothing.
    pub fn none(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, keeps: false, idle: Mutex::default(), multiplexed: Table::new() })
    }

    /// Whether a connection can outlive its exchange here.
    pub fn keeps(&self) -> bool {
        self.keeps && self.shared.look().config.max_idle > 0
    }

    /// What requests may hold.
    pub(super) fn memory(&self) -> &Arc<BodyMemory> {
        &self.shared.memory
    }

    /// A connection to `origin` that is idle here, or, where none ever was of late, with another
    /// worker. To wake that one's thread costs little beside a handshake, and more than a connection
    /// without one.
    pub fn take_any(&self, origin: &Origin) -> Option<Box<Alone>> {
        self.take(origin).or_else(|| self.borrow(origin))
    }

    fn borrow(&self, origin: &Origin) -> Option<Box<Alone>> {
        let may_borrow =
            self.keeps && origin.scheme() == Scheme::Https && self.state().may_borrow(origin);
        let borrowed =
            may_borrow.then(|| self.shared.borrow(self, |other| other.take(origin)))??;
        *self.state().borrowed.entry(origin.clone()).or_default() += 1;
        Some(borrowed)
    }

    /// The connection to `origin` that became idle last, has not idled too long, and may still be
    /// used. Those that may not are closed.
    fn take(&self, origin: &Origin) -> Option<Box<Alone>> {
        let terms = self.shared.look();
        let mut idle = self.state();
        let connections = idle.by_origin.get_mut(origin)?;
        let now = clock::monotonic();
        let (mut taken, mut gone) = (None, 0);
        while let Some(Resting { mut alone, since }) = connections.pop_back() {
            gone += 1;
            let in_time = now.duration_since(since) < terms.config.idle_timeout;
            if in_time && alone.holds(origin, &terms) && alone.is_still_idle() {
                taken = Some(alone);
                break;
            }
        }
        idle.count -= gone;
        taken
    }

    fn put(&self, origin: &Origin, alone: Box<Alone>) {
        if !self.has_room() {
            return;
        }
        let mut idle = self.state();
        idle.count += 1;
        let resting = Resting { alone, since: clock::monotonic() };
        match idle.by_origin.get_mut(origin) {
            Some(connections) => connections.push_back(resting),
            None => {
                idle.by_origin.insert(origin.clone(), VecDeque::from([resting]));
            }
        }
    }

    /// Keeps a connection that can be shared, as long as there is room for it.
    pub fn share(&self, origin: &Origin, connection: &Multiplexed) {
        if self.has_room() {
            self.multiplexed.opened(origin, connection.window(), Some(connection));
        } else {
            self.multiplexed.failed(origin, connection.window());
        }
    }

    fn has_room(&self) -> bool {
        if !self.keeps {
            return false;
        }
        let idle_max = self.shared.look().config.max_idle;
        if self.kept() < idle_max {
            return true;
        }
        self.sweep();
        self.kept() < idle_max
    }

    fn kept(&self) -> usize {
        self.idle() + self.multiplexed.len()
    }

    fn state(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections of HTTP/1.1 are kept here.
    pub fn idle(&self) -> usize {
        self.state().count
    }

    /// Closes what has idled too long, or was closed by its origin.
    pub fn sweep(&self) {
        let (now, timeout) = (clock::monotonic(), self.shared.look().config.idle_timeout);
        self.state().sweep(now, timeout);
        self.multiplexed.sweep(now, timeout);
    }
}

impl Idle {
    fn may_borrow(&self, origin: &Origin) -> bool {
        let has_enough = |times: &u32| *times >= BORROWED_MAX;
        !self.by_origin.contains_key(origin) && !self.borrowed.get(origin).is_some_and(has_enough)
    }

    fn sweep(&mut self, now: Instant, timeout: Duration) {
        self.by_origin.retain(|_, connections| {
            connections.retain_mut(|Resting { alone, since }| {
                now.duration_since(*since) < timeout && alone.is_still_idle()
            });
            !connections.is_empty()
        });
        self.borrowed = HashMap::default();
        self.count = self.by_origin.values().map(VecDeque::len).sum();
    }
}
