//! The way out: resolve, keep only permitted addresses, connect to exactly those, speak HTTP/1.1.
//!
//! Promises: no connection to an address that the policy refuses, by whatever name; bounds on
//! connections in use and idle; a request is sent a second time only when that is safe
//! (RFC 9110 §9.2.2). Never follows a redirect and never decides what may be fetched.

mod address;
mod body;
mod connect;
mod error;
mod pool;
mod resolve;
mod slots;
mod tls;
mod unstalled;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, request};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::origin::{Origin, Scheme};
pub use address::{AddressPolicy, Prohibited};
pub use body::{Arriving, Outgoing};
pub use error::{Error, Failure};
use pool::{Lease, Pool};
use resolve::Resolver;
use slots::{Slot, Slots};
pub use tls::{Roots, RootsError, connector as tls_connector};
pub use unstalled::Unstalled;

/// The settings of the way out; see `config/courtesy.toml` for their meaning and defaults.
#[derive(Clone, Debug)]
pub struct Config {
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
    pub body_idle_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_per_origin: usize,
    pub max_idle: usize,
    pub max_header_bytes: usize,
    pub max_headers: usize,
}

/// What all workers share: who may be contacted, what names mean, how many at a time.
pub struct Shared {
    config: Config,
    policy: AddressPolicy,
    resolver: Resolver,
    tls: TlsConnector,
    slots: Arc<Slots>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn new(config: Config, policy: AddressPolicy, tls: TlsConnector) -> Arc<Self> {
        let slots = Slots::new(config.max_per_origin);
        Arc::new(Self { config, policy, resolver: Resolver::new(), tls, slots })
    }
}

/// One worker's handle on the way out, with its own idle connections.
pub struct Egress {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("shared", &self.shared).field("pool", &self.pool).finish()
    }
}

impl Egress {
    pub fn new(shared: Arc<Shared>) -> Self {
        let idle_max = shared.config.max_idle;
        Self::keeping(shared, idle_max)
    }

    /// Each connection ends with its exchange: for whoever is not bound to one runtime.
    pub fn without_pool(shared: Arc<Shared>) -> Self {
        Self::keeping(shared, 0)
    }

    fn keeping(shared: Arc<Shared>, idle_max: usize) -> Self {
        let idle_timeout = shared.config.idle_timeout;
        Self { shared, pool: Pool::new(pool::Bounds { idle_max, idle_timeout }) }
    }

    /// Whether `origin` may be contacted at all: [`Failure::AddressProhibited`] or
    /// [`Failure::Loop`] when not, another failure when its name cannot be resolved.
    pub async fn permits(&self, origin: &Origin) -> Result<(), Error> {
        connect::permitted_addresses(origin, &self.shared.resolver, &self.shared.policy).await.map(drop)
    }

    /// Sends one request to `origin` and returns the head of the answer, its body still to come.
    /// The request is in origin-form, with the `Host` that the caller derived from `origin`.
    pub async fn send(
        &self,
        origin: &Origin,
        request: Request<Outgoing>,
    ) -> Result<Response<Arriving>, Error> {
        let slot = self.shared.slots.acquire(origin, self.shared.config.connect_timeout).await?;
        let request = match self.idle_connection(origin).await {
            None => request,
            Some(sender) => {
                let spare = spare(&request);
                match self.exchange(sender, request, slot).await {
                    Ok(response) => return Ok(response),
                    Err(Unsent { slot, request: Some(request), .. }) => {
                        return self.send_anew(origin, *request, slot).await;
                    }
                    Err(Unsent { slot, error, .. }) => match spare {
                        Some(request) if error.failure == Failure::ConnectionTerminated => {
                            return self.send_anew(origin, request, slot).await;
                        }
                        _ => return Err(error),
                    },
                }
            }
        };
        self.send_anew(origin, request, slot).await
    }

    async fn send_anew(
        &self,
        origin: &Origin,
        request: Request<Outgoing>,
        slot: Slot,
    ) -> Result<Response<Arriving>, Error> {
        let sender = self.connect(origin).await?;
        self.exchange(sender, request, slot).await.map_err(|unsent| unsent.error)
    }

    /// A connection for a tunnel: to a permitted address, and nothing said on it.
    pub async fn connect_plain(&self, origin: &Origin) -> Result<TcpStream, Error> {
        let shared = &self.shared;
        let addresses = connect::permitted_addresses(origin, &shared.resolver, &shared.policy).await?;
        connect::connect(addresses, shared.config.connect_timeout).await
    }

    /// An idle connection that is ready for a request.
    async fn idle_connection(&self, origin: &Origin) -> Option<SendRequest<Outgoing>> {
        while let Some(mut sender) = self.pool.take(origin) {
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(&self, origin: &Origin) -> Result<SendRequest<Outgoing>, Error> {
        let shared = &self.shared;
        let deadline = shared.config.connect_timeout;
        let stream = self.connect_plain(origin).await?;
        match origin.scheme() {
            Scheme::Https => {
                let handshake = timeout(deadline, tls::handshake(&shared.tls, origin, stream)).await;
                let stream = handshake.map_err(|_| {
                    let detail = format!("the TLS handshake with {origin} took longer than {deadline:?}");
                    Error::new(Failure::ConnectionTimeout, detail)
                })??;
                self.speak(TokioIo::new(stream)).await
            }
            Scheme::Http => self.speak(TokioIo::new(stream)).await,
            Scheme::Ftp => Err(Error::new(Failure::Protocol, "ftp is not spoken here")),
        }
    }

    async fn speak<I>(&self, io: I) -> Result<SendRequest<Outgoing>, Error>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let config = &self.shared.config;
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(config.max_headers)
            .max_header_size(config.max_header_bytes)
            .max_buf_size(config.max_header_bytes)
            .handshake(io)
            .await
            .map_err(|error| exchange_error(&error))?;
        // The connection runs until either side closes it; its errors reach the exchange in use.
        tokio::spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<Outgoing>,
        mut request: Request<Outgoing>,
        slot: Slot,
    ) -> Result<Response<Arriving>, Unsent> {
        let config = &self.shared.config;
        let sent = request.body().completion();
        let answered = request.body_mut().until_answered();
        match timeout(config.response_timeout, sender.try_send_request(request)).await {
            Ok(Ok(response)) => {
                if let Some(fault) = framing_fault(response.headers()) {
                    let detail = format!("no valid response from the origin: {fault}");
                    return Err(Unsent { error: Error::new(Failure::Protocol, detail), request: None, slot });
                }
                let lease =
                    Lease { sender, pool: Arc::downgrade(&self.pool), sent, _answered: answered, slot };
                Ok(response.map(|body: Incoming| Arriving::new(body, config.body_idle_timeout, lease)))
            }
            Ok(Err(mut failed)) => {
                let request = failed.take_message().map(Box::new);
                Err(Unsent { error: exchange_error(failed.error()), request, slot })
            }
            Err(_) => {
                let detail = format!("no response within {:?}", config.response_timeout);
                Err(Unsent { error: Error::new(Failure::ResponseTimeout, detail), request: None, slot })
            }
        }
    }

    /// Closes idle connections whose time is over.
    pub fn sweep(&self) {
        self.pool.sweep();
    }
}

/// An exchange without an answer. The request is there when nothing of it was sent.
struct Unsent {
    error: Error,
    request: Option<Box<Request<Outgoing>>>,
    slot: Slot,
}

/// A second copy of a request that may be sent again when a kept connection turns out closed
/// before anything was answered: idempotent (RFC 9110 §9.2.2) and without a body.
fn spare(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    let safe_to_repeat = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    );
    if !safe_to_repeat || !request.body().is_empty() || request.headers().contains_key(http::header::UPGRADE)
    {
        return None;
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    let request::Parts { method, uri, version, headers, extensions, .. } = &mut parts;
    method.clone_from(request.method());
    uri.clone_from(request.uri());
    *version = request.version();
    headers.clone_from(request.headers());
    extensions.clone_from(request.extensions());
    Some(Request::from_parts(parts, Outgoing::empty()))
}

/// What is ambiguous about where a response ends: the engine settles it for itself, but the next
/// reader might settle it otherwise (RFC 9112 §6.1, §6.3).
fn framing_fault(fields: &HeaderMap) -> Option<&'static str> {
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if fields.contains_key(CONTENT_LENGTH) {
            return Some("it has both Content-Length and Transfer-Encoding");
        }
        if codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Some("it has a transfer coding besides chunked");
        }
    }
    let is_number = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    (!fields.get_all(CONTENT_LENGTH).iter().all(is_number)).then_some("its Content-Length is no number")
}

fn exchange_error(error: &hyper::Error) -> Error {
    use std::error::Error as _;
    if error.is_user() {
        return request_error(error);
    }
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    let failure = if error.is_parse_too_large() {
        Failure::HeaderTooLarge
    } else if error.is_parse() {
        Failure::Protocol
    } else {
        Failure::ConnectionTerminated
    };
    Error::new(failure, format!("no valid response from the origin: {error}{cause}"))
}

/// The request could not be sent whole, because the client's body did not come so.
fn request_error(error: &hyper::Error) -> Error {
    use std::error::Error as _;
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match source {
        Some(source) if source.kind() == std::io::ErrorKind::TimedOut => {
            Error::new(Failure::RequestTimeout, format!("the body of the request stalled: {source}"))
        }
        _ => Error::new(
            Failure::RequestIncomplete,
            "the body of the request is not valid HTTP/1.1, or did not come to its end",
        ),
    }
}
