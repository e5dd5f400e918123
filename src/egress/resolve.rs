//! Names to addresses, through the system's resolver: cached briefly, bounded in look-ups under
//! way, with a deadline of its own. What comes back is judged by the caller.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Instant;

use lru::LruCache;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::{Error, Failure};
use crate::clock;
use crate::limits::{
    DNS_ADDRESSES_MAX, DNS_CACHE_ENTRIES, DNS_LOOKUPS_MAX, DNS_NEGATIVE_TTL, DNS_TIMEOUT, DNS_TTL,
};

#[derive(Debug)]
pub struct Resolver {
    cache: Mutex<LruCache<Box<str>, Cached>>,
    lookups: Semaphore,
}

#[derive(Clone, Debug)]
struct Cached {
    answer: Result<Vec<IpAddr>, Error>,
    until: Instant,
}

impl Resolver {
    pub fn new() -> Self {
        let entries = NonZeroUsize::new(DNS_CACHE_ENTRIES).expect("a bound above zero");
        Self { cache: Mutex::new(LruCache::sparse(entries)), lookups: Semaphore::new(DNS_LOOKUPS_MAX) }
    }

    /// The addresses of `name`, at least one.
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let now = clock::monotonic();
        if let Some(cached) = self.cached(name, now) {
            return cached;
        }
        let answer = timeout(DNS_TIMEOUT, self.look_up(name)).await.unwrap_or_else(|_| {
            Err(Error::new(
                Failure::DnsTimeout,
                format!("looking up {name} took longer than {DNS_TIMEOUT:?}"),
            ))
        });
        let keep = if answer.is_ok() { DNS_TTL } else { DNS_NEGATIVE_TTL };
        let cached = Cached { answer: answer.clone(), until: now + keep };
        self.cache.lock().expect("no panic while locked").put(name.into(), cached);
        answer
    }

    fn cached(&self, name: &str, now: Instant) -> Option<Result<Vec<IpAddr>, Error>> {
        let mut cache = self.cache.lock().expect("no panic while locked");
        cache.get(name).filter(|cached| now < cached.until).map(|cached| cached.answer.clone())
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let _bound = self.lookups.acquire().await.expect("the semaphore is never closed");
        // A dot at the end asks for the absolute name: it skips the resolver's search list, and a
        // public name never becomes a cluster-internal one. Single labels have no such form.
        let absolute = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
        let mut addresses: Vec<IpAddr> = match tokio::net::lookup_host((absolute.as_str(), 0)).await {
            Ok(found) => found.map(|address: SocketAddr| address.ip()).take(DNS_ADDRESSES_MAX).collect(),
            Err(error) => {
                return Err(Error::new(Failure::Dns, format!("cannot resolve {name}: {error}")));
            }
        };
        addresses.dedup();
        if addresses.is_empty() {
            return Err(Error::new(Failure::Dns, format!("{name} has no address")));
        }
        Ok(addresses)
    }
}
