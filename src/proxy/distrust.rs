//! Clients that do not trust the proxy's certificates, as far as they show it: some say so in an alert, others leave,
//! in the handshake (Node) or after it (GnuTLS). Some that do trust them leave as well: they only wanted to know
//! which protocol there is. So a request is waited for a little, and each client and host is named once. Time is an
//! argument.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::time::Instant;

use lru::LruCache;
use tracing::warn;

use crate::clients::Client;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// Clients of which it is remembered whether they trust the proxy's certificates.
const DISTRUST_CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Hosts of one client of which that is remembered.
const DISTRUST_HOSTS_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("not zero");

/// Hosts for which one client is named in the log because it does not trust the proxy's certificates.
const DISTRUST_NAMED_MAX: usize = 16;

/// How long a request is waited for of a client that has left without one: a few seconds are enough for one that only
/// wanted to know which protocol there is.
const DISTRUST_WAIT: Duration = Duration::from_secs(5);

/// How long a client that has made requests is known for one that trusts the proxy's certificates.
const TRUST_REMEMBERED: Duration = Duration::from_mins(10);

/// What the latest clients have shown. Each has room of its own: none pushes out what is known of another's hosts.
#[derive(Debug)]
pub struct Distrust {
    clients: Mutex<LruCache<ClientKey, Hosts>>,
    /// Whether some have left of which it is not known yet whether a request comes.
    is_open: AtomicBool,
    named: AtomicU64,
}

#[derive(Debug)]
struct Hosts {
    known: LruCache<Origin, Shown>,
    /// How many of them it has been named for.
    named: usize,
}

/// What a client has shown at a host.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// A request came by TLS.
    Trust(Instant),
    /// It left without one.
    Left(IpAddr, Instant),
    /// It has been named.
    Named,
}

/// A client that seems not to trust the proxy's CA, and where it showed that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrusting {
    pub address: IpAddr,
    pub origin: Origin,
}

impl Default for Distrust {
    fn default() -> Self {
        let clients = Mutex::new(LruCache::sparse(DISTRUST_CLIENTS_MAX));
        Self { clients, is_open: AtomicBool::default(), named: AtomicU64::default() }
    }
}

impl Distrust {
    /// `client` has made a request to `origin` by TLS.
    pub fn trusts(&self, client: &Client, origin: &Origin, now: Instant) {
        self.change(client, origin, |hosts| {
            if !matches!(hosts.known.get(origin), Some(Shown::Named)) {
                hosts.known.put(origin.clone(), Shown::Trust(now));
            }
        });
    }

    /// `client` has left without a request, when it had been shown a certificate for `origin`.
    pub fn left(&self, client: &Client, origin: &Origin, now: Instant) {
        self.change(client, origin, |hosts| match hosts.known.get(origin) {
            Some(Shown::Trust(at)) if now.saturating_duration_since(*at) < TRUST_REMEMBERED => {}
            Some(Shown::Left(..) | Shown::Named) => {}
            _ => {
                hosts.known.put(origin.clone(), Shown::Left(client.address, now));
                self.is_open.store(true, Ordering::Release);
            }
        });
    }

    /// `client` has said that it does not trust the certificate for `origin`. Whether it is to be named now.
    pub fn refuses(&self, client: &Client, origin: &Origin) -> bool {
        let is_named = self.change(client, origin, |hosts| hosts.name(origin));
        self.named.fetch_add(u64::from(is_named), Ordering::Relaxed);
        is_named
    }

    /// Those to be named now: they have left, and no request has come for [`DISTRUST_WAIT`].
    pub fn due(&self, now: Instant) -> Vec<Distrusting> {
        if self.is_open.load(Ordering::Acquire) {
            self.take(|since| now.saturating_duration_since(since) >= DISTRUST_WAIT)
        } else {
            Vec::new()
        }
    }

    /// All that have left without a request: none comes any more.
    pub fn rest(&self) -> Vec<Distrusting> {
        self.take(|_| true)
    }

    /// How many have been named, by client and host.
    pub fn named(&self) -> u64 {
        self.named.load(Ordering::Relaxed)
    }

    fn take(&self, is_due: impl Fn(Instant) -> bool) -> Vec<Distrusting> {
        let mut clients = self.clients();
        let (mut due, mut is_open) = (Vec::new(), false);
        for (_, hosts) in clients.iter_mut() {
            let left = hosts.known.iter().filter_map(|(origin, shown)| match shown {
                Shown::Left(address, since) => Some((*address, *since, origin.clone())),
                Shown::Trust(_) | Shown::Named => None,
            });
            for (address, since, origin) in left.collect::<Vec<_>>() {
                if !is_due(since) {
                    is_open = true;
                } else if hosts.name(&origin) {
                    due.push(Distrusting { address, origin });
                }
            }
        }
        self.is_open.store(is_open, Ordering::Release);
        self.named.fetch_add(due.len() as u64, Ordering::Relaxed);
        due
    }

    fn change<T>(
        &self,
        client: &Client,
        origin: &Origin,
        change: impl FnOnce(&mut Hosts) -> T,
    ) -> T {
        debug_assert_eq!(origin.scheme(), crate::types::origin::Scheme::Https);
        let mut clients = self.clients();
        change(clients.get_or_insert_mut(client.key(), || Hosts {
            known: LruCache::sparse(DISTRUST_HOSTS_MAX),
            named: 0,
        }))
    }

    fn clients(&self) -> MutexGuard<'_, LruCache<ClientKey, Hosts>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Distrusting {
    /// In the log; under `courtesy run` the client had the variables that it would have followed.
    pub fn say(&self, under_run: bool) {
        let Self { address: client, origin } = self;
        let remedy = remedy(under_run);
        warn!(
            %client, %origin,
            "the client left when it was shown the proxy's certificate; it may not trust the proxy's CA: {remedy}"
        );
    }
}

/// What lets a client trust the proxy's certificates.
pub const fn remedy(under_run: bool) -> &'static str {
    if under_run {
        "this program takes its CAs from its own setting, not from the variables of `courtesy run`: name the \
         file in $SSL_CERT_FILE there, or see `courtesy ca install-help`"
    } else {
        "see `courtesy ca install-help`, or use `courtesy run`"
    }
}

impl Hosts {
    /// Whether the client is to be named for `origin`: once, and for a bounded number of hosts.
    fn name(&mut self, origin: &Origin) -> bool {
        let was_named = matches!(self.known.put(origin.clone(), Shown::Named), Some(Shown::Named));
        let is_named = !was_named && self.named < DISTRUST_NAMED_MAX;
        self.named += usize::from(is_named);
        is_named
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::clock;
    use crate::types::origin::Scheme;

    fn client(last: u8) -> Client {
        Client::at([192, 0, 2, last].into())
    }

    fn host(name: &str) -> Origin {
        Origin::from_authority(Scheme::Https, name).unwrap()
    }

    fn named(distrust: &Distrust, now: Instant) -> Vec<String> {
        distrust.due(now).iter().map(|it| format!("{} {}", it.address, it.origin)).collect()
    }

    const SOON: Duration = Duration::from_millis(100);

    #[test]
    fn who_leaves_without_a_request_is_named_once_after_a_while() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (one, a, b) = (client(1), host("a.example"), host("b.example"));
        distrust.left(&one, &a, now);
        distrust.left(&one, &a, now + SOON);
        assert!(named(&distrust, now + SOON).is_empty());
        distrust.left(&one, &b, now + 2 * SOON);
        assert_eq!(named(&distrust, now + DISTRUST_WAIT), ["192.0.2.1 https://a.example"]);
        assert_eq!(named(&distrust, now + 2 * DISTRUST_WAIT), ["192.0.2.1 https://b.example"]);
        distrust.left(&one, &a, now + 3 * DISTRUST_WAIT);
        assert!(named(&distrust, now + 9 * DISTRUST_WAIT).is_empty());
        assert_eq!(distrust.named(), 2);
    }

    #[test]
    fn who_makes_requests_before_or_after_is_not_named() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (a, b) = (host("a.example"), host("b.example"));
        distrust.left(&client(1), &a, now);
        distrust.trusts(&client(1), &a, now + SOON);
        distrust.trusts(&client(1), &b, now);
        distrust.left(&client(1), &b, now + SOON);
        assert!(named(&distrust, now + 2 * DISTRUST_WAIT).is_empty());
        // Another client's requests, and those of long ago, say nothing.
        distrust.left(&client(2), &a, now);
        assert_eq!(named(&distrust, now + 2 * DISTRUST_WAIT), ["192.0.2.2 https://a.example"]);
        let later = now + 2 * TRUST_REMEMBERED;
        distrust.left(&client(1), &b, later);
        assert_eq!(named(&distrust, later + DISTRUST_WAIT), ["192.0.2.1 https://b.example"]);
    }

    #[test]
    fn who_says_so_is_named_at_once_and_who_is_left_at_the_end() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (a, b) = (host("a.example"), host("b.example"));
        distrust.trusts(&client(1), &a, now);
        assert!(distrust.refuses(&client(1), &a));
        distrust.trusts(&client(1), &a, now);
        assert!(!distrust.refuses(&client(1), &a));
        distrust.left(&client(1), &b, now);
        assert_eq!(distrust.rest(), [Distrusting { address: client(1).address, origin: b }]);
        assert!(distrust.rest().is_empty());
        assert_eq!(distrust.named(), 2);
    }

    #[test]
    fn what_one_client_shows_is_bounded_and_leaves_room_for_others() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        distrust.left(&client(2), &host("a.example"), now);
        for number in 0..20 * DISTRUST_HOSTS_MAX.get() {
            let host = host(&format!("{number}.example"));
            distrust.left(&client(1), &host, now);
            distrust.refuses(&client(3), &host);
        }
        let count = |key: ClientKey| distrust.clients().get(&key).map(|hosts| hosts.known.len());
        assert_eq!(count(client(1).key()), Some(DISTRUST_HOSTS_MAX.get()));
        let due = named(&distrust, now + DISTRUST_WAIT);
        assert!(due.contains(&"192.0.2.2 https://a.example".to_owned()));
        assert_eq!(due.len(), DISTRUST_NAMED_MAX + 1);
        assert_eq!(distrust.named() as usize, 2 * DISTRUST_NAMED_MAX + 1);
    }
}
