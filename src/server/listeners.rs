//! The listening sockets of the proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Semaphore;
use tracing::warn;

use crate::clients::password::REJECTED_MAX;
use crate::config::limits::{ATTEMPTS_BESIDE_MAX, DESCRIPTORS_PER_ATTEMPT_BESIDE, LOOKUPS_MAX};
use crate::egress::Config;
use crate::proxy::RedirectKind;
use crate::runtime::listener;

/// Bound sockets that are not served yet. Port 0 has become a number. Those that this process has
/// bound listen only when the proxy serves: until then the system refuses connections.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<BoundListener>,
}

/// One listening socket.
#[derive(Debug)]
pub(super) struct BoundListener {
    pub socket: TcpListener,
    /// On a transparent listener: how connections to origins are redirected to it. `None`: clients
    /// connect to the proxy.
    pub redirect: Option<RedirectKind>,
    /// Inherited sockets listen already.
    is_listening: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Listeners {
    /// Binds all `addresses`, or none.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, BindError> {
        let bind = |address: &SocketAddr| {
            listener::bind(*address).map_err(|source| BindError { address: *address, source })
        };
        let sockets = addresses.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { sockets: bound_listeners(sockets, None, false) })
    }

    /// Binds all `addresses`, or none, for connections that are redirected to them.
    pub fn bind_transparent(
        addresses: &[SocketAddr],
        redirect: RedirectKind,
    ) -> Result<Self, BindError> {
        let Self { sockets } = Self::bind(addresses)?;
        let transparent = |bound| BoundListener { redirect: Some(redirect.clone()), ..bound };
        Ok(Self { sockets: sockets.into_iter().map(transparent).collect() })
    }

    /// Sockets that another process has bound, such as the service manager.
    pub fn inherited(listeners: Vec<TcpListener>) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: bound_listeners(listeners, None, true) })
    }

    /// The same, for connections that are redirected to them.
    pub fn inherited_transparent(
        listeners: Vec<TcpListener>,
        redirect: RedirectKind,
    ) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: bound_listeners(listeners, Some(redirect), true) })
    }

    /// These and `more`; these come first.
    pub fn with(mut self, more: Self) -> Self {
        self.sockets.extend(more.sockets);
        self
    }

    /// Begins to listen.
    pub(super) fn listen(&mut self) -> Result<(), BindError> {
        for listener in self.sockets.iter_mut().filter(|listener| !listener.is_listening) {
            let socket = &listener.socket;
            let in_use = |source| BindError {
                address: socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into()),
                source,
            };
            listener::listen(socket).map_err(in_use)?;
            listener.is_listening = true;
        }
        Ok(())
    }

    /// Duplicates the sockets. Each connection is accepted by the first to poll.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let clone = |listener: &BoundListener| {
            let BoundListener { socket, redirect, is_listening } = listener;
            let (socket, redirect) = (socket.try_clone()?, redirect.clone());
            Ok(BoundListener { socket, redirect, is_listening: *is_listening })
        };
        Ok(Self { sockets: self.sockets.iter().map(clone).collect::<io::Result<_>>()? })
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect()
    }
}

fn bound_listeners(
    sockets: Vec<TcpListener>,
    redirect: Option<RedirectKind>,
    is_listening: bool,
) -> Vec<BoundListener> {
    let of = |socket| BoundListener { socket, redirect: redirect.clone(), is_listening };
    sockets.into_iter().map(of).collect()
}

// Divides the limit on open files between clients, origins, DNS lookups and further connection
// attempts.

/// Descriptors that the process needs for itself: files, runtimes, the operator's connections, fetches
/// whose clients have left, and connections that are rejected.
const DESCRIPTORS_OF_OUR_OWN: usize = 128 + REJECTED_MAX;

/// Descriptors of one lookup: one socket for each family of addresses.
const DESCRIPTORS_PER_LOOKUP: usize = 2;

/// Descriptors for an origin's connection for each client, if there are few.
const DESCRIPTORS_FOR_ORIGINS_MAX: usize = 4096;

/// The number of concurrent clients under the present limit.
pub(super) fn places() -> usize {
    places_within(limit())
}

fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Lowers the bounds of the egress to the available descriptors.
pub(super) fn bound(config: Config) -> Config {
    let most = beside_within(limit());
    let max_lookups = config.max_lookups.min(most);
    Config { max_lookups, max_attempts_beside: config.max_attempts_beside.min(most), ..config }
}

/// The number of further attempts, and of lookups.
fn beside_within(limit: usize) -> usize {
    let spare = limit.saturating_sub(DESCRIPTORS_OF_OUR_OWN);
    (spare / DESCRIPTORS_PER_ATTEMPT_BESIDE).max(1)
}

/// Half of the descriptors that the process does not need itself are for origins, up to a bound:
/// most of many clients are idle. At least one, so that clients are served.
fn places_within(limit: usize) -> usize {
    let beside = beside_within(limit);
    let beside = beside.min(ATTEMPTS_BESIDE_MAX) + beside.min(LOOKUPS_MAX) * DESCRIPTORS_PER_LOOKUP;
    let spare = limit.saturating_sub(DESCRIPTORS_OF_OUR_OWN).saturating_sub(beside);
    let places = spare - (spare / 2).min(DESCRIPTORS_FOR_ORIGINS_MAX);
    places.clamp(1, Semaphore::MAX_PERMITS)
}

/// The descriptors that one client may have: an eighth is reserved for others.
pub(super) fn max_per_client(places: usize) -> usize {
    (places - places.div_ceil(8)).max(1)
}

/// Logs that there are fewer than the settings permit clients.
pub(super) fn say_if_short(connections_max: usize, places: usize) {
    if connections_max > places {
        warn!(
            "clients.max_connections is {connections_max}, and the limit on open files leaves room for \
             {places}: more clients wait until others leave; raise the limit (ulimit -n, LimitNOFILE=)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_clients_and_their_origins_beside_our_own() {
        for (limit, places) in [(0, 1), (100, 1), (256, 26), (1024, 338), (20_000, 14_944)] {
            assert_eq!(places_within(limit), places, "{limit}");
        }
        assert_eq!(places_within(usize::MAX), Semaphore::MAX_PERMITS);
    }

    #[test]
    fn f25_attempts_and_look_ups_are_counted_among_the_descriptors() {
        for limit in [256, 1024, 4096, 20_000, 1 << 20] {
            let beside = beside_within(limit);
            let theirs =
                beside.min(ATTEMPTS_BESIDE_MAX) + beside.min(LOOKUPS_MAX) * DESCRIPTORS_PER_LOOKUP;
            let places = places_within(limit);
            let for_origins = places.min(DESCRIPTORS_FOR_ORIGINS_MAX);
            assert!(DESCRIPTORS_OF_OUR_OWN + theirs + places + for_origins <= limit, "{limit}");
        }
    }

    #[test]
    fn one_client_leaves_places_for_others() {
        for (places, share) in [(1, 1), (2, 1), (8, 7), (32, 28), (15_712, 13_748)] {
            assert_eq!(super::max_per_client(places), share, "{places}");
        }
    }
}
