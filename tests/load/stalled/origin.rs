//! Honest origins: as many as there are addresses in 127.0.0.0/8. What they answer is large, and they send it as fast as
//! it is taken; an upload they take or leave.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio_rustls::TlsAcceptor;

use super::SOCKET_BYTES;

/// How many addresses the certificate is for.
pub const ADDRESSES: u8 = 60;

/// The origin of this number.
pub fn address(number: usize) -> Ipv4Addr {
    let number = u8::try_from(number % usize::from(ADDRESSES)).expect("a small number");
    Ipv4Addr::new(127, 0, 1, number + 1)
}

/// All of them.
#[derive(Debug)]
pub struct Origins {
    pub plain: u16,
    pub secure: u16,
    /// Who vouches for them.
    pub root: String,
}

/// The content of an answer: as much as is taken, or a word.
enum Content {
    Endless,
    Word(Option<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const PIECE: &[u8] = &[b'x'; 16 << 10];
        let piece = match &mut *self {
            Self::Endless => Some(Bytes::from_static(PIECE)),
            Self::Word(word) => word.take(),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

impl Origins {
    /// On the runtime that this is called in, for as long as that lives.
    pub async fn start() -> Self {
        let (config, root) = certified();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let plain = listen(|stream| async move { speak(stream, false).await }).await;
        let secure = listen(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                speak(stream, is_http2).await;
            }
        })
        .await;
        Self { plain, secure, root }
    }
}

async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
) -> u16 {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(SOCKET_BYTES).expect("a size");
    socket.bind((Ipv4Addr::UNSPECIFIED, 0).into()).expect("a free port");
    let listener = socket.listen(4096).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        }
    });
    port
}

fn certified() -> (ServerConfig, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.subject_alt_names = (0..usize::from(ADDRESSES))
        .map(|number| SanType::IpAddress(IpAddr::V4(address(number))))
        .collect();
    let certificate = params.self_signed(&key).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (config, certificate.pem())
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, is_http2: bool) {
    let (stream, service) = (TokioIo::new(stream), service_fn(answer));
    if is_http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.max_concurrent_streams(1000).serve_connection(stream, service).await;
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(stream, service).with_upgrades().await;
    }
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Content>, Infallible> {
    let mut response = Response::new(Content::Word(None));
    match request.uri().path() {
        "/large" | "/chunked" => *response.body_mut() = Content::Endless,
        "/robots.txt" => *response.status_mut() = StatusCode::NOT_FOUND,
        "/socket" => {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let mut stream = TokioIo::new(upgraded);
                while stream.write_all(&[b'x'; 16 << 10]).await.is_ok() {}
            });
        }
        // The request is never read any further, nor answered.
        "/nothing" if request.method() == Method::POST => std::future::pending::<()>().await,
        _ => *response.body_mut() = Content::Word(Some(Bytes::from_static(b"a page"))),
    }
    drop(request);
    Ok(response)
}
