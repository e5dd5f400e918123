//! Makes a connection by a parent proxy: a tunnel to an origin, or a connection to the parent
//! itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::dial::Dialer;
use super::error::{Error, Failure};
use super::happy_eyeballs;
use super::origin_socket::OriginSocket;
use super::parent::{Fault, Parent, ParentResolve, ParentScheme, ParentTarget};
use super::policy::Prohibition;
use super::route::Route;
use super::tls::{PlaintextStream, Versions};
use crate::clients::SemaphorePermit;
use crate::runtime::clock::monotonic;
use crate::types::origin::{Host, Origin};

/// How long a fetch of robots.txt may wait for one of the connections that are being made by its
/// parent: meanwhile it has a place that fetches from other hosts need. Requests of clients wait as
/// long as for a connection (`egress.connect_timeout`).
const ROBOTS_DIAL_WAIT_MAX: Duration = Duration::from_secs(1);

impl Dialer<'_> {
    /// A tunnel to `origin` by `parent`. Nothing falls back to a direct connection.
    ///
    /// # Errors
    ///
    /// [`Failure::Parent`] or [`Failure::ParentTimeout`] for all that fails beyond this machine:
    /// what a parent answers says nothing of the origin.
    pub(super) async fn tunnel_by_parent(
        self,
        parent: &Parent,
        origin: &Origin,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        let host = target_host(parent, origin, route);
        let target = ParentTarget { host: &host, port: origin.port() };
        self.try_parent(parent, Some(target), route).await
    }

    /// A connection to `parent` itself, which forwards what is sent over it.
    ///
    /// # Errors
    ///
    /// As [`Self::tunnel_by_parent`].
    pub(super) async fn connect_to_parent(
        self,
        parent: &Parent,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        self.try_parent(parent, None, route).await
    }

    /// Connects to `parent`, and has it open a tunnel to `target` if there is one; unless the
    /// parent is in its back-off. How that ends is noted with the parent.
    async fn try_parent(
        self,
        parent: &Parent,
        target: Option<ParentTarget<'_>>,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        let _permit = dial_permit(parent, route).await?;
        let began = monotonic();
        parent.admit(began)?;
        let connected = self.connect_and_tunnel(parent, target, route).await;
        match &connected {
            Ok(_) => target.map_or_else(|| parent.note_reached(), |it| parent.note_tunnel(it.port)),
            Err((error, fault)) if error.failure.is_parents() => {
                parent.note_failure(*fault, error, (began, monotonic()));
            }
            Err(_) => {}
        }
        connected.map_err(|(error, _)| error.for_request_with(route.requester.loop_tokens()))
    }

    /// The connection, and the tunnel; with an error, what is at fault.
    async fn connect_and_tunnel(
        self,
        parent: &Parent,
        target: Option<ParentTarget<'_>>,
        route: &Route<'_>,
    ) -> Result<OriginSocket, (Error, Fault)> {
        let mut socket = self
            .connect_parent_socket(parent, route)
            .await
            .map_err(|error| (error, Fault::Parent))?;
        if let Some(target) = target {
            let Route { snapshot, .. } = route;
            let limit = snapshot.config.connect_timeout;
            let loop_tokens = snapshot.parents.loop_tokens(route.requester.loop_tokens());
            parent.open(&mut socket, target, &loop_tokens, limit).await?;
        }
        Ok(socket)
    }

    /// A connection to the parent, inside TLS if it speaks that.
    async fn connect_parent_socket(
        self,
        parent: &Parent,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        let Route { snapshot, requester, .. } = route;
        let limit = snapshot.config.connect_timeout;
        let addresses = self.addresses_of_parent(parent, route).await?;
        let attempts = &self.state.attempts;
        let stream = happy_eyeballs::connect(&addresses, limit, attempts, *requester).await;
        let stream = stream.map_err(|error| as_parent_error(parent, error))?;
        let _ = stream.set_nodelay(true);
        let socket = OriginSocket::Tcp(stream);
        if parent.address.scheme() != ParentScheme::Https {
            return Ok(socket);
        }
        let handshake = snapshot.tls.handshake(parent.address.origin(), socket, Versions::Http1);
        let secured = timeout(limit, handshake).await.map_err(|_| {
            let reason = format!("the TLS handshake took longer than {limit:?}");
            parent.error(Failure::ParentTimeout, &reason)
        })?;
        let secured = secured.map_err(|error| as_parent_error(parent, error))?;
        Ok(OriginSocket::Tls(PlaintextStream::new(secured.stream)))
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
                resolved.map_err(|error| as_parent_error(parent, error))?
            }
        };
        let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, at.port()));
        let is_other =
            |address: &SocketAddr| snapshot.policy.judge(*address) != Err(Prohibition::OwnListener);
        let addresses: Vec<_> = addresses.filter(is_other).collect();
        if addresses.is_empty() {
            return Err(parent.error(Failure::Parent, "it is this proxy itself, or has no address"));
        }
        Ok(addresses)
    }
}

/// A permit for one of the connections that are made at a time by `parent`: one that does not
/// answer must not hold what other hosts need.
async fn dial_permit(parent: &Parent, route: &Route<'_>) -> Result<SemaphorePermit, Error> {
    let Route { requester, snapshot, .. } = route;
    let (dials, limit) = if requester.is_for_robots_txt() {
        (&parent.robots_dials, ROBOTS_DIAL_WAIT_MAX)
    } else {
        (&parent.dials, snapshot.config.connect_timeout)
    };
    let client = requester.client_key();
    if let Some(permit) = dials.try_acquire(client) {
        return Ok(permit);
    }
    requester.note_queued();
    timeout(limit, dials.acquire(client)).await.map_err(|_| {
        let (count, parent) = (dials.in_use(), &parent.address);
        let detail = format!(
            "{count} connections by the parent proxy {parent} are being made, and none was within {limit:?}"
        );
        Error::new(Failure::Exhausted, detail)
    })
}

/// The host that the parent is given: the name, unless it is to be given an address that was
/// judged.
fn target_host(parent: &Parent, origin: &Origin, route: &Route<'_>) -> Host {
    let is_pinned = route.snapshot.parents.resolve == ParentResolve::Pin
        || parent.address.scheme() == ParentScheme::Socks5;
    match route.addresses.first().map(SocketAddr::ip).filter(|_| is_pinned) {
        Some(IpAddr::V4(v4)) => Host::V4(v4),
        Some(IpAddr::V6(v6)) => Host::V6(v6),
        None => origin.host().clone(),
    }
}

/// `error` on the way to a parent, as one of the parent. What this machine lacks stays that.
fn as_parent_error(parent: &Parent, error: Error) -> Error {
    match error.failure {
        failure if failure.is_ours() => error,
        Failure::ConnectionTimeout | Failure::DnsTimeout => {
            parent.error(Failure::ParentTimeout, &error.detail)
        }
        _ => parent.error(Failure::Parent, &error.detail),
    }
}
