//! A client that speaks HTTP/2 over TLS through the proxy.

use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{AGENT, DEADLINE, tls};

/// One connection. Its requests run beside the test, which waits for them when it wants to.
#[derive(Debug)]
pub struct H2 {
    runtime: Runtime,
    sender: SendRequest<Feed>,
    connection: JoinHandle<hyper::Result<()>>,
    authority: String,
}

/// A body that is fed by the test; it ends when its feeder is dropped.
#[derive(Debug)]
pub struct Feed(UnboundedReceiver<Bytes>);

/// A request under way.
#[derive(Debug)]
pub struct Stream {
    /// The body; `None` once it has ended.
    pub body: Option<UnboundedSender<Bytes>>,
    response: Answering,
}

type Answering = JoinHandle<hyper::Result<http::Response<Incoming>>>;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Body for Feed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed() && self.0.is_empty()
    }
}

impl H2 {
    /// In clear, with prior knowledge.
    #[track_caller]
    pub fn in_clear(stream: TcpStream) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        stream.set_nonblocking(true).expect("an option");
        let (sender, connection) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a runtime");
            let (sender, connection) =
                handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
            (sender, tokio::spawn(connection))
        });
        Self { runtime, sender, connection, authority: String::new() }
    }

    #[track_caller]
    pub fn start(stream: TcpStream, config: Arc<ClientConfig>, authority: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        stream.set_nonblocking(true).expect("an option");
        let (sender, connection) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a runtime");
            let name = tls::server_name(tls::host(authority));
            let stream = timeout(DEADLINE, TlsConnector::from(config).connect(name, stream));
            let stream = stream.await.expect("a handshake in time").expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
            let (sender, connection) =
                handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
            (sender, tokio::spawn(connection))
        });
        Self { runtime, sender, connection, authority: authority.to_owned() }
    }

    /// A request for a path of the host that is connected to.
    pub fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let url = format!("https://{}{path}", self.authority);
        Request::builder().method(method).uri(url).header("user-agent", AGENT)
    }

    /// Sends a head; the body is what the test feeds.
    #[track_caller]
    pub fn send(&self, request: http::request::Builder) -> Stream {
        let (body, feed) = unbounded_channel();
        Stream { body: Some(body), response: self.spawn(request, Feed(feed)) }
    }

    /// Sends a request without a body.
    #[track_caller]
    pub fn ask(&self, request: http::request::Builder) -> Stream {
        let (body, feed) = unbounded_channel();
        drop(body);
        Stream { body: None, response: self.spawn(request, Feed(feed)) }
    }

    /// Takes a request back: its stream is reset (RFC 9113 §6.4).
    pub fn reset(&self, stream: Stream) {
        stream.response.abort();
    }

    /// One exchange.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.answer(self.ask(self.request("GET", path)))
    }

    #[track_caller]
    pub fn head(&self, stream: Stream) -> http::Response<Incoming> {
        self.wait(stream.response).expect("no panic").expect("an answer")
    }

    #[track_caller]
    pub fn answer(&self, stream: Stream) -> Answer {
        let (head, body) = self.head(stream).into_parts();
        let body = self.wait(body.collect()).expect("a whole body");
        let trailers = body.trailers().cloned();
        Answer {
            status: head.status.as_u16(),
            fields: head.headers,
            body: body.to_bytes(),
            trailers,
        }
    }

    /// The status and the body, or why there is none.
    pub fn body(&self, stream: Stream) -> hyper::Result<(u16, Bytes)> {
        let response = self.wait(stream.response).expect("no panic")?;
        let status = response.status().as_u16();
        Ok((status, self.wait(response.into_body().collect())?.to_bytes()))
    }

    /// The next piece of a body.
    #[track_caller]
    pub fn piece(&self, response: &mut http::Response<Incoming>) -> Option<Bytes> {
        let frame = self.wait(response.frame())?.expect("a piece");
        frame.into_data().ok()
    }

    fn spawn(&self, request: http::request::Builder, body: Feed) -> Answering {
        let request = request.body(body).expect("a request");
        let mut sender = self.sender.clone();
        self.runtime.spawn(async move {
            sender.ready().await?;
            sender.send_request(request).await
        })
    }

    /// Waits until the proxy has ended the connection.
    #[track_caller]
    pub fn ended(&mut self) -> hyper::Result<()> {
        let connection =
            std::mem::replace(&mut self.connection, self.runtime.spawn(async { Ok(()) }));
        self.wait(connection).expect("no panic")
    }

    #[track_caller]
    pub fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { timeout(DEADLINE, what).await }).expect("in time")
    }
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|value| value.to_str().ok())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The proxy's own answer, with this error (RFC 9209 §2.3).
    #[track_caller]
    pub fn assert_error(&self, status: u16, error: &str) {
        assert_eq!(self.status, status, "{:?}", self.body);
        let told = self.field("proxy-status").unwrap_or_default();
        assert!(told.starts_with(&format!("courtesy; error={error}")), "{told}");
    }
}
