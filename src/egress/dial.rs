//! From an origin to a connection that a request can be sent over: a kept one, or a new one in the
//! version of HTTP that the origin has chosen (RFC 7301; RFC 9113 §3.2).

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::either::Either;

use super::alone::Alone;
use super::asker::Asker;
use super::bulk::Bulk;
use super::connect;
use super::error::{Error, Failure};
use super::exchange::connection_error;
use super::http2::Window;
use super::multiplexed::{Multiplexed, Opening, Stream};
use super::outgoing::Outgoing;
use super::plaintext::Plaintext;
use super::pool::Pool;
use super::terms::{Standing, Terms};
use super::tls::{Secured, Versions};
use super::{Egress, attempts, exchange, http2};
use crate::clients::Held;
use crate::egress::boxed_request::BoxedRequest;
use crate::egress::limits::HTTP2_LARGE_WINDOW_BYTES;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::origin::{Origin, Scheme};

/// What a request is sent over.
#[derive(Debug)]
pub enum Link {
    /// On the heap for as long as it is there: it goes through many hands in each exchange.
    Http1(Box<Alone>),
    Http2(Stream),
}

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub versions: Versions,
    /// The client.
    pub asker: Asker<'a>,
    /// Whether it is known to read what it asks for.
    pub is_read: bool,
}

/// A link to an origin, and what is known of it.
pub struct Connection {
    pub link: Link,
    /// It was there before: it may turn out closed.
    pub kept: bool,
    /// Whether the origin asked for a client certificate when it was opened.
    pub asked: bool,
}

impl Link {
    /// The address that it leads to.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Http1(alone) => alone.peer(),
            Self::Http2(stream) => stream.connection().peer(),
        }
    }

    /// For an answer that comes over it, of so many bytes: to be read in the largest pieces.
    pub fn bulk(&mut self, rights: &Arc<Semaphore>, to_come: Option<u64>) -> Option<Bulk> {
        match self {
            Self::Http1(alone) => alone.bulk(rights, to_come?),
            Self::Http2(_) => None,
        }
    }

    /// Lets what is left of an exchange go on by itself, besides its answer.
    pub fn detach(&mut self) {
        if let Self::Http1(alone) = self {
            alone.detach();
        }
    }

    /// Sends a request. The answer is to be polled by [`Self::poll_driven`]; the request comes back when
    /// nothing of it was sent.
    pub fn begin(
        &mut self,
        origin: &Origin,
        mut request: BoxedRequest<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> + use<>
    {
        match self {
            Self::Http1(alone) => {
                http2::to_http1(&mut request.head);
                exchange::keep_content(&mut request);
                Either::Left(alone.begin(heard(request)))
            }
            Self::Http2(stream) => {
                http2::to_http2(&mut request.head, origin);
                let request = heard(request);
                // Interim responses do not come through here. Whoever waits for a 100 must not take
                // the loss of its listener for the final answer.
                let listener = request.extensions().clone();
                let answer = stream.sender.try_send_request(request);
                Either::Right(async move {
                    let _listener = listener;
                    answer.await
                })
            }
        }
    }

    /// What `poll` gives of what comes over it.
    pub fn poll_driven<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        match self {
            Self::Http1(alone) => alone.poll_driven(cx, poll),
            Self::Http2(_) => poll(cx),
        }
    }
}

/// The request with whoever hears the interim responses to it, as the engine knows him: he is still there in one
/// that comes back.
fn heard(mut request: BoxedRequest<Outgoing>) -> Request<Outgoing> {
    let listener = request.body.take_listener();
    let mut request = request.whole();
    if let Some(listener) = listener {
        hyper::ext::on_informational(&mut request, move |response| {
            listener.hear(response.status(), response.headers());
        });
    }
    request
}

impl Connection {
    const fn idle(alone: Box<Alone>) -> Self {
        Self { link: Link::Http1(alone), kept: true, asked: false }
    }

    fn shared(stream: Stream) -> Self {
        Self { asked: stream.asked(), link: Link::Http2(stream), kept: true }
    }

    /// Whether a request without a response may be sent again: the origin may have closed a kept
    /// connection, or refuse a stream of HTTP/2 (RFC 9113 §8.7).
    pub const fn may_need_retry(&self) -> bool {
        self.kept || matches!(self.link, Link::Http2(_))
    }

    /// The link, over which an answer has come.
    pub fn proven(self) -> Link {
        if let Link::Http2(stream) = &self.link {
            stream.answered();
        }
        self.link
    }

    fn multiplexed(&self) -> Option<Multiplexed> {
        match &self.link {
            Link::Http1(_) => None,
            Link::Http2(stream) => Some(stream.connection().clone()),
        }
    }
}

/// On the heap: most requests find a connection that is there.
type Dialled<'a> = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send + 'a>>;

impl Egress {
    /// A connection for one exchange, a kept one if there is one.
    pub(super) async fn connection(
        &self,
        origin: &Origin,
        wanted: Wanted<'_>,
    ) -> Result<Connection, Error> {
        match self.pool.take_any(origin) {
            Some(alone) => Ok(Connection::idle(alone)),
            None => self.fresh(origin, wanted).await,
        }
    }

    /// A connection that was not idle: one that is in use and can be shared, or a new one.
    pub(super) fn fresh<'a>(&'a self, origin: &'a Origin, wanted: Wanted<'a>) -> Dialled<'a> {
        box_future(move || self.share_or_dial(origin, wanted))
    }

    async fn share_or_dial(
        &self,
        origin: &Origin,
        wanted: Wanted<'_>,
    ) -> Result<Connection, Error> {
        let Wanted { versions, asker, .. } = wanted;
        if versions == Versions::Http1 || origin.scheme() != Scheme::Https || !self.pool.keeps() {
            let route = self.route(origin, asker).await?;
            return self.dial(origin, versions, Window::Small, route).await;
        }
        let memory = self.large_window(origin, wanted);
        let window = if memory.is_some() { Window::Large } else { Window::Small };
        let mut connection = self.share(origin, window, asker).await?;
        if let Link::Http2(stream) = &mut connection.link {
            stream.memory = memory;
        }
        Ok(connection)
    }

    /// Memory for an HTTP/2 stream with a large window, where the client reads and there is some.
    fn large_window(&self, origin: &Origin, wanted: Wanted<'_>) -> Option<Held> {
        if !wanted.is_read || self.pool.multiplexed.is_http1(origin) {
            return None;
        }
        self.shared.memory.more(wanted.asker.for_slots(), HTTP2_LARGE_WINDOW_BYTES as usize)
    }

    async fn share(
        &self,
        origin: &Origin,
        window: Window,
        asker: Asker<'_>,
    ) -> Result<Connection, Error> {
        if let Some(stream) = self.pool.multiplexed.stream(origin, window, &self.shared.look()) {
            return Ok(Connection::shared(stream));
        }
        // Before it waits for the connection of another client, whose look-up may have to wait longer.
        let route = self.route(origin, asker).await?;
        match self.pool.multiplexed.opening(origin, window) {
            Some(opening) => self.open_together(origin, window, &opening, route).await,
            None => self.open(origin, window, route).await,
        }
    }

    /// One opens a connection, the others wait for it and share it if they can. When that one's
    /// client leaves, the next takes over.
    async fn open_together(
        &self,
        origin: &Origin,
        window: Window,
        opening: &Opening,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let (mut own, mut route) = (None, Some(route));
        let opened = opening
            .get_or_init(async || {
                let opened =
                    self.open(origin, window, route.take().expect("it is called once")).await;
                let shared = opened.as_ref().map(Connection::multiplexed).map_err(Clone::clone);
                own = Some(opened);
                shared
            })
            .await;
        match (own, opened, route) {
            (Some(own), _, _) => own,
            (_, Ok(Some(connection)), _) if connection.holds(origin, &self.shared.look()) => {
                Ok(Connection::shared(connection.stream()))
            }
            (_, Ok(_), Some(route)) => self.open(origin, window, route).await,
            (_, Err(error), _) => Err(error.clone()),
            (None, Ok(_), None) => unreachable!("who has opened it has it"),
        }
    }

    /// A new connection, known to the pool when it can be shared.
    async fn open(
        &self,
        origin: &Origin,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let opened = self.dial(origin, Versions::Any, window, route).await;
        match opened.as_ref().map(Connection::multiplexed) {
            Ok(Some(connection)) => self.pool.share(origin, &connection),
            Ok(None) => self.pool.multiplexed.opened(origin, window, None),
            Err(_) => self.pool.multiplexed.failed(origin, window),
        }
        opened
    }

    async fn dial(
        &self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let since = route.since;
        let dialled = self.dial_untimed(origin, versions, window, route).await;
        if dialled.is_ok() {
            self.shared.counters.connect.note(clock::monotonic() - since);
        }
        dialled
    }

    async fn dial_untimed(
        &self,
        origin: &Origin,
        versions: Versions,
        window: Window,
        route: Route<'_>,
    ) -> Result<Connection, Error> {
        let stream = self.connect(&route).await?;
        let terms = route.terms;
        let home = Arc::downgrade(&self.pool);
        match origin.scheme() {
            Scheme::Https => secure(origin, stream, (versions, window), terms, home).await,
            Scheme::Http => {
                let standing = standing(&stream, terms);
                let alone = Alone::open(origin, stream, standing, home).await?;
                Ok(Connection { link: Link::Http1(alone), kept: false, asked: false })
            }
            Scheme::Ftp => Err(Error::new(Failure::Protocol, "ftp is not spoken here")),
        }
    }

    /// A connection to a permitted address, on which nothing has been said: also for a tunnel.
    pub async fn connect_plain(
        &self,
        origin: &Origin,
        asker: impl Into<Asker<'_>>,
    ) -> Result<TcpStream, Error> {
        self.connect(&self.route(origin, asker.into()).await?).await
    }

    async fn connect(&self, route: &Route<'_>) -> Result<TcpStream, Error> {
        let Route { addresses, terms, asker, .. } = route;
        let deadline = terms.config.connect_timeout;
        let stream = attempts::connect(addresses, deadline, &self.shared.attempts, *asker).await?;
        // Small messages must not wait for each other's acknowledgements.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Where `origin` is, on the terms of this moment.
    pub(super) async fn route<'a>(
        &self,
        origin: &Origin,
        asker: Asker<'a>,
    ) -> Result<Route<'a>, Error> {
        let (since, terms) = (clock::monotonic(), self.shared.terms());
        let addresses =
            connect::permitted_addresses(origin, &self.shared.resolver, &terms, asker).await?;
        Ok(Route { addresses, terms, asker, since })
    }
}

/// The addresses of an origin, and the terms on which they were judged.
pub(super) struct Route<'a> {
    addresses: Vec<SocketAddr>,
    terms: Arc<Terms>,
    asker: Asker<'a>,
    /// When its name began to be looked up.
    since: Instant,
}

async fn secure(
    origin: &Origin,
    stream: TcpStream,
    (versions, window): (Versions, Window),
    terms: Arc<Terms>,
    home: Weak<Pool>,
) -> Result<Connection, Error> {
    let deadline = terms.config.connect_timeout;
    let standing = standing(&stream, Arc::clone(&terms));
    let handshake = timeout(deadline, terms.tls.handshake(origin, stream, versions)).await;
    let Secured { stream, http2, asked } = handshake.map_err(|_| {
        let detail = format!("the TLS handshake with {origin} took longer than {deadline:?}");
        Error::new(Failure::ConnectionTimeout, detail)
    })??;
    let link = if http2 {
        Link::Http2(speak_http2(origin, Plaintext::new(stream), window, standing, asked).await?)
    } else {
        Link::Http1(Alone::open(origin, Plaintext::new(stream), standing, home).await?)
    };
    Ok(Connection { link, kept: false, asked })
}

async fn speak_http2(
    origin: &Origin,
    stream: impl Io,
    window: Window,
    standing: Standing,
    asked: bool,
) -> Result<Stream, Error> {
    let (sender, connection) = http2::builder(standing.config().max_header_bytes, window)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| connection_error(origin, &error))?;
    // It ends with the last exchange once nobody holds a sender.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Multiplexed::new(sender, window, standing, asked).stream())
}

fn standing(stream: &TcpStream, terms: Arc<Terms>) -> Standing {
    Standing::new(stream.peer_addr().ok().map(|address| address.ip()), terms)
}

/// What HTTP can be spoken over.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Io for T {}
