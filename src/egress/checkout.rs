//! Checks out a connection to an origin for one exchange: an idle one of HTTP/1.1, a stream of a
//! shared one of HTTP/2, or a new one ([`super::dial`]).

use std::pin::Pin;

use super::connection::{Connection, Transport};
use super::dial::Dialer;
use super::error::Error;
use super::http2::{Opening, Window};
use super::requester::Requester;
use super::route::Route;
use super::tls::Versions;
use crate::clients::MemoryPermit;
use crate::runtime::box_future::box_future;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::{Origin, Scheme};

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
        match self.take_idle(origin, options.requester.loop_tokens()) {
            Some(idle) => Ok(idle),
            None => self.shared_or_new(origin, options).await,
        }
    }

    /// Takes an idle connection out of the pool, if there is one for a request with these
    /// `loop_tokens`: the identifiers of the proxies that it has passed, to find loops over parent
    /// proxies.
    pub fn take_idle(self, origin: &Origin, loop_tokens: &LoopTokens) -> Option<Connection> {
        let (connection, pool) = self.pool.take_any(origin, loop_tokens)?;
        Some(Connection::idle(connection, pool))
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
        let loop_tokens = requester.loop_tokens();
        let kept = self.pool.http2.stream(origin, window, loop_tokens, &self.state.load());
        if let Some(stream) = kept {
            return Ok(Connection::shared(stream, self.weak_pool()));
        }
        // Resolved before waiting for another client's connection: that client's DNS lookup may
        // have to wait longer than this one's.
        let route = self.find_route(origin, requester).await?;
        // A tunnel by a parent serves only requests with the loop tokens that it is opened with, so
        // no other exchange may wait for it.
        if !loop_tokens.is_empty() && route.parent.is_some() {
            return self.open(origin, window, route).await;
        }
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
