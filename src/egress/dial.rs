//! The connection of one exchange: an idle one of HTTP/1.1, a stream of a shared one of HTTP/2, or
//! a new one. To make one takes the socket, TLS, and HTTP in the version that the origin has chosen
//! (RFC 7301; RFC 9113 §3.2).

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client_share::Requester;
use super::config::{ConfigSnapshot, Revalidation};
use super::connection::{Connection, Transport};
use super::error::{Error, Failure};
use super::happy_eyeballs;
use super::http1::Http1Connection;
use super::http2::{self, Opening, Window};
use super::origin_socket::OriginSocket;
use super::parent::{Fault, Forwarder, Parent, ParentScheme, ParentTarget};
use super::policy::Prohibition;
use super::pool::Pool;
use super::route::Route;
use super::state::EgressState;
use super::tls::{PlaintextStream, TlsConnection, Versions};
use crate::clients::{MemoryPermit, SemaphorePermit};
use crate::runtime::box_future;
use crate::runtime::clock::{self, monotonic};
use crate::types::origin::{Host, Origin, Scheme};

/// Checks out and makes connections for one worker.
#[derive(Clone, Copy)]
pub struct Dialer<'a> {
    pub state: &'a EgressState,
    pub pool: &'a Arc<Pool>,
}

impl Dialer<'_> {
    /// Makes a connection by `route`, and notes how long that took.
    pub(super) async fn dial(
        self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let began = route.began;
        let dialed = self.connect_and_handshake(origin, versions, window, route).await;
        if dialed.is_ok() {
            self.state.counters.connect.note(clock::monotonic() - began);
        }
        dialed
    }

    async fn connect_and_handshake(
        self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let forwarder = route.snapshot.parents.forwarder(origin).cloned();
        let stream = match &forwarder {
            Some(parent) => box_future(|| self.connect_to_parent(parent, &route)).await?,
            None => self.connect_socket(origin, &route).await?,
        };
        let peer = route.peer(&stream);
        let revalidation = Revalidation::new(peer, Arc::clone(&route.snapshot));
        let snapshot = route.snapshot;
        match origin.scheme() {
            Scheme::Https => {
                handshake_tls(
                    origin,
                    stream,
                    (versions, window),
                    (snapshot, revalidation),
                    self.weak_pool(),
                )
                .await
            }
            Scheme::Http => {
                let loop_token = &snapshot.parents.loop_token;
                let http1 = match forwarder.map(|it| Forwarder::new(it, loop_token.clone())) {
                    None => Http1Connection::open(origin, stream, revalidation).await?,
                    Some(forwarder) => {
                        let stream = forwarder.over(stream);
                        let mut http1 = Http1Connection::open(origin, stream, revalidation).await?;
                        http1.forwarder = Some(forwarder);
                        http1
                    }
                };
                Ok(Connection::new(Transport::Http1(http1), self.weak_pool(), false))
            }
            Scheme::Ftp => Err(Error::new(Failure::Protocol, "ftp is not supported")),
        }
    }

    /// A socket to the first of the route's addresses that answers, or a tunnel by the route's
    /// parent.
    pub async fn connect_socket(
        self,
        origin: &Origin,
        route: &Route<'_>,
    ) -> Result<OriginSocket, Error> {
        if let Some(parent) = &route.parent {
            return box_future(|| self.tunnel_by_parent(parent, origin, route)).await;
        }
        let Route { addresses, snapshot, requester, .. } = route;
        let limit = snapshot.config.connect_timeout;
        let attempts = &self.state.attempts;
        let stream = happy_eyeballs::connect(addresses, limit, attempts, *requester).await?;
        set_options(&stream);
        Ok(OriginSocket::Tcp(stream))
    }

    /// The route to `origin` under the current configuration.
    pub async fn find_route<'b>(
        self,
        origin: &Origin,
        requester: Requester<'b>,
    ) -> Result<Route<'b>, Error> {
        Route::find(origin, &self.state.resolver, self.state.snapshot(), requester).await
    }

    /// The pool, for a connection to return to.
    pub(super) fn weak_pool(self) -> Weak<Pool> {
        Arc::downgrade(self.pool)
    }
}

/// Bytes that the system holds for an origin or a parent beyond those under way: without a bound one that
/// takes nothing would have megabytes of each upload in the system's memory for sockets.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// Sets what every connection to an origin or a parent has. Where an option is refused, it is done
/// without.
fn set_options(stream: &TcpStream) {
    // Small messages must not wait for each other's acknowledgements.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// The TLS handshake, then that of HTTP in the version that TLS has chosen.
async fn handshake_tls(
    origin: &Origin,
    stream: OriginSocket,
    (versions, window): (Versions, Window),
    (snapshot, revalidation): (Arc<ConfigSnapshot>, Revalidation),
    pool: Weak<Pool>,
) -> Result<Connection, Error> {
    let limit = snapshot.config.connect_timeout;
    let handshake = timeout(limit, snapshot.tls.handshake(origin, stream, versions)).await;
    let TlsConnection { stream, is_http2, certificate_requested } = handshake.map_err(|_| {
        let detail = format!("the TLS handshake with {origin} took longer than {limit:?}");
        Error::new(Failure::ConnectionTimeout, detail)
    })??;
    let stream = PlaintextStream::new(stream);
    let transport = if is_http2 {
        let connection =
            http2::handshake(origin, stream, window, revalidation, certificate_requested).await?;
        Transport::Http2(connection)
    } else {
        Transport::Http1(Http1Connection::open(origin, stream, revalidation).await?)
    };
    Ok(Connection::new(transport, pool, certificate_requested))
}

/// What the connection of a request must be fit for, and for whom it is made.
#[derive(Clone, Copy, Debug)]
pub struct DialOptions<'a> {
    pub versions: Versions,
    pub requester: Requester<'a>,
    /// Whether the client is known to read what it asks for.
    pub client_reads: bool,
}

/// Boxed: most requests find a kept connection and never need this future.
type ConnectionFuture<'a> = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send + 'a>>;

impl<'a> Dialer<'a> {
    /// An idle connection if there is one, else a shared or a new one.
    pub async fn checkout(
        self,
        origin: &'a Origin,
        options: DialOptions<'a>,
    ) -> Result<Connection, Error> {
        match self.take_idle(origin) {
            Some(idle) => Ok(idle),
            None => self.shared_or_new(origin, options).await,
        }
    }

    /// Takes an idle connection out of the pool, if there is one.
    pub fn take_idle(self, origin: &Origin) -> Option<Connection> {
        let connection = self.pool.take(origin)?;
        Some(Connection::idle(connection, self.weak_pool()))
    }

    /// A connection that was not idle: a stream of a shared one, or a new one.
    pub fn shared_or_new(
        self,
        origin: &'a Origin,
        options: DialOptions<'a>,
    ) -> ConnectionFuture<'a> {
        box_future(move || self.find_shared_or_new(origin, options))
    }

    async fn find_shared_or_new(
        self,
        origin: &Origin,
        options: DialOptions<'_>,
    ) -> Result<Connection, Error> {
        let DialOptions { versions, requester, .. } = options;
        let is_http1 = versions == Versions::Http1 || origin.scheme() != Scheme::Https;
        if is_http1 || !self.pool.keeps() {
            let route = self.find_route(origin, requester).await?;
            return self.dial(origin, versions, Window::Small, route).await;
        }
        let memory = self.large_window(origin, options);
        let window = if memory.is_some() { Window::Large } else { Window::Small };
        let mut connection = self.shared_or_opened(origin, window, requester).await?;
        if let Transport::Http2(stream) = &mut connection.transport {
            stream.memory = memory;
        }
        Ok(connection)
    }

    /// Memory for an HTTP/2 stream with a large window, if the client reads and there is any.
    fn large_window(self, origin: &Origin, options: DialOptions<'_>) -> Option<MemoryPermit> {
        if !options.client_reads || self.pool.http2.is_http1(origin) {
            return None;
        }
        self.state
            .memory
            .reserve_extra(options.requester.for_memory(), Window::Large.bytes() as usize)
    }

    /// A stream of a connection that is there or is being opened, or of a new one.
    async fn shared_or_opened(
        self,
        origin: &Origin,
        window: Window,
        requester: Requester<'_>,
    ) -> Result<Connection, Error> {
        let kept = self.pool.http2.stream(origin, window, &self.state.load());
        if let Some(stream) = kept {
            return Ok(Connection::shared(stream, self.weak_pool()));
        }
        // Resolved before waiting for another client's connection: that client's DNS lookup may
        // have to wait longer than this one's.
        let route = self.find_route(origin, requester).await?;
        match self.pool.http2.opening(origin, window) {
            Some(opening) => self.open_together(origin, window, &opening, route).await,
            None => self.open(origin, window, route).await,
        }
    }

    /// Opens a connection, or waits for the exchange that opens one and shares its connection if
    /// that is possible. When the client of the first exchange leaves, the next one opens.
    async fn open_together(
        self,
        origin: &Origin,
        window: Window,
        opening: &Opening,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let mut own = None;
        let mut route = Some(route);
        let opened = opening
            .get_or_init(async || {
                let route = route.take().expect("the closure is called once");
                let opened = self.open(origin, window, route).await;
                self.pool.http2.end_opening(origin, window);
                let shareable = opened.as_ref().map(Connection::shareable).map_err(Clone::clone);
                own = Some(opened);
                shareable
            })
            .await;
        match (own, opened, route) {
            (Some(own), _, _) => own,
            (_, Ok(Some(connection)), _) if connection.revalidate(origin, &self.state.load()) => {
                Ok(Connection::shared(connection.stream(), self.weak_pool()))
            }
            (_, Ok(_), Some(route)) => self.open(origin, window, route).await,
            (_, Err(error), _) => Err(error.clone()),
            (None, Ok(_), None) => unreachable!("an exchange without a route has opened its own"),
        }
    }

    /// Opens a new connection, and puts it into the pool if it can be shared.
    async fn open(
        self,
        origin: &Origin,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let opened = self.dial(origin, Versions::Any, window, route).await;
        match opened.as_ref().map(Connection::shareable) {
            Ok(Some(connection)) => self.pool.keep_shared(origin, &connection),
            Ok(None) => self.pool.http2.note_http1(origin),
            Err(_) => {}
        }
        opened
    }
}

// Makes a connection by a parent proxy: a tunnel to an origin, or a connection to the parent
// itself.

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
        connected.map_err(|(error, _)| error)
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
            let loop_token = snapshot.parents.loop_token.as_ref();
            parent.open(&mut socket, target, loop_token, limit).await?;
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
        set_options(&stream);
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

    /// The addresses of the parent, at least one. The operator has named it, so that they are not
    /// judged; but a name with one of the proxy's own among them means the proxy.
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
        let addresses: Vec<_> = addresses.collect();
        let is_own =
            |address: &SocketAddr| snapshot.policy.judge(*address) == Err(Prohibition::OwnListener);
        if addresses.iter().any(is_own) {
            return Err(parent.error(Failure::Parent, "it is this proxy itself"));
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

/// The host that the parent is given: the name, unless its scheme is `socks5`, which is given the
/// address that was judged.
fn target_host(parent: &Parent, origin: &Origin, route: &Route<'_>) -> Host {
    let takes_address = parent.address.scheme() == ParentScheme::Socks5;
    match route.addresses.first().map(SocketAddr::ip).filter(|_| takes_address) {
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
