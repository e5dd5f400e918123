//! Makes a new connection to an origin: the socket, TLS, and HTTP in the version that the origin
//! has chosen (RFC 7301; RFC 9113 §3.2).

use std::sync::{Arc, Weak};

use tokio::time::timeout;

use super::config::{ConfigSnapshot, Revalidation};
use super::connection::{Connection, Transport};
use super::error::{Error, Failure};
use super::happy_eyeballs;
use super::http1::Http1Connection;
use super::http2::{self, Window};
use super::origin_socket::OriginSocket;
use super::parent::Forwarder;
use super::pool::Pool;
use super::requester::Requester;
use super::route::Route;
use super::state::EgressState;
use super::tls::{PlaintextStream, TlsConnection, Versions};
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::origin::{Origin, Scheme};

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
        let revalidation = match (&route.parent, &forwarder) {
            (Some(_), None) => revalidation.of_tunnel(route.requester.loop_tokens()),
            _ => revalidation,
        };
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
        // Small messages must not wait for each other's acknowledgements.
        let _ = stream.set_nodelay(true);
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
