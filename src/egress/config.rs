//! The configuration of egress at one moment: limits, permitted hosts and addresses, TLS.
//!
//! It can change while the proxy runs: code reads it at the time of use, and a kept connection is
//! checked against the current configuration before it is used again (`Revalidation`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::parent::Parents;
use super::policy::{AddressPolicy, HostRules};
use super::tls::Tls;
use crate::runtime::counters::{Histogram, HistogramCounts};
use crate::types::origin::{Origin, Scheme};

/// The settings of egress; see `config/courtesy.toml` for their meaning and defaults.
#[derive(Clone, Debug)]
pub struct Config {
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
    pub body_idle_timeout: Duration,
    pub idle_timeout: Duration,
    /// DNS lookups under way at one time.
    pub max_lookups: usize,
    /// Connection attempts at one time, besides the first one of each request.
    pub max_attempts_beside: usize,
    pub max_header_bytes: usize,
    pub hosts: HostRules,
    /// Whether the proxy serves one command, `courtesy run`: a refusal then names its flags.
    pub under_run: bool,
}

/// The configuration at one moment.
pub struct ConfigSnapshot {
    pub config: Config,
    pub policy: AddressPolicy,
    pub tls: Tls,
    pub parents: Parents,
}

impl ConfigSnapshot {
    /// Whether a connection to `origin` at `peer`, made under `before`, could also have been made
    /// under this configuration.
    fn permits(&self, before: &Self, origin: &Origin, peer: IpAddr) -> bool {
        self.config.hosts.judge(origin.host()).is_ok()
            && self.policy.judge(SocketAddr::new(peer, origin.port())).is_ok()
            && self.parents.leads_as(&before.parents, origin.host())
            && (origin.scheme() != Scheme::Https || self.tls.trusts_as(&before.tls, origin.host()))
    }
}

impl fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSnapshot").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The peer of a connection, and the configuration under which the connection was last permitted.
#[derive(Debug)]
pub(super) struct Revalidation {
    peer: Option<IpAddr>,
    snapshot: Arc<ConfigSnapshot>,
}

impl Revalidation {
    /// For a new connection.
    pub const fn new(peer: Option<IpAddr>, snapshot: Arc<ConfigSnapshot>) -> Self {
        Self { peer, snapshot }
    }

    /// The address of the peer.
    pub const fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The parent that a connection to `origin` goes by: scheme, host and port.
    pub fn via(&self, origin: &Origin) -> Option<String> {
        self.snapshot.parents.of(origin.host()).map(|parent| parent.address.to_string())
    }

    /// The settings under which the connection was last permitted.
    pub fn config(&self) -> &Config {
        &self.snapshot.config
    }

    /// Checks whether the connection, which leads to `origin`, may be used under `current`. When
    /// the configuration has not changed, this costs one comparison of pointers.
    pub fn revalidate(&mut self, origin: &Origin, current: &Arc<ConfigSnapshot>) -> bool {
        if Arc::ptr_eq(&self.snapshot, current) {
            return true;
        }
        let is_permitted =
            self.peer.is_some_and(|peer| current.permits(&self.snapshot, origin, peer));
        if is_permitted {
            self.snapshot = Arc::clone(current);
        }
        is_permitted
    }
}

/// Counters that workers write to.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Durations of connections that were made, from the DNS lookup to the end of the handshake.
    pub connect: Histogram,
    /// Requests, fetches of robots.txt and tunnels that went by a parent proxy.
    pub by_parent: AtomicU64,
    /// Those of clients among them: no fetch of robots.txt.
    pub forwarded_by_parent: Arc<AtomicU64>,
}

/// The counts at one moment, summed over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Idle connections in pools.
    pub idle: usize,
    /// Connections in use, or being made.
    pub in_use: usize,
    /// How long it took to make a connection.
    pub connect: HistogramCounts,
}

/// Exchanges on one HTTP/2 connection at one time: the least that RFC 9113 §6.5.2 advises origins
/// to allow. One more opens another connection.
pub const HTTP2_STREAMS_MAX: usize = 100;

/// Bytes of one body that wait to be sent, of a request or of a response.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 16 << 10;

/// Bytes of an HTTP/1.1 response that are read at once at first. A slow client makes the proxy hold
/// three such pieces: one being sent, one that follows and one being read. One less than hyper's
/// buffer for them, which would double each time that it was filled.
pub const ORIGIN_READ_BYTES: usize = (8 << 10) - 1;

/// Bytes that may be read at once when the client has proved that it reads
/// ([`ORIGIN_READ_SMALL_BYTES`]): at most three such pieces are held when it stops. One less than
/// the buffer, as above.
pub const ORIGIN_READ_LARGE_BYTES: usize = (128 << 10) - 1;

/// The same for large responses over a few connections: two fifths less processor time for each
/// byte.
pub const ORIGIN_READ_LARGEST_BYTES: usize = 768 << 10;

/// Bytes of a response after which reads may grow: more than what the systems on either side hold
/// for a client that does not read. Larger reads cost less than half of the processor time.
pub const ORIGIN_READ_SMALL_BYTES: usize = 256 << 10;

/// Bytes of a request body that wait for the origin to take them. At so many, no more are read from
/// the client; one piece more, of what the client's connection may read at once, can be there.
pub const ORIGIN_WAITING_SMALL_BYTES: usize = 16 << 10;

/// The same when the origin has taken [`ORIGIN_READ_SMALL_BYTES`] and there is memory for it.
pub const ORIGIN_WAITING_BYTES_MAX: usize = 128 << 10;

/// Idle connections that each worker keeps: of a broad crawl, those of the origins that it comes back
/// to within `egress.idle_timeout`. Each takes a descriptor and some 10 KiB.
pub const IDLE_MAX: usize = 1024;

/// Headers of a head that hyper accepts by default. For so many it has room on the stack; for a
/// number that is set, even this one, it fills a buffer for each head.
pub const HYPER_HEADERS_MAX: usize = 100;
