//! Resolves host names.

#[cfg(test)]
mod resolver_tests;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{self, Error, Failure};
use super::requester::Requester;
use crate::clients::password::NAMED_LIST_BYTES_MAX;
use crate::clients::{FairSemaphore, SemaphorePermit};
use crate::runtime::lock::Lock;
use crate::runtime::{clock, files};

// Resolves names through the system's resolver. Lookups of one name at one time are shared, their
// results cached briefly, their number limited, and each has a timeout. The caller judges the
// addresses.
//
// `getaddrinfo` returns no TTL, so every result is cached for the same time: floor and ceiling are
// one. It cannot be interrupted either. A lookup goes on when no request waits for it any more,
// holds its permit until it ends, and leaves its result to later requests. So clients take turns
// at the permits, and some permits are kept from each client. A shortage of permits says nothing
// about a name, and is not cached.

/// How long an answer of the resolver is kept, floor and ceiling in one: getaddrinfo tells no TTL,
/// so short enough to follow a change, long enough that a crawl does not ask for each connection.
const DNS_TTL: Duration = Duration::from_secs(30);

/// How long a failed look-up is kept.
const DNS_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Deadline of one look-up, waiting for a place included.
const DNS_TIMEOUT: Duration = Duration::from_secs(8);

/// Names kept by the resolver's cache.
const DNS_CACHE_ENTRIES: usize = 10_000;

/// A lookup that runs or has ended.
type Lookup = watch::Receiver<LookupState>;

/// The state of a lookup.
#[derive(Clone, Debug)]
enum LookupState {
    /// It waits for a thread.
    Waiting,
    Running(Instant),
    Ended(LookupResult),
}

/// Tenths of the timeout that a lookup must have run for before its name is reported as silent: the
/// rest was spent in the proxy's own queues.
const SILENT_TENTHS: u32 = 9;

/// Resolves a name and blocks, perhaps for long.
type System = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names, for all workers.
pub struct Resolver {
    system: Arc<System>,
    names: Arc<Lock<Names>>,
    permits: Arc<FairSemaphore>,
    timeout: Duration,
}

struct Names {
    cache: LruCache<Box<str>, CacheEntry>,
    running: HashMap<Box<str>, Lookup>,
}

struct CacheEntry {
    resolved: LookupResult,
    until: Instant,
}

impl Resolver {
    /// A resolver with at most `max` lookups at one time.
    pub fn new(max: usize) -> Self {
        Self::over(resolve_with_system, max, DNS_TIMEOUT)
    }

    /// A resolver over another `system`.
    pub fn over(
        system: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
        max: usize,
        timeout: Duration,
    ) -> Self {
        let entries = NonZeroUsize::new(DNS_CACHE_ENTRIES).expect("a bound above zero");
        let names = Names { cache: LruCache::sparse(entries), running: HashMap::new() };
        Self {
            system: Arc::new(system),
            names: Arc::new(Lock::new(names)),
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
        if let Some(resolved) = self.names.lock().cached(name) {
            return resolved;
        }
        match timeout(self.timeout, self.join_or_start(name, requester)).await {
            Ok(resolved) => resolved,
            Err(_) => Err(self.timed_out(name)),
        }
    }

    async fn join_or_start(&self, name: &str, requester: Requester<'_>) -> LookupResult {
        let running = self.names.lock().running(name);
        let mut lookup = match running {
            Some(lookup) => lookup,
            None => {
                let permit = self.permit(requester).await;
                // Another request that waited for a permit may have had one earlier.
                if let Some(resolved) = self.names.lock().cached(name) {
                    return resolved;
                }
                self.start(name, permit)
            }
        };
        let ended = lookup.wait_for(|state| matches!(state, LookupState::Ended(_))).await;
        match ended.as_deref() {
            Ok(LookupState::Ended(resolved)) => resolved.clone(),
            _ => Err(Error::new(
                Failure::Exhausted,
                format!("the lookup of {name} ended without an answer: the proxy is stopping"),
            )),
        }
    }

    async fn permit(&self, requester: Requester<'_>) -> SemaphorePermit {
        match self.permits.try_acquire(requester.client_key()) {
            Some(permit) => permit,
            None => {
                requester.note_queued();
                self.permits.acquire(requester.client_key()).await
            }
        }
    }

    /// Starts a lookup of `name`, or joins the one that runs.
    fn start(&self, name: &str, permit: SemaphorePermit) -> Lookup {
        let mut names = self.names.lock();
        if let Some(lookup) = names.running(name) {
            return lookup;
        }
        let (sender, lookup) = watch::channel(LookupState::Waiting);
        names.running.insert(name.into(), lookup.clone());
        let system = Arc::clone(&self.system);
        let names = Arc::clone(&self.names);
        let name = Box::<str>::from(name);
        tokio::task::spawn_blocking(move || {
            let _ = sender.send(LookupState::Running(clock::monotonic()));
            let resolved = classify(&name, system(&name));
            names.lock().end(&name, resolved.clone());
            drop(permit);
            // Perhaps no request waits any more.
            let _ = sender.send(LookupState::Ended(resolved));
        });
        lookup
    }

    /// The error when nothing came in time. It is cached if the lookup has run for long enough, so
    /// that later requests need not wait as long.
    fn timed_out(&self, name: &str) -> Error {
        let mut names = self.names.lock();
        let timeout = self.timeout;
        let since = names.running(name).and_then(|lookup| lookup.borrow().running_since());
        let is_silent = since.is_some_and(|since| since.elapsed() >= timeout * SILENT_TENTHS / 10);
        if !is_silent {
            let detail = format!(
                "too many lookups are under way: that of {name} did not end within {timeout:?} \
                 (egress.max_lookups)"
            );
            return Error::new(Failure::Exhausted, detail);
        }
        let detail = format!("looking up {name} took longer than {timeout:?}");
        let error = Error::new(Failure::DnsTimeout, detail);
        names.store(name, Err(error.clone()));
        error
    }
}

impl LookupState {
    /// Since when the system's resolver runs.
    const fn running_since(&self) -> Option<Instant> {
        match self {
            Self::Running(since) => Some(*since),
            Self::Waiting | Self::Ended(_) => None,
        }
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl Names {
    fn cached(&mut self, name: &str) -> Option<LookupResult> {
        let now = clock::monotonic();
        self.cache
            .get(name)
            .filter(|cached| now < cached.until)
            .map(|cached| cached.resolved.clone())
    }

    /// Caches a result, unless it says nothing about the name.
    fn store(&mut self, name: &str, resolved: LookupResult) {
        if matches!(&resolved, Err(error) if error.failure.is_ours()) {
            return;
        }
        let ttl = if resolved.is_ok() { DNS_TTL } else { DNS_NEGATIVE_TTL };
        self.cache.put(name.into(), CacheEntry { resolved, until: clock::monotonic() + ttl });
    }

    /// The running lookup of `name`. One that its runtime dropped before it began does not count.
    fn running(&self, name: &str) -> Option<Lookup> {
        self.running.get(name).filter(|lookup| lookup.has_changed().is_ok()).cloned()
    }

    fn end(&mut self, name: &str, resolved: LookupResult) {
        self.running.remove(name);
        self.store(name, resolved);
    }
}

/// Addresses used of one answer.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// The addresses of a name, or why there are none.
pub type LookupResult = Result<Vec<IpAddr>, Error>;

/// Classifies the system's error, and limits the number of addresses.
pub fn classify(name: &str, found: io::Result<Vec<IpAddr>>) -> LookupResult {
    let mut addresses = found.map_err(|error| {
        let failure = if error::lookup_is_exhausted(&error) {
            Failure::Exhausted
        } else if is_not_found(&error) {
            Failure::NameNotFound
        } else {
            Failure::Dns
        };
        Error::new(failure, format!("cannot resolve {name}: {error}"))
    })?;
    addresses.truncate(DNS_ADDRESSES_MAX);
    addresses.dedup();
    if addresses.is_empty() {
        return Err(Error::new(Failure::Dns, format!("{name} has no address")));
    }
    Ok(addresses)
}

/// Whether it is `EAI_NONAME` of getaddrinfo(3). The standard library keeps only its message: these
/// are those of glibc and of musl. With any other message the failure is [`Failure::Dns`].
fn is_not_found(error: &io::Error) -> bool {
    let message = error.to_string();
    let known = ["Name or service not known", "Name does not resolve"];
    known.iter().any(|not_found| message.ends_with(not_found))
}

/// Asks the system's resolver. A dot at the end marks the name as absolute: it skips the resolver's
/// search list, so that a public name never becomes a cluster-internal one. Single labels have no
/// such form, and the machine's own hosts file does not know it.
pub fn resolve_with_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let resolve =
        |name: String| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect());
    if !name.contains('.') {
        return resolve(name.to_owned());
    }
    let listed = addresses_of(name);
    if listed.is_empty() { resolve(format!("{name}.")) } else { Ok(listed) }
}

// Reads the hosts file (hosts(5)). The system's resolver looks a name up there as it is written,
// and does not find the absolute form that [`self`] asks for.

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
