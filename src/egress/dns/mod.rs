//! Resolves host names: by the hosts file, then by the name servers of resolv.conf(5).
//!
//! Answers are kept for their lifetimes, within bounds; the number of lookups is limited, clients take
//! turns at them, and each has a timeout. The caller judges the addresses. A lookup ends with the
//! request that waits for it. A shortage of permits or of descriptors says nothing about a name, and
//! is not kept.

#[cfg(test)]
mod resolver_tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::system_conf::read_system_conf;
use lru::LruCache;
use tokio::time::timeout;

use super::client_share::Requester;
use super::error::{self, Error, Failure};
use crate::clients::password::NAMED_LIST_BYTES_MAX;
use crate::clients::{FairSemaphore, SemaphorePermit};
use crate::runtime::lock::Lock;
use crate::runtime::{clock, files};

/// The least that an answer is kept for: a lifetime of zero does not make each connection ask.
const DNS_TTL_MIN: Duration = Duration::from_secs(5);

/// The most: what moves is followed within the hour.
const DNS_TTL_MAX: Duration = Duration::from_hours(1);

/// The same for the answer that there is no such name or address (RFC 2308 §5), and the least for other
/// failures.
const DNS_NEGATIVE_TTL_MAX: Duration = Duration::from_mins(1);

/// Deadline of one lookup, and of the wait for a permit before it.
const DNS_TIMEOUT: Duration = Duration::from_secs(8);

/// Names kept by the cache.
const DNS_CACHE_ENTRIES: NonZeroUsize = NonZeroUsize::new(10_000).expect("a bound above zero");

/// Addresses used of one answer.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// The addresses of a name, or why there are none.
pub type LookupResult = Result<Vec<IpAddr>, Error>;

/// Addresses, and how long they may be kept.
type Found = Result<(Vec<IpAddr>, Duration), NetError>;

/// Looks a name up.
type LookUp = dyn Fn(&str) -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync;

/// Resolves names, for all workers.
pub struct Resolver {
    look_up: Box<LookUp>,
    cache: Lock<LruCache<Box<str>, CacheEntry>>,
    permits: Arc<FairSemaphore>,
    timeout: Duration,
}

struct CacheEntry {
    resolved: LookupResult,
    until: Instant,
}

impl Resolver {
    /// A resolver with at most `max` lookups at one time.
    pub fn new(max: usize) -> Self {
        let look_up = |name: &str| {
            let name = name.to_owned();
            Box::pin(async move { look_up(&name).await }) as Pin<Box<dyn Future<Output = _> + Send>>
        };
        Self::over(look_up, max, DNS_TIMEOUT)
    }

    /// A resolver that looks names up by `look_up`.
    pub fn over(
        look_up: impl Fn(&str) -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync + 'static,
        max: usize,
        timeout: Duration,
    ) -> Self {
        Self {
            look_up: Box::new(look_up),
            cache: Lock::new(LruCache::sparse(DNS_CACHE_ENTRIES)),
            permits: FairSemaphore::new(max),
            timeout,
        }
    }

    /// Changes the number of lookups at one time.
    pub fn resize(&self, max: usize) {
        self.permits.resize(max);
    }

    /// The addresses of `name`, at least one, looked up in the requester's turn.
    pub async fn resolve(&self, name: &str, requester: Requester<'_>) -> LookupResult {
        if let Some(resolved) = self.cached(name) {
            return resolved;
        }
        let _permit = self.permit(name, requester).await?;
        // Another request that waited for a permit may have had one earlier.
        if let Some(resolved) = self.cached(name) {
            return resolved;
        }
        let found = timeout(self.timeout, (self.look_up)(name)).await;
        let (resolved, ttl) = classify(name, found.unwrap_or(Err(NetError::Timeout)));
        if !matches!(&resolved, Err(error) if error.failure.is_ours()) {
            let entry = CacheEntry { resolved: resolved.clone(), until: clock::monotonic() + ttl };
            self.cache.lock().put(name.into(), entry);
        }
        resolved
    }

    fn cached(&self, name: &str) -> Option<LookupResult> {
        let mut cache = self.cache.lock();
        let cached = cache.get(name).filter(|cached| clock::monotonic() < cached.until)?;
        Some(cached.resolved.clone())
    }

    async fn permit(&self, name: &str, requester: Requester<'_>) -> Result<SemaphorePermit, Error> {
        let client = requester.client_key();
        if let Some(permit) = self.permits.try_acquire(client) {
            return Ok(permit);
        }
        requester.note_queued();
        timeout(self.timeout, self.permits.acquire(client)).await.map_err(|_| {
            let limit = self.timeout;
            let detail = format!(
                "too many lookups are under way: that of {name} did not begin within {limit:?}"
            );
            Error::new(Failure::Exhausted, detail)
        })
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("permits", &self.permits).finish_non_exhaustive()
    }
}

/// What was found, with a limited number of addresses, or why there is nothing; and how long that is
/// kept.
fn classify(name: &str, found: Found) -> (LookupResult, Duration) {
    let error = match found {
        Ok((mut addresses, ttl)) if !addresses.is_empty() => {
            addresses.truncate(DNS_ADDRESSES_MAX);
            addresses.dedup();
            return (Ok(addresses), ttl.clamp(DNS_TTL_MIN, DNS_TTL_MAX));
        }
        Ok(_) => NetError::Message("it has no address"),
        Err(error) => error,
    };
    let ttl = match &error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => none.negative_ttl.unwrap_or_default(),
        _ => 0,
    };
    let failure = if error.is_nx_domain() {
        Failure::NameNotFound
    } else if error::lookup_is_exhausted(io_error(&error)) {
        Failure::Exhausted
    } else if matches!(error, NetError::Timeout) {
        Failure::DnsTimeout
    } else {
        Failure::Dns
    };
    let error = Error::new(failure, format!("cannot resolve {name}: {error}"));
    (Err(error), Duration::from_secs(ttl.into()).clamp(DNS_TTL_MIN, DNS_NEGATIVE_TTL_MAX))
}

fn io_error(error: &NetError) -> Option<&io::Error> {
    match error {
        NetError::Io(error) => Some(error),
        _ => None,
    }
}

/// Looks `name` up as the machine is set up at this moment: the files are small, and read only for
/// names that are not kept. What the hosts file has is not asked for (nsswitch.conf(5): files dns).
///
/// A name with a dot is absolute: it skips the search list, so that a public name never becomes a
/// cluster-internal one.
async fn look_up(name: &str) -> Found {
    let listed = addresses_of(name);
    if !listed.is_empty() {
        return Ok((listed, Duration::ZERO));
    }
    let absolute = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
    let found = resolver()?.lookup_ip(absolute).await?;
    let ttl = found.valid_until().saturating_duration_since(clock::monotonic());
    let mut addresses: Vec<IpAddr> = found.iter().collect();
    // RFC 6724 §6, rule 1: what this machine has no route to comes last.
    addresses.sort_by_key(|ip| ip.is_ipv6() && error::route(SocketAddr::new(*ip, 443)).is_err());
    Ok((addresses, ttl))
}

/// A resolver by resolv.conf(5), for the runtime of this thread, which drives its sockets. Without the
/// file, or a name server in it, it asks this machine.
fn resolver() -> Result<TokioResolver, NetError> {
    let (config, options) = match read_system_conf() {
        Err(error) if io_error(&error).is_some_and(error::is_exhausted) => return Err(error),
        Err(_) => {
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_parts(None, Vec::new(), vec![local]), ResolverOpts::default())
        }
        Ok(read) => read,
    };
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let set = builder.options_mut();
    *set = options;
    (set.cache_size, set.use_hosts_file) = (0, ResolveHosts::Never);
    set.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    builder.build()
}

const FILE: &str = "/etc/hosts";

/// The addresses in the hosts file for `name`.
pub fn addresses_of(name: &str) -> Vec<IpAddr> {
    files::read_text(Path::new(FILE), NAMED_LIST_BYTES_MAX)
        .map(|text| addresses(&text, name))
        .unwrap_or_default()
}

/// Each line holds an address, its names, and a comment. Other lines are ignored.
fn addresses(text: &str, name: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|listed| listed.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_addresses_of_all_its_lines() {
        let text = "127.0.0.1\tlocalhost\n\
                    10.0.0.5  db.internal.test  DB # not c.test\n\
                    fd00::5 db.internal.test\n\
                    fe80::1%eth0 zone.test\n\
                    nonsense c.test\n\
                    #10.0.0.6 c.test\n";
        let of = |name| addresses(text, name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of("db.internal.test"), ["10.0.0.5", "fd00::5"]);
        assert_eq!(of("db"), ["10.0.0.5"]);
        for name in ["c.test", "zone.test", "internal.test", "not", ""] {
            assert!(of(name).is_empty(), "{name}");
        }
    }
}
