//! A client's connection: TCP, then CONNECT where the way leads through one, then TLS where it is asked for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::args::Asking;
use crate::response::Response;
use crate::target::Target;

/// What a request fails by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    Connect,
    Tunnel,
    Tls,
    Timeout,
    ClosedEarly,
    Io,
    Malformed,
    Status,
    Length,
}

/// How connections are made.
pub struct Dialer {
    tls: TlsConnector,
    source_ips: u8,
}

pub struct Connection {
    stream: Stream,
    pub used: u64,
    /// Whether its TLS session is an earlier one.
    pub resumed: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Dialer {
    pub fn new(asking: &Asking) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &asking.ca {
            let said = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| said(&error))? {
                roots.add(certificate.map_err(|error| said(&error))?).map_err(|error| said(&error))?;
            }
        }
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !asking.tls_resume {
            config.resumption = Resumption::disabled();
        }
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), source_ips: asking.source_ips })
    }

    /// The connection of that number, ready for a request.
    pub async fn open(
        &self,
        target: &Target,
        number: u64,
        response: &mut Response,
    ) -> Result<Connection, Failure> {
        let tcp = self.connect(target.address, number).await.map_err(|_| Failure::Connect)?;
        let mut stream = Stream::Plain(tcp);
        if let Some(head) = &target.connect {
            response.reset(true);
            stream.exchange(head, response).await?;
            if !(200..300).contains(&response.status) {
                return Err(Failure::Tunnel);
            }
        }
        match (&target.tls, stream) {
            (Some(host), Stream::Plain(tcp)) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| Failure::Tls)?;
                let tls = self.tls.connect(name, tcp).await.map_err(|_| Failure::Tls)?;
                let resumed = tls.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
                Ok(Connection { stream: Stream::Tls(Box::new(tls)), used: 0, resumed })
            }
            (_, stream) => Ok(Connection { stream, used: 0, resumed: false }),
        }
    }

    async fn connect(&self, address: SocketAddr, number: u64) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        if self.source_ips > 1 {
            // Ports of one address would run out: each is kept for a minute after its connection.
            let last = (number % u64::from(self.source_ips)) as u8 + 1;
            socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))?;
        }
        socket.connect(address).await
    }
}

impl Connection {
    pub async fn exchange(&mut self, target: &Target, response: &mut Response) -> Result<(), Failure> {
        response.reset(false);
        self.stream.exchange(&target.request, response).await?;
        self.used += 1;
        Ok(())
    }

    /// Whether the other side has closed it, as far as this side's kernel knows.
    pub fn is_closed(&self) -> bool {
        let tcp = match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        };
        match SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]) {
            Ok(length) => length == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

impl Stream {
    async fn exchange(&mut self, request: &[u8], response: &mut Response) -> Result<(), Failure> {
        match self {
            Self::Plain(tcp) => {
                tcp.write_all(request).await.map_err(|_| Failure::Io)?;
                poll_fn(|context| receive(tcp, context, response)).await
            }
            Self::Tls(tls) => {
                tls.write_all(request).await.map_err(|_| Failure::Io)?;
                tls.flush().await.map_err(|_| Failure::Io)?;
                poll_fn(|context| receive(&mut **tls, context, response)).await
            }
        }
    }
}

thread_local! {
    /// Bodies are thrown away, so all connections read into the same place.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 * 1024]);
}

fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    response: &mut Response,
) -> Poll<Result<(), Failure>> {
    SCRATCH.with_borrow_mut(|scratch| {
        loop {
            let mut buffer = ReadBuf::new(scratch);
            if ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)).is_err() {
                return Poll::Ready(Err(Failure::Io));
            }
            let end = match buffer.filled() {
                [] if response.closed() => Ok(true),
                [] => Err(Failure::ClosedEarly),
                bytes => response.feed(bytes).map_err(|_| Failure::Malformed),
            };
            match end {
                Ok(false) => {}
                Ok(true) => return Poll::Ready(Ok(())),
                Err(failure) => return Poll::Ready(Err(failure)),
            }
        }
    })
}
