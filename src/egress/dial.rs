//! From an origin to a connection for one exchange: a kept one, or a new one in the version of HTTP
//! that the origin has chosen (RFC 7301; RFC 9113 §3.2).

use std::pin::Pin;
use std::sync::{Arc, Weak};

use tokio::time::timeout;

use super::config::{ConfigSnapshot, Revalidation};
use super::connection::{Connection, Link};
use super::error::{Error, Failure};
use super::happy_eyeballs;
use super::http1::Http1Connection;
use super::http2::{self, Opening, Window};
use super::origin_socket::OriginSocket;
use super::parent::Forwarder;
use super::pool::Pool;
use super::requester::Requester;
use super::route::Route;
use super::state::EgressState;
use super::tls::{PlaintextStream, Secured, Versions};
use crate::clients::MemoryPermit;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::{Origin, Scheme};

/// Makes connections for one worker.
#[derive(Clone, Copy)]
pub struct Dialer<'a> {
    pub state: &'a EgressState,
    pub pool: &'a Arc<Pool>,
}

/// What a connection has to serve.
#[derive(Clone, Copy, Debug)]
pub struct DialOptions<'a> {
    pub versions: Versions,
    pub requester: Requester<'a>,
    /// Whether the client is known to read what it asks for.
    pub client_reads: bool,
}

/// Boxed: most requests find a kept connection and never need this future.
type Dialed<'a> = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send + 'a>>;

impl<'a> Dialer<'a> {
    /// An idle connection if there is one, else as [`Self::shared_or_new`].
    pub async fn kept_or_new(
        self,
        origin: &'a Origin,
        options: DialOptions<'a>,
    ) -> Result<Connection, Error> {
        match self.idle(origin, options.requester.loop_tokens()) {
            Some(idle) => Ok(idle),
            None => self.shared_or_new(origin, options).await,
        }
    }

    /// An idle connection, if there is one.
    pub fn idle(self, origin: &Origin, loop_tokens: &LoopTokens) -> Option<Connection> {
        let (connection, home) = self.pool.take_any(origin, loop_tokens)?;
        Some(Connection::idle(connection, home))
    }

    /// A connection that was not idle: one in use that can be shared, or a new one.
    pub fn shared_or_new(self, origin: &'a Origin, options: DialOptions<'a>) -> Dialed<'a> {
        box_future(move || self.share_or_dial(origin, options))
    }

    async fn share_or_dial(
        self,
        origin: &Origin,
        options: DialOptions<'_>,
    ) -> Result<Connection, Error> {
        let DialOptions { versions, requester, .. } = options;
        let is_http1 = versions == Versions::Http1 || origin.scheme() != Scheme::Https;
        if is_http1 || !self.pool.keeps() {
            let route = self.route(origin, requester).await?;
            return self.dial(origin, versions, Window::Small, route).await;
        }
        let memory = self.large_window(origin, options);
        let window = if memory.is_some() { Window::Large } else { Window::Small };
        let mut connection = self.share(origin, window, requester).await?;
        if let Link::Http2(stream) = &mut connection.link {
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

    async fn share(
        self,
        origin: &Origin,
        window: Window,
        requester: Requester<'_>,
    ) -> Result<Connection, Error> {
        let loop_tokens = requester.loop_tokens();
        let kept = self.pool.http2.stream(origin, window, loop_tokens, &self.state.load());
        if let Some(stream) = kept {
            return Ok(Connection::shared(stream, self.home()));
        }
        // Resolved before waiting for another client's connection: that client's DNS lookup may
        // have to wait longer than this one's.
        let route = self.route(origin, requester).await?;
        // Those who wait for it would go by a tunnel of other tokens.
        if !loop_tokens.is_empty() && route.parent.is_some() {
            return self.open(origin, window, route).await;
        }
        match self.pool.http2.opening(origin, window) {
            Some(opening) => self.open_together(origin, window, &opening, route).await,
            None => self.open(origin, window, route).await,
        }
    }

    /// One exchange opens a connection; the others wait for it and share it if they can. When the
    /// client of the first leaves, the next exchange takes over.
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
                Ok(Connection::shared(connection.stream(), self.home()))
            }
            (_, Ok(_), Some(route)) => self.open(origin, window, route).await,
            (_, Err(error), _) => Err(error.clone()),
            (None, Ok(_), None) => unreachable!("an exchange without a route has opened its own"),
        }
    }

    /// A new connection, known to the pool when it can be shared.
    async fn open(
        self,
        origin: &Origin,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let opened = self.dial(origin, Versions::Any, window, route).await;
        match opened.as_ref().map(Connection::shareable) {
            Ok(Some(connection)) => self.pool.share(origin, &connection),
            Ok(None) => self.pool.http2.opened(origin, None),
            Err(_) => {}
        }
        opened
    }

    async fn dial(
        self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let since = route.since;
        let dialed = self.dial_untimed(origin, versions, window, route).await;
        if dialed.is_ok() {
            self.state.counters.connect.note(clock::monotonic() - since);
        }
        dialed
    }

    async fn dial_untimed(
        self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let forwarder = route.snapshot.parents.forwarder(origin).cloned();
        let stream = match &forwarder {
            Some(parent) => box_future(|| self.connect_to_parent(parent, &route)).await?,
            None => self.connect(origin, &route).await?,
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
                secure(origin, stream, (versions, window), (snapshot, revalidation), self.home())
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
                Ok(Connection::new(Link::Http1(http1), self.home(), false))
            }
            Scheme::Ftp => Err(Error::new(Failure::Protocol, "ftp is not supported")),
        }
    }

    /// A connection to the first of the route's addresses that answers, or by the route's parent.
    pub async fn connect(self, origin: &Origin, route: &Route<'_>) -> Result<OriginSocket, Error> {
        if let Some(parent) = &route.parent {
            return box_future(|| self.connect_by_parent(parent, origin, route)).await;
        }
        let Route { addresses, snapshot, requester, .. } = route;
        let limit = snapshot.config.connect_timeout;
        let attempts = &self.state.attempts;
        let stream = happy_eyeballs::connect(addresses, limit, attempts, *requester).await?;
        // Small messages must not wait for each other's acknowledgements.
        let _ = stream.set_nodelay(true);
        Ok(OriginSocket::Tcp(stream))
    }

    /// The permitted addresses of `origin` under the current configuration.
    pub async fn route<'b>(
        self,
        origin: &Origin,
        requester: Requester<'b>,
    ) -> Result<Route<'b>, Error> {
        Route::find(origin, &self.state.resolver, self.state.snapshot(), requester).await
    }

    fn home(self) -> Weak<Pool> {
        Arc::downgrade(self.pool)
    }
}

/// The TLS handshake, then HTTP in the version that it has chosen.
async fn secure(
    origin: &Origin,
    stream: OriginSocket,
    (versions, window): (Versions, Window),
    (snapshot, revalidation): (Arc<ConfigSnapshot>, Revalidation),
    home: Weak<Pool>,
) -> Result<Connection, Error> {
    let limit = snapshot.config.connect_timeout;
    let handshake = timeout(limit, snapshot.tls.handshake(origin, stream, versions)).await;
    let Secured { stream, is_http2, certificate_requested } = handshake.map_err(|_| {
        let detail = format!("the TLS handshake with {origin} took longer than {limit:?}");
        Error::new(Failure::ConnectionTimeout, detail)
    })??;
    let stream = PlaintextStream::new(stream);
    let link = if is_http2 {
        let connection =
            http2::handshake(origin, stream, window, revalidation, certificate_requested).await?;
        Link::Http2(connection)
    } else {
        Link::Http1(Http1Connection::open(origin, stream, revalidation).await?)
    };
    Ok(Connection::new(link, home, certificate_requested))
}
