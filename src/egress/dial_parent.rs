//! From an origin to a connection by its parent proxy.

use std::net::{IpAddr, SocketAddr};

use tokio::time::timeout;

use super::dial::Dialer;
use super::error::{Error, Failure};
use super::happy_eyeballs;
use super::origin_socket::OriginSocket;
use super::parent::{Parent, ParentResolve, ParentScheme, ParentTarget};
use super::policy::Prohibited;
use super::route::Route;
use super::tls::{PlaintextStream, Versions};
use crate::types::origin::{Host, Origin};

impl Dialer<'_> {
    /// A connection to `origin` by `parent`. Nothing falls back to a direct one.
    ///
    /// # Errors
    ///
    /// [`Failure::Parent`] or [`Failure::ParentTimeout`] for all that fails beyond this machine:
    /// what a parent answers says nothing of the origin.
    pub(super) async fn connect_by_parent(
        self,
        parent: &Parent,
        origin: &Origin,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        let connected = self.open_by_parent(parent, origin, route).await;
        match &connected {
            Ok(_) => parent.note(Ok(())),
            Err(error) if error.failure.is_parents() => parent.note(Err(error)),
            Err(_) => {}
        }
        connected
    }

    async fn open_by_parent(
        self,
        parent: &Parent,
        origin: &Origin,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        let Route { snapshot, requester, .. } = route;
        let limit = snapshot.config.connect_timeout;
        let addresses = self.addresses_of_parent(parent, route).await?;
        let attempts = &self.state.attempts;
        let stream = happy_eyeballs::connect(&addresses, limit, attempts, *requester).await;
        let stream = stream.map_err(|error| of_parent(parent, error))?;
        let _ = stream.set_nodelay(true);
        let mut socket = OriginSocket::Tcp(stream);
        if parent.address.scheme() == ParentScheme::Https {
            let tls = &snapshot.tls;
            let handshake = tls.handshake(parent.address.origin(), socket, Versions::Http1);
            let secured = timeout(limit, handshake).await.map_err(|_| {
                let reason = format!("the TLS handshake took longer than {limit:?}");
                parent.error(Failure::ParentTimeout, &reason)
            })?;
            let secured = secured.map_err(|error| of_parent(parent, error))?;
            socket = OriginSocket::Tls(PlaintextStream::new(secured.stream));
        }
        let host = target(parent, origin, route);
        let target = ParentTarget { host: &host, port: origin.port() };
        parent.open(&mut socket, target, limit).await?;
        Ok(socket)
    }

    /// The addresses of the parent. The operator has named it, so that they are not judged, but for
    /// the proxy's own.
    async fn addresses_of_parent(
        self,
        parent: &Parent,
        Route { snapshot, requester, .. }: &Route<'_>,
    ) -> Result<Vec<SocketAddr>, Error> {
        let at = parent.address.origin();
        let ips = match at.host() {
            Host::V4(v4) => vec![IpAddr::V4(*v4)],
            Host::V6(v6) => vec![IpAddr::V6(*v6)],
            Host::Name(name) => {
                let resolved = self.state.resolver.resolve(name, *requester).await;
                resolved.map_err(|error| of_parent(parent, error))?
            }
        };
        let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, at.port()));
        let is_other =
            |address: &SocketAddr| snapshot.policy.judge(*address) != Err(Prohibited::OwnListener);
        let addresses: Vec<_> = addresses.filter(is_other).collect();
        if addresses.is_empty() {
            return Err(parent.error(Failure::Parent, "it is this proxy itself, or has no address"));
        }
        Ok(addresses)
    }
}

/// The host that the parent is given: the name, unless it is to be given an address that was judged.
fn target(parent: &Parent, origin: &Origin, route: &Route<'_>) -> Host {
    let is_pinned = route.snapshot.parents.resolve == ParentResolve::Pin
        || parent.address.scheme() == ParentScheme::Socks5;
    match route.addresses.first().map(SocketAddr::ip).filter(|_| is_pinned) {
        Some(IpAddr::V4(v4)) => Host::V4(v4),
        Some(IpAddr::V6(v6)) => Host::V6(v6),
        None => origin.host().clone(),
    }
}

/// `error` on the way to a parent, as one of the parent. What this machine lacks stays that.
fn of_parent(parent: &Parent, error: Error) -> Error {
    match error.failure {
        failure if failure.is_ours() => error,
        Failure::ConnectionTimeout | Failure::DnsTimeout => {
            parent.error(Failure::ParentTimeout, &error.detail)
        }
        _ => parent.error(Failure::Parent, &error.detail),
    }
}
