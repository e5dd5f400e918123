//! The terms on which origins are contacted: bounds, addresses and hosts, certificates. They can
//! change while the proxy runs; whoever needs one reads it when it is used, and a connection that was
//! made on other terms is judged again before it is used again.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Semaphore;

use super::address::AddressPolicy;
use super::counters::Counters;
use super::hosts::HostRules;
use super::pool::Pool;
use super::resolve::Resolver;
use super::slots::Slots;
use super::tls::Tls;
use crate::clients::{BodyMemory, FairSemaphore};
use crate::egress::limits::ORIGIN_BULKS_MAX;
use crate::types::origin::{Origin, Scheme};

/// The settings of the way out; see `config/courtesy.toml` for their meaning and defaults.
#[derive(Clone, Debug)]
pub struct Config {
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
    pub body_idle_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_per_origin: usize,
    pub max_idle: usize,
    /// Look-ups of names under way at one time.
    pub max_lookups: usize,
    /// Connection attempts beside the first one of each request, at one time.
    pub max_attempts_beside: usize,
    pub max_header_bytes: usize,
    pub max_headers: usize,
    pub hosts: HostRules,
    /// Whether the proxy is that of one command, `courtesy run`: a refusal then names its flags.
    pub under_run: bool,
}

/// What all workers share: who may be contacted, what names mean, how many at a time.
pub struct Shared {
    terms: ArcSwap<Terms>,
    pub(super) resolver: Resolver,
    pub(super) slots: Arc<Slots>,
    /// For connection attempts beside the first one of a request.
    pub(super) attempts: Arc<FairSemaphore>,
    pub(super) counters: Counters,
    /// What requests may hold, in all and each client's.
    pub(super) memory: Arc<BodyMemory>,
    /// For answers that are read in the largest portions.
    pub(super) bulks: Arc<Semaphore>,
    /// Those of the workers, each with the connections that its runtime drives.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// What holds at one moment.
pub struct Terms {
    pub config: Config,
    pub policy: AddressPolicy,
    pub tls: Tls,
}

/// Where a connection leads, and the terms that it was last found to keep.
pub(super) struct Standing {
    peer: Option<IpAddr>,
    terms: Arc<Terms>,
}

impl Shared {
    /// With a budget of memory of its own.
    pub fn new(terms: Terms) -> Arc<Self> {
        Self::with_memory(terms, Arc::default())
    }

    /// `memory` is what requests may hold.
    pub fn with_memory(terms: Terms, memory: Arc<BodyMemory>) -> Arc<Self> {
        let slots = Slots::new(terms.config.max_per_origin);
        let resolver = Resolver::new(terms.config.max_lookups);
        let attempts = FairSemaphore::new(terms.config.max_attempts_beside);
        let terms = ArcSwap::from_pointee(terms);
        Arc::new(Self {
            terms,
            attempts,
            resolver,
            slots,
            counters: Counters::default(),
            memory,
            bulks: Arc::new(Semaphore::new(ORIGIN_BULKS_MAX)),
            pools: Mutex::default(),
        })
    }

    /// Other terms, for everything that begins from now on. What is under way ends as it began.
    pub fn change(&self, terms: Terms) {
        let Config { max_per_origin, max_lookups, max_attempts_beside, .. } = terms.config;
        self.terms.store(Arc::new(terms));
        self.slots.change(max_per_origin);
        self.resolver.resize(max_lookups);
        self.attempts.resize(max_attempts_beside);
    }

    /// Lets the others borrow what `pool` keeps.
    pub(super) fn enter(&self, pool: &Arc<Pool>) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(pool));
    }

    /// The first of the pools, but for `own`, that gives something.
    pub(super) fn borrow<T>(
        &self,
        own: &Pool,
        take: impl FnMut(Arc<Pool>) -> Option<T>,
    ) -> Option<T> {
        self.pools().into_iter().filter(|pool| !std::ptr::eq(&**pool, own)).find_map(take)
    }

    /// Those of the workers.
    pub(super) fn pools(&self) -> Vec<Arc<Pool>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    }

    /// The terms of this moment, to be kept.
    pub(super) fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// The terms of this moment, for a look: workers do not count on one number how often they are in use.
    pub(super) fn look(&self) -> Guard<Arc<Terms>> {
        self.terms.load()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.terms.load().config).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Terms {
    /// Whether a connection to `origin` that leads to `peer`, made on the terms `before`, could have
    /// been made on these.
    fn permit(&self, before: &Self, origin: &Origin, peer: IpAddr) -> bool {
        self.config.hosts.judge(origin.host()).is_ok()
            && self.policy.judge(SocketAddr::new(peer, origin.port())).is_ok()
            && (origin.scheme() != Scheme::Https || self.tls.trusts_as(&before.tls, origin.host()))
    }
}

impl Standing {
    pub const fn new(peer: Option<IpAddr>, terms: Arc<Terms>) -> Self {
        Self { peer, terms }
    }

    /// The address that the connection leads to.
    pub const fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The settings on which it was made.
    pub fn config(&self) -> &Config {
        &self.terms.config
    }

    /// Whether the connection, which is one to `origin`, may be used on the terms of this moment.
    /// Terms that have not changed cost a comparison.
    pub fn holds(&mut self, origin: &Origin, now: &Arc<Terms>) -> bool {
        if Arc::ptr_eq(&self.terms, now) {
            return true;
        }
        let permitted = self.peer.is_some_and(|peer| now.permit(&self.terms, origin, peer));
        if permitted {
            self.terms = Arc::clone(now);
        }
        permitted
    }
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standing").field("peer", &self.peer).finish_non_exhaustive()
    }
}
