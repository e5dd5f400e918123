//! What the HTTP engine takes by itself: hyper on both sides, a runtime and kept connections of their own for each
//! thread, and an origin's connection driven by whoever waits for its answer, as courtesy has it. It
//! decides, checks, counts, bounds and records nothing, and gives nobody a second try: no proxy, but about the
//! least that one of this engine can cost for a request, once its connections stand. What courtesy does to
//! make handshakes and idle connections cheap, it does not.

#![forbid(unsafe_code)]

mod runtime {
    #[path = "../../../../../../src/runtime/lock.rs"]
    pub mod lock;
}
#[path = "../../../../../src/egress/http1/mod.rs"]
mod wake_relay;

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use clap::Parser;
use http_body_util::{Either, Empty};
use hudsucker::certificate_authority::{CertificateAuthority, RcgenAuthority};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use peers::{Interception, strip};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::coop::unconstrained;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use wake_relay::WakeRelay;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Engine = Boxed<hyper::Result<()>>;
type Failure = Box<dyn Error + Send + Sync>;
type Answer = Response<Either<Arriving, Empty<Bytes>>>;

/// One thread's way out, and what it needs to stand for origins.
struct Worker {
    kept: Mutex<HashMap<Authority, Vec<Kept>>>,
    connector: TlsConnector,
    authority: Arc<RcgenAuthority>,
}

/// An origin's connection, and the engine at its end.
struct Kept {
    sender: client::SendRequest<Incoming>,
    engine: Engine,
    relay: Arc<WakeRelay>,
}

/// The body of an answer, and the connection by which it comes.
struct Arriving {
    body: Incoming,
    from: Option<(Arc<Worker>, Authority, Kept)>,
}

fn main() {
    let args = Interception::parse();
    let authority = Arc::new(args.certificates.authority());
    let towards_origins = Arc::new(args.certificates.towards_origins());
    args.serving.run_each(|listener| {
        let worker = Worker {
            kept: Mutex::default(),
            connector: Arc::clone(&towards_origins).into(),
            authority: Arc::clone(&authority),
        };
        accept(listener, Arc::new(worker))
    });
}

async fn accept(listener: TcpListener, worker: Arc<Worker>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        // How a connection ends is the client's business; the generator counts what it lacks.
        tokio::spawn(serve(client, Arc::clone(&worker), None));
    }
}

/// Serves what comes by `stream`: for any origin, or for the one `within` which it is.
async fn serve<S>(stream: S, worker: Arc<Worker>, within: Option<Authority>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| handle(request, Arc::clone(&worker), within.clone()));
    let connection = server::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

async fn handle(
    request: Request<Incoming>,
    worker: Arc<Worker>,
    within: Option<Authority>,
) -> Result<Answer, Infallible> {
    if request.method() == Method::CONNECT {
        tokio::spawn(intercept(request, worker));
        return Ok(Response::new(Either::Right(Empty::new())));
    }
    Ok(forward(request, worker, within).await.unwrap_or_else(|_| {
        let mut response = Response::new(Either::Right(Empty::new()));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    }))
}

/// Boxed, for it serves what may ask for it again.
fn intercept(request: Request<Incoming>, worker: Arc<Worker>) -> Boxed<Result<(), Failure>> {
    Box::pin(async move {
        let authority = request.uri().authority().cloned().ok_or("a CONNECT without an authority")?;
        let upgraded = hyper::upgrade::on(request).await?;
        let client = upgraded.downcast::<TokioIo<TcpStream>>().map_err(|_| "not our stream")?.io.into_inner();
        let config = worker.authority.gen_server_config(&authority).await;
        let stream = TlsAcceptor::from(config).accept(client).await?;
        serve(stream, worker, Some(authority)).await;
        Ok(())
    })
}

async fn forward(
    mut request: Request<Incoming>,
    worker: Arc<Worker>,
    within: Option<Authority>,
) -> Result<Answer, Failure> {
    let is_tls = within.is_some();
    let origin = within.or_else(|| request.uri().authority().cloned()).ok_or("a request for no origin")?;
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
    strip(request.headers_mut());
    let idle = worker.kept().get_mut(&origin).and_then(Vec::pop);
    let mut kept = match idle {
        Some(kept) => kept,
        None => worker.connect(&origin, is_tls).await?,
    };
    let mut response = kept.send(request).await?;
    strip(response.headers_mut());
    Ok(response.map(|body| Either::Left(Arriving { body, from: Some((worker, origin, kept)) })))
}

impl Worker {
    fn kept(&self) -> MutexGuard<'_, HashMap<Authority, Vec<Kept>>> {
        self.kept.lock().expect("nobody panics")
    }

    async fn connect(&self, origin: &Authority, is_tls: bool) -> Result<Kept, Failure> {
        let port = origin.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((origin.host(), port)).await?;
        stream.set_nodelay(true)?;
        if !is_tls {
            return Kept::open(stream).await;
        }
        let name = ServerName::try_from(origin.host().to_owned())?;
        Kept::open(self.connector.connect(name, stream).await?).await
    }
}

impl Kept {
    async fn open(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, Failure> {
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, engine: Box::pin(connection), relay: WakeRelay::new() })
    }

    async fn send(&mut self, request: Request<Incoming>) -> hyper::Result<Response<Incoming>> {
        self.relay.mute();
        // With a budget it might wait for more of that, and nobody would be woken.
        let mut answer = pin!(unconstrained(self.sender.send_request(request)));
        let (engine, relay) = (&mut self.engine, &self.relay);
        poll_fn(|cx| drive(engine, relay, cx, |cx| answer.as_mut().poll(cx))).await
    }
}

/// What `poll` gives, which the engine brings about: nobody is woken for what he brings about himself.
fn drive<T>(
    engine: &mut Engine,
    relay: &Arc<WakeRelay>,
    cx: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let mut asleep = Context::from_waker(Waker::noop());
    relay.mute();
    if let Poll::Ready(there) = poll(&mut asleep) {
        return Poll::Ready(there);
    }
    relay.unmute();
    relay.register(cx.waker());
    // It ends with the connection, and then so does what is waited for.
    let _ = engine.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(relay))));
    relay.mute();
    let polled = poll(&mut asleep);
    if relay.unmute() && polled.is_pending() {
        cx.waker().wake_by_ref();
    }
    polled
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Self { body, from } = &mut *self;
        let frame = match from {
            Some((_, _, kept)) => {
                ready!(drive(&mut kept.engine, &kept.relay, cx, |cx| { Pin::new(&mut *body).poll_frame(cx) }))
            }
            None => ready!(Pin::new(&mut *body).poll_frame(cx)),
        };
        if body.is_end_stream()
            && let Some((worker, origin, kept)) = from.take()
            && kept.sender.is_ready()
        {
            kept.relay.mute();
            worker.kept().entry(origin).or_default().push(kept);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
