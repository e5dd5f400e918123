//! Limits how many connections each client has.

use std::sync::{Arc, MutexGuard};

use foldhash::HashMap;

use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;

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
