//! The cache of leaf certificates. A leaf is issued on the first request for its host, once for all
//! concurrent requests, off the event loop if signing is slow, and kept until two thirds of its
//! lifetime have passed, another CA signs, or it is evicted.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use lru::LruCache;
use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ProducesTickets;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use tokio::sync::{OnceCell, Semaphore};

use super::authority::{Authority, LEAF_LIFETIME, Source};
use super::certificate::{CA_REMEDY, CaError, CertificateError};
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::crypto_provider;
use crate::runtime::lock::Lock;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

/// Leaf certificates being made at once: each is some ten microseconds of one core, or a
/// millisecond and more where the CA's key takes its time (RSA, P-384).
const LEAVES_ISSUED_AT_ONCE_MAX: usize = 4;

/// The leaves of a process, and the CA that signs them.
#[derive(Debug)]
pub struct Leaves {
    clock: Arc<dyn Clock>,
    issuer: Arc<LeafIssuer>,
    turns: Semaphore,
    cache: Lock<Cache>,
    counters: Counters,
    /// Whether the invalidity of the CA has been logged.
    is_refusal_said: AtomicBool,
}

/// Counters of the leaf cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Leaves in the cache.
    pub entries: usize,
    /// Leaves issued.
    pub minted: u64,
    /// Requests that found a leaf, or one being issued.
    pub hits: u64,
    /// Leaves evicted for others.
    pub evicted: u64,
}

#[derive(Debug)]
struct Cache {
    source: Source,
    authority: Arc<Authority>,
    /// A slot is inserted before its leaf is issued, and concurrent requests wait for it. If the
    /// slot is removed meanwhile, the leaf is still returned to those that wait, but not cached.
    places: LruCache<Host, Place>,
}

type Place = Arc<OnceCell<Leaf>>;

#[derive(Debug, Default)]
struct Counters {
    minted: AtomicU64,
    hits: AtomicU64,
    evicted: AtomicU64,
}

/// Leaves that the proxy keeps: a new handshake with a host of a broad crawl seldom signs again, for
/// some 10 MiB.
pub const LEAVES_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("a bound above zero");

impl Leaves {
    /// Opens the CA (generates the proxy's own if there is none); caches at most `entries_max`
    /// leaves.
    pub fn open(
        source: Source,
        clock: Arc<dyn Clock>,
        entries_max: NonZeroUsize,
    ) -> Result<Self, CaError> {
        let authority = Arc::new(Authority::open(&source, clock.wall())?);
        Ok(Self {
            clock,
            issuer: Arc::new(LeafIssuer::new()?),
            turns: Semaphore::new(LEAVES_ISSUED_AT_ONCE_MAX),
            cache: Lock::new(Cache { source, authority, places: LruCache::sparse(entries_max) }),
            counters: Counters::default(),
            is_refusal_said: AtomicBool::default(),
        })
    }

    /// The TLS configuration for `host`, whatever the client offers.
    pub async fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, CertificateError> {
        let now = self.clock.wall();
        let (place, authority) = self.place(host, now);
        let leaf = place.get_or_try_init(|| self.make(authority, host, now)).await?;
        Ok(Arc::clone(&leaf.config))
    }

    /// The CA that signs at present.
    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.lock().authority)
    }

    /// Why nothing can be intercepted at present; `None` if the CA is valid.
    pub fn invalidity(&self) -> Option<String> {
        self.authority().certificate().invalidity(self.clock.wall())
    }

    /// As [`Self::invalidity`], for a client's request. Logs the first one, and again after the CA
    /// has been valid.
    pub fn refusal(&self) -> Option<String> {
        let invalidity = self.invalidity();
        let was_said = self.is_refusal_said.swap(invalidity.is_some(), Ordering::Relaxed);
        if let Some(invalidity) = invalidity.as_ref().filter(|_| !was_said) {
            tracing::warn!(
                "HTTPS is not intercepted, and CONNECT is refused: {invalidity}; {CA_REMEDY}"
            );
        }
        invalidity
    }

    /// Reloads the CA, as after a rotation, and returns whether it differs. If it cannot be used,
    /// the previous one continues to sign. Reads files.
    pub fn reload(&self) -> Result<bool, CaError> {
        let source = self.source();
        let authority = self.read(&source)?;
        Ok(self.take_up(source, authority))
    }

    /// Reads a CA and checks that it can sign, for [`Self::take_up`]. Reads files.
    pub fn read(&self, source: &Source) -> Result<Authority, CaError> {
        Authority::open(source, self.clock.wall())
    }

    /// The location of the CA that signs at present.
    pub fn source(&self) -> Source {
        self.lock().source.clone()
    }

    /// Uses this CA from now on, and returns whether it differs.
    pub fn take_up(&self, source: Source, authority: Authority) -> bool {
        let mut cache = self.lock();
        let changed = authority.certificate() != cache.authority.certificate();
        if changed {
            cache.places.clear();
        }
        (cache.source, cache.authority) = (source, Arc::new(authority));
        changed
    }

    /// The current counters.
    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            entries: self.lock().places.len(),
            minted: read(&self.counters.minted),
            hits: read(&self.counters.hits),
            evicted: read(&self.counters.evicted),
        }
    }

    /// The slot of a host's leaf, and the CA to sign it if it is empty.
    fn place(&self, host: &Host, now: Timestamp) -> (Place, Arc<Authority>) {
        let mut cache = self.lock();
        let authority = Arc::clone(&cache.authority);
        let held = cache
            .places
            .get(host)
            .filter(|place| place.get().is_none_or(|leaf| leaf.is_fresh(now)));
        if let Some(place) = held.cloned() {
            count(&self.counters.hits);
            return (place, authority);
        }
        let place = Place::default();
        // `push` returns what it displaced: the host's own old leaf, or the least recently used
        // one.
        if let Some((gone, _)) = cache.places.push(host.clone(), Arc::clone(&place))
            && gone != *host
        {
            count(&self.counters.evicted);
        }
        (place, authority)
    }

    async fn make(
        &self,
        authority: Arc<Authority>,
        host: &Host,
        now: Timestamp,
    ) -> Result<Leaf, CertificateError> {
        let _turn = self.turns.acquire().await.map_err(|_| CertificateError::Aborted)?;
        let leaf = if authority.signs_at_once() {
            // Yields, so that a burst of new hosts does not delay other tasks.
            tokio::task::yield_now().await;
            self.issuer.issue(&authority, host, now)?
        } else {
            let (issuer, host) = (Arc::clone(&self.issuer), host.clone());
            let made =
                tokio::task::spawn_blocking(move || issuer.issue(&authority, &host, now)).await;
            made.map_err(|_| CertificateError::Aborted)??
        };
        count(&self.counters.minted);
        Ok(leaf)
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // No code path leaves the cache inconsistent.
        self.cache.lock()
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

// A leaf certificate and its TLS configuration. All leaves of a process share one key, which is
// never written.

/// The TLS configuration for one host, with its expiry.
#[derive(Debug)]
pub(super) struct Leaf {
    pub config: Arc<ServerConfig>,
    made_at: Timestamp,
    renew_at: Timestamp,
}

/// Issues leaves, all with one key.
#[derive(Debug)]
pub(super) struct LeafIssuer {
    key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    provider: Arc<CryptoProvider>,
    tickets: Arc<dyn ProducesTickets>,
}

impl Leaf {
    /// Whether it is in the first two thirds of its lifetime. Not before its start, as after a
    /// wrong clock has been corrected.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.made_at <= now && now < self.renew_at
    }
}

impl LeafIssuer {
    /// An issuer with a key of its own, which all its leaves share.
    pub fn new() -> Result<Self, CertificateError> {
        let provider = crypto_provider();
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing_key = provider.key_provider.load_private_key(der)?;
        Ok(Self { key, signing_key, provider: Arc::new(provider), tickets: Ticketer::new()? })
    }

    /// Issues a leaf certificate for `host`.
    pub fn issue(
        &self,
        authority: &Authority,
        host: &Host,
        now: Timestamp,
    ) -> Result<Leaf, CertificateError> {
        let ends = authority.certificate().not_after().min(now.plus(LEAF_LIFETIME));
        let certificate = authority.signer().sign_leaf(&self.provider, &self.key, host, now)?;
        let chain = std::iter::once(certificate).chain(authority.chain()).collect();
        let renew_at = now.plus(now.until(ends) * 2 / 3);
        Ok(Leaf { config: Arc::new(self.config(chain, host)?), made_at: now, renew_at })
    }

    /// TLS 1.2 and 1.3; sessions are resumed by ticket, so the server stores none; no early data,
    /// which could be replayed.
    fn config(
        &self,
        chain: Vec<CertificateDer<'static>>,
        host: &Host,
    ) -> Result<ServerConfig, CertificateError> {
        let certified = CertifiedKey::new(chain, Arc::clone(&self.signing_key));
        let mut config =
            ServerConfig::builder_with_details(Arc::clone(&self.provider), Arc::new(SystemClock))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // In the server's order: clients of this proxy are on this machine or near it, with the
        // same CPU features.
        config.ignore_client_order = true;
        // One ticket per connection, also after a resumption, so that the client has one for the
        // next.
        config.send_tls13_tickets = 1;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.ticketer = Arc::new(HostTickets::new(host, Arc::clone(&self.tickets)));
        Ok(config)
    }
}

// TLS session tickets: one key per process, which survives a new leaf, and tickets that are valid
// for one host only.

/// Prefixes each ticket with its host, and accepts only its own. rustls compares the server names
/// of both handshakes, too; but a client that connects to an address sends none, so two addresses
/// would be the same.
#[derive(Debug)]
pub(super) struct HostTickets {
    /// Preceded by its length, so that no host is a prefix of another.
    mark: Vec<u8>,
    tickets: Arc<dyn ProducesTickets>,
}

impl HostTickets {
    /// Tickets of `host`, made by `tickets`.
    pub fn new(host: &Host, tickets: Arc<dyn ProducesTickets>) -> Self {
        let name = host.to_string();
        let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        Self { mark: [&[length], name.as_bytes()].concat(), tickets }
    }
}

impl ProducesTickets for HostTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(&[&self.mark, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.tickets.decrypt(cipher)?;
        plain.strip_prefix(&*self.mark).map(<[u8]>::to_vec)
    }
}
