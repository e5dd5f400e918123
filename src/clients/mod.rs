//! Decides which clients may use the proxy, and how much of it: by address, by name and password
//! (RFC 7617), and by the number of connections and requests in flight. [`ClientAdmission`] keeps
//! settings apart from counters, so that a reload loses no count.
//!
//! Promises: a correct password is verified once and cached; guessing slows down with each attempt
//! and never uses more than a few verifications at once; an unknown user costs as much time as a
//! known one.

mod admission;
mod body_memory;
mod client_waits;
mod fair_queue;
pub mod password;
mod reject_reason;
mod semaphore;
mod users;
mod verifier;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use foldhash::HashMap;
use ipnet::IpNet;

use crate::runtime::lock::Lock;
use crate::types::ClientKey;
pub use admission::{AdmissionResult, ClientAdmission};
pub use body_memory::{BodyMemory, MemoryPermit};
pub use client_waits::{ClientWait, ClientWaits};
pub use fair_queue::{ClientQueue, FairQueue};
pub use password::{Hash, Password};
pub use reject_reason::RejectReason;
pub use semaphore::{FairSemaphore, SemaphorePermit};
pub use users::{Change, User, Users, UsersError, check_name};

/// The settings of admission.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Whether any address may use the proxy.
    pub open: bool,
    /// The addresses that may, besides loopback. Empty with users configured: any address.
    pub allow: Vec<IpNet>,
    /// If set, a client must authenticate as one of these users.
    pub users: Option<Arc<Users>>,
    /// Connections of all clients.
    pub connections_max: usize,
    /// Connections per address, and per user.
    pub per_client_max: usize,
    /// Requests in flight per user or, without users, per address.
    pub requests_max: usize,
}

/// The client of a connection or request.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: IpAddr,
    /// Set where users are configured.
    pub user: Option<Arc<User>>,
}

impl Client {
    /// A client that is known by its address only.
    pub const fn at(address: IpAddr) -> Self {
        Self { address, user: None }
    }

    /// The user's name.
    pub fn name(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// The key under which this client's requests are counted.
    pub fn key(&self) -> ClientKey {
        match &self.user {
            Some(user) => user.key(),
            None => ClientKey::of(self.address),
        }
    }
}

impl ClientPermit {
    /// The client that has it.
    pub const fn key(&self) -> &ClientKey {
        &self.key
    }
}

/// How many permits each client has. A client without any has no entry.
#[derive(Debug, Default)]
pub struct ClientLimits(Lock<HashMap<ClientKey, usize>>);

/// One permit of a client; released when dropped.
#[derive(Debug)]
pub struct ClientPermit {
    key: ClientKey,
    places: Arc<ClientLimits>,
}

impl ClientLimits {
    /// One more permit for `key`, unless it has `max` already.
    pub fn take(self: &Arc<Self>, key: ClientKey, max: usize) -> Option<ClientPermit> {
        let mut taken = self.taken();
        match taken.get_mut(&key) {
            Some(count) if *count < max => *count += 1,
            None if max > 0 => _ = taken.insert(key.clone(), 1),
            _ => return None,
        }
        drop(taken);
        Some(ClientPermit { key, places: Arc::clone(self) })
    }

    /// The counts stay correct even if a thread panicked while it held the lock.
    fn taken(&self) -> MutexGuard<'_, HashMap<ClientKey, usize>> {
        self.0.lock()
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// One counter for each reason.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; RejectReason::WORDS.len()]);

impl Counts {
    /// Counts an error, and returns the outcome unchanged.
    fn note<T>(&self, outcome: Result<T, RejectReason>) -> Result<T, RejectReason> {
        outcome.inspect_err(|reject_reason| {
            self.0[reject_reason.place()].fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The counters by the reason's word, including those at zero.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RejectReason::WORDS
            .into_iter()
            .zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_limit_and_an_entry_only_while_it_has_a_permit() {
        let places = Arc::new(ClientLimits::default());
        let take = |address: &str| places.take(ClientKey::of(address.parse().unwrap()), 2);
        let first = take("192.0.2.1").unwrap();
        let _second = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let _other = take("192.0.2.2").unwrap();
        drop(first);
        drop(take("192.0.2.1").unwrap());
        let (_a, _b) = (take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap());
        assert!(take("2001:db8::ffff:1").is_none(), "one network is one client");
        drop((_second, _other, _a, _b));
        assert!(places.taken().is_empty());
    }

    #[test]
    fn a_client_that_may_have_none_leaves_no_entry() {
        let places = Arc::new(ClientLimits::default());
        assert!(places.take(ClientKey::Proxy, 0).is_none());
        assert!(places.taken().is_empty());
    }
}
