//! Counts of the protocols that clients speak inside an intercepted CONNECT, and of failed TLS
//! handshakes: only these show a crawler that does not trust the CA.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lru::LruCache;
use rustls::AlertDescription;
use tracing::warn;

use crate::clients::Client;
use crate::proxy::connect::sniff::TunnelProtocol;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::{Origin, Scheme};

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct TlsMetrics {
    protocols: [AtomicU64; PROTOCOLS.len()],
    failures: [AtomicU64; ALERTS.len()],
    unused: AtomicU64,
    pub distrust: Distrust,
}

const PROTOCOLS: [&str; 3] = ["tls", "http", "other"];

/// The alerts (RFC 8446 §6.2) by which clients reject a certificate; any other alert; and none: the
/// client closed the connection or timed out.
const ALERTS: [&str; 7] = [
    "unknown_ca",
    "certificate_unknown",
    "bad_certificate",
    "certificate_expired",
    "close_notify",
    "other",
    "none",
];

impl TlsMetrics {
    /// Counts the protocol of one CONNECT.
    pub fn count_protocol(&self, protocol: TunnelProtocol) {
        let place = match protocol {
            TunnelProtocol::Tls => 0,
            TunnelProtocol::Http => 1,
            TunnelProtocol::Other => 2,
        };
        self.protocols[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed handshake; `None`: it timed out.
    pub fn count_failure(&self, error: Option<&io::Error>) {
        let place = match error.and_then(alert) {
            Some(AlertDescription::UnknownCA) => 0,
            Some(AlertDescription::CertificateUnknown) => 1,
            Some(AlertDescription::BadCertificate) => 2,
            Some(AlertDescription::CertificateExpired) => 3,
            Some(AlertDescription::CloseNotify) => 4,
            Some(_) => 5,
            None => 6,
        };
        self.failures[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that the client closed after the handshake, without a request.
    pub fn count_unused(&self) {
        self.unused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were closed after the handshake, without a request.
    pub fn unused(&self) -> u64 {
        self.unused.load(Ordering::Relaxed)
    }

    /// How many clients and hosts were logged because the client does not seem to trust the
    /// certificate.
    pub fn distrusting(&self) -> u64 {
        self.distrust.named()
    }

    /// Logs the clients that closed a connection without a request and have made none since.
    pub fn log_distrusting(&self, now: Instant, under_run: bool) {
        self.distrust.take_due(now).iter().for_each(|it| it.log(under_run));
    }

    /// The same when all connections have ended, so that no more requests come.
    pub fn log_rest(&self, under_run: bool) {
        self.distrust.take_rest().iter().for_each(|it| it.log(under_run));
    }

    /// How many CONNECTs had which protocol inside.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PROTOCOLS.into_iter().zip(self.protocols.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How many handshakes failed, by the alert.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ALERTS.into_iter().zip(self.failures.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The alert that a client has sent, if `error` is one.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

// Clients that do not trust the proxy's certificates. Some send an alert, others close the
// connection, in the handshake (Node) or after it (GnuTLS). Some clients that trust them close it,
// too: they only wanted to know which protocol is negotiated. So a client that closed is given
// some time to make a request, and each client and host is logged once. Time is an argument.

/// The latest clients, of which it is remembered whether they trust the proxy's certificates.
const DISTRUST_CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// The latest hosts of one client, of which that is remembered.
const DISTRUST_HOSTS_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("not zero");

/// Hosts for which one client is logged as not trusting the proxy's certificates.
const DISTRUST_NAMED_MAX: usize = 16;

/// Time for a request after a connection was closed without one: a client that only wanted to know
/// the protocol needs a few seconds.
const DISTRUST_WAIT: Duration = Duration::from_secs(5);

/// How long a client that has made a request counts as one that trusts the certificates.
const TRUST_REMEMBERED: Duration = Duration::from_mins(10);

/// What the latest clients have shown. Each has its own bounds, so that none evicts what is known
/// of another's hosts.
#[derive(Debug)]
pub struct Distrust {
    clients: Lock<LruCache<ClientKey, Hosts>>,
    /// Whether a client has closed a connection and may still make a request.
    is_pending: AtomicBool,
    named: AtomicU64,
}

#[derive(Debug)]
struct Hosts {
    known: LruCache<Origin, Sign>,
    /// The number of hosts that the client has been logged for.
    named: usize,
}

/// What a client has shown at a host.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// It made a request over TLS.
    Trust(Instant),
    /// It closed the connection without a request.
    Closed(IpAddr, Instant),
    /// It has been logged.
    Named,
}

impl Default for Distrust {
    fn default() -> Self {
        let clients = Lock::new(LruCache::sparse(DISTRUST_CLIENTS_MAX));
        Self { clients, is_pending: AtomicBool::default(), named: AtomicU64::default() }
    }
}

impl Distrust {
    /// Notes that `client` has made a request to `origin` over TLS.
    pub fn note_request(&self, client: &Client, origin: &Origin, now: Instant) {
        self.change(client, origin, |hosts| {
            if !matches!(hosts.known.get(origin), Some(Sign::Named)) {
                hosts.known.put(origin.clone(), Sign::Trust(now));
            }
        });
    }

    /// Notes that `client` has closed a connection without a request after it was sent a
    /// certificate for `origin`.
    pub fn note_closed(&self, client: &Client, origin: &Origin, now: Instant) {
        self.change(client, origin, |hosts| match hosts.known.get(origin) {
            Some(Sign::Trust(at)) if now.saturating_duration_since(*at) < TRUST_REMEMBERED => {}
            Some(Sign::Closed(..) | Sign::Named) => {}
            _ => {
                hosts.known.put(origin.clone(), Sign::Closed(client.address, now));
                self.is_pending.store(true, Ordering::Release);
            }
        });
    }

    /// Notes that `client` has rejected the certificate for `origin` by an alert. `true`: log it.
    pub fn note_alert(&self, client: &Client, origin: &Origin) -> bool {
        let is_named = self.change(client, origin, |hosts| hosts.name(origin));
        self.named.fetch_add(u64::from(is_named), Ordering::Relaxed);
        is_named
    }

    /// Takes the clients to log now: those that closed a connection and have not made a request for
    /// [`DISTRUST_WAIT`].
    pub fn take_due(&self, now: Instant) -> Vec<Distrusting> {
        if self.is_pending.load(Ordering::Acquire) {
            self.take(|since| now.saturating_duration_since(since) >= DISTRUST_WAIT)
        } else {
            Vec::new()
        }
    }

    /// Takes all clients that closed a connection without a request, when no more requests come.
    pub fn take_rest(&self) -> Vec<Distrusting> {
        self.take(|_| true)
    }

    /// How many have been logged, by client and host.
    pub fn named(&self) -> u64 {
        self.named.load(Ordering::Relaxed)
    }

    fn take(&self, is_due: impl Fn(Instant) -> bool) -> Vec<Distrusting> {
        let mut clients = self.clients.lock();
        let mut due = Vec::new();
        let mut is_pending = false;
        for (_, hosts) in clients.iter_mut() {
            let closed = hosts.known.iter().filter_map(|(origin, sign)| match sign {
                Sign::Closed(address, since) => Some((*address, *since, origin.clone())),
                Sign::Trust(_) | Sign::Named => None,
            });
            for (address, since, origin) in closed.collect::<Vec<_>>() {
                if !is_due(since) {
                    is_pending = true;
                } else if hosts.name(&origin) {
                    due.push(Distrusting { address, origin });
                }
            }
        }
        self.is_pending.store(is_pending, Ordering::Release);
        self.named.fetch_add(due.len() as u64, Ordering::Relaxed);
        due
    }

    fn change<T>(
        &self,
        client: &Client,
        origin: &Origin,
        change: impl FnOnce(&mut Hosts) -> T,
    ) -> T {
        debug_assert_eq!(origin.scheme(), Scheme::Https);
        let mut clients = self.clients.lock();
        change(clients.get_or_insert_mut(client.key(), || Hosts {
            known: LruCache::sparse(DISTRUST_HOSTS_MAX),
            named: 0,
        }))
    }
}

impl Hosts {
    /// Marks `origin` as logged. `true` if it is to be logged now: once for each host, for a
    /// bounded number of hosts.
    fn name(&mut self, origin: &Origin) -> bool {
        let before = self.known.put(origin.clone(), Sign::Named);
        let is_named = !matches!(before, Some(Sign::Named)) && self.named < DISTRUST_NAMED_MAX;
        self.named += usize::from(is_named);
        is_named
    }
}

/// A client that does not seem to trust the proxy's CA, and the origin where it showed that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrusting {
    pub address: IpAddr,
    pub origin: Origin,
}

impl Distrusting {
    /// Logs it with the remedy; `under_run`: the clients are those of `courtesy run`, which has set
    /// the variables that most clients follow.
    pub fn log(&self, under_run: bool) {
        let Self { address: client, origin } = self;
        let remedy = remedy(under_run);
        warn!(
            %client, %origin,
            "the client closed the connection when it was sent the proxy's certificate; \
             it may not trust the proxy's CA: {remedy}"
        );
    }
}

/// What makes a client trust the proxy's certificates.
pub const fn remedy(under_run: bool) -> &'static str {
    if under_run {
        "this program takes its CAs from its own setting, not from the variables of `courtesy run`: \
         name the file in $SSL_CERT_FILE there, see `courtesy ca install-help`, or run it with --sealed, where \
         Chromium, Firefox and the system's store have the CA"
    } else {
        "see `courtesy ca install-help`, or use `courtesy run --sealed`"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    fn client(last: u8) -> Client {
        Client::at([192, 0, 2, last].into())
    }

    fn host(name: &str) -> Origin {
        Origin::from_authority(Scheme::Https, name).unwrap()
    }

    fn named(distrust: &Distrust, now: Instant) -> Vec<String> {
        distrust.take_due(now).iter().map(|it| format!("{} {}", it.address, it.origin)).collect()
    }

    const SOON: Duration = Duration::from_millis(100);

    #[test]
    fn a_client_that_closes_without_a_request_is_named_once_after_a_while() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (one, a, b) = (client(1), host("a.example"), host("b.example"));
        distrust.note_closed(&one, &a, now);
        distrust.note_closed(&one, &a, now + SOON);
        assert!(named(&distrust, now + SOON).is_empty());
        distrust.note_closed(&one, &b, now + 2 * SOON);
        assert_eq!(named(&distrust, now + DISTRUST_WAIT), ["192.0.2.1 https://a.example"]);
        assert_eq!(named(&distrust, now + 2 * DISTRUST_WAIT), ["192.0.2.1 https://b.example"]);
        distrust.note_closed(&one, &a, now + 3 * DISTRUST_WAIT);
        assert!(named(&distrust, now + 9 * DISTRUST_WAIT).is_empty());
        assert_eq!(distrust.named(), 2);
    }

    #[test]
    fn a_client_that_makes_requests_before_or_after_is_not_named() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (a, b) = (host("a.example"), host("b.example"));
        distrust.note_closed(&client(1), &a, now);
        distrust.note_request(&client(1), &a, now + SOON);
        distrust.note_request(&client(1), &b, now);
        distrust.note_closed(&client(1), &b, now + SOON);
        assert!(named(&distrust, now + 2 * DISTRUST_WAIT).is_empty());
        // Another client's requests, and those of long ago, say nothing.
        distrust.note_closed(&client(2), &a, now);
        assert_eq!(named(&distrust, now + 2 * DISTRUST_WAIT), ["192.0.2.2 https://a.example"]);
        let later = now + 2 * TRUST_REMEMBERED;
        distrust.note_closed(&client(1), &b, later);
        assert_eq!(named(&distrust, later + DISTRUST_WAIT), ["192.0.2.1 https://b.example"]);
    }

    #[test]
    fn an_alert_is_named_at_once_and_what_is_pending_at_the_end() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        let (a, b) = (host("a.example"), host("b.example"));
        distrust.note_request(&client(1), &a, now);
        assert!(distrust.note_alert(&client(1), &a));
        distrust.note_request(&client(1), &a, now);
        assert!(!distrust.note_alert(&client(1), &a));
        distrust.note_closed(&client(1), &b, now);
        assert_eq!(distrust.take_rest(), [Distrusting { address: client(1).address, origin: b }]);
        assert!(distrust.take_rest().is_empty());
        assert_eq!(distrust.named(), 2);
    }

    #[test]
    fn what_is_remembered_of_one_client_is_bounded() {
        let (distrust, now) = (Distrust::default(), clock::monotonic());
        distrust.note_closed(&client(2), &host("a.example"), now);
        for number in 0..20 * DISTRUST_HOSTS_MAX.get() {
            let host = host(&format!("{number}.example"));
            distrust.note_closed(&client(1), &host, now);
            distrust.note_alert(&client(3), &host);
        }
        let count =
            |key: ClientKey| distrust.clients.lock().get(&key).map(|hosts| hosts.known.len());
        assert_eq!(count(client(1).key()), Some(DISTRUST_HOSTS_MAX.get()));
        let due = named(&distrust, now + DISTRUST_WAIT);
        assert!(due.contains(&"192.0.2.2 https://a.example".to_owned()));
        assert_eq!(due.len(), DISTRUST_NAMED_MAX + 1);
        assert_eq!(distrust.named() as usize, 2 * DISTRUST_NAMED_MAX + 1);
    }
}
