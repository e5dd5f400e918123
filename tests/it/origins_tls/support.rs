//! An origin that counts, bodies that are fed, and the way out under test.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use courtesy::egress::{
    self, AddressPolicy, ConfigSnapshot, Egress, RequestBody, ResponseBody, Roots,
};
use courtesy::pace::{self, Lanes};
use courtesy::runtime::clock::SystemClock;
use courtesy::types::ClientKey;
use courtesy::types::origin::{Origin, split_url};
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::origins_tls::authority::Authority;

pub type Body = BoxBody<Bytes, std::io::Error>;

/// What an origin has seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicUsize,
    pub resumed: AtomicUsize,
    pub requests: AtomicUsize,
    pub names: Mutex<Vec<Option<String>>>,
}

impl Seen {
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// One more; how many there are with it.
    pub fn count_request(&self) -> usize {
        self.requests.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// An origin on a port of its own, for as long as the test's runtime lives.
pub struct Served {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
}

impl Served {
    pub fn origin(&self) -> Origin {
        self.at("127.0.0.1")
    }

    pub fn at(&self, host: &str) -> Origin {
        split_url(format!("https://{host}:{}/", self.address.port()).as_bytes()).unwrap().0
    }
}

/// Starts an origin that hands each secured connection to `speak`.
pub async fn origin<S, F>(config: ServerConfig, speak: S) -> Served
where
    S: Fn(TlsStream<TcpStream>, Arc<Seen>) -> F + Send + Sync + Copy + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, acceptor) = (Arc::new(Seen::default()), TlsAcceptor::from(Arc::new(config)));
    let counted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, acceptor) = (Arc::clone(&counted), acceptor.clone());
            tokio::spawn(async move {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let session = stream.get_ref().1;
                let resumed = session.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
                seen.resumed.fetch_add(usize::from(resumed), Ordering::SeqCst);
                seen.names.lock().unwrap().push(session.server_name().map(str::to_owned));
                speak(stream, seen).await;
            });
        }
    });
    Served { address, seen }
}

pub type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Speaks HTTP in the version agreed on; each request is counted and answered by `answer`.
pub async fn speak(
    stream: TlsStream<TcpStream>,
    seen: Arc<Seen>,
    answer: fn(Request<Incoming>) -> Answer,
) {
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        seen.count_request();
        async move { Ok::<_, std::convert::Infallible>(answer(request).await) }
    });
    let io = TokioIo::new(stream);
    if http2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service)
            .await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    }
}

/// An origin that answers with the version and head of the request.
pub async fn mirror(config: ServerConfig) -> Served {
    origin(config, |stream, seen| {
        speak(stream, seen, |request| Box::pin(async move { mirrored(&request) }))
    })
    .await
}

pub fn mirrored(request: &Request<Incoming>) -> Response<Body> {
    let text = format!("{:?} {} {:?}", request.version(), request.uri(), request.headers());
    Response::new(full(text))
}

pub fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// A body that is fed from outside.
pub struct Fed(mpsc::Receiver<Frame<Bytes>>);

/// The other end of a [`Fed`] body.
pub struct Feed(mpsc::Sender<Frame<Bytes>>);

pub fn feed() -> (Body, Feed) {
    let (sender, receiver) = mpsc::channel(1);
    (Fed(receiver).boxed(), Feed(sender))
}

impl Feed {
    pub async fn data(&self, data: impl Into<Bytes>) {
        let _ = self.0.send(Frame::data(data.into())).await;
    }

    pub async fn trailers(&self, trailers: HeaderMap) {
        let _ = self.0.send(Frame::trailers(trailers)).await;
    }

    /// Until nobody reads the body any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// The way out, trusting `authority` and let onto loopback.
pub fn shared(
    authority: &Authority,
    change: impl FnOnce(&mut egress::Config),
) -> Arc<egress::EgressState> {
    shared_with(authority, change, |tls| tls)
}

/// Of at most `max` exchanges with an origin at a time.
pub fn limited(
    authority: &Authority,
    max: usize,
    change: impl FnOnce(&mut egress::Config),
) -> Arc<egress::EgressState> {
    let state = shared(authority, change);
    state.lanes().change(of_exchanges(max));
    state
}

/// The pace is off, and at most `max` exchanges with an origin are under way.
pub fn of_exchanges(max: usize) -> pace::Config {
    pace::Config { max_exchanges: max, ..pace::Config::off() }
}

pub fn shared_with(
    authority: &Authority,
    change: impl FnOnce(&mut egress::Config),
    tls: impl FnOnce(egress::Tls) -> egress::Tls,
) -> Arc<egress::EgressState> {
    let ConfigSnapshot { mut config, policy, tls: connector, parents } = terms(authority);
    change(&mut config);
    let lanes = Lanes::off(Arc::new(SystemClock));
    egress::EgressState::new(ConfigSnapshot { config, policy, tls: tls(connector), parents }, lanes)
}

/// What [`shared`] begins with.
pub fn terms(authority: &Authority) -> ConfigSnapshot {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("root.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let connector = egress::tls_connector(Roots::Bundled, &[file]).unwrap();
    let policy = AddressPolicy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![], vec![]);
    let config = egress::Config {
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(5),
        body_idle_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        max_lookups: 4,
        max_attempts_beside: 4,
        max_header_bytes: 64 << 10,
        hosts: egress::HostRules::default(),
        under_run: false,
    };
    ConfigSnapshot { config, policy, tls: connector, parents: egress::Parents::default() }
}

pub fn way_out(authority: &Authority) -> Egress {
    Egress::new(shared(authority, |_| ()))
}

pub fn request(method: Method, origin: &Origin, path: &str) -> Request<RequestBody> {
    let host = origin.authority();
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .body(RequestBody::empty())
        .unwrap()
}

/// Sends a request that is not paced.
pub async fn send(
    egress: &Egress,
    origin: &Origin,
    request: Request<RequestBody>,
) -> Result<Response<Box<ResponseBody>>, egress::Error> {
    let turn = egress.lanes().acquire_for_robots_txt(origin, Duration::ZERO).await.unwrap();
    let permission = egress::AlwaysPermitted::default();
    egress.send(origin, request.into(), &ClientKey::Proxy, turn, &permission).await
}

pub async fn get(
    egress: &Egress,
    origin: &Origin,
) -> Result<Response<Box<ResponseBody>>, egress::Error> {
    send(egress, origin, request(Method::GET, origin, "/")).await
}

pub async fn text(response: Response<Box<ResponseBody>>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
