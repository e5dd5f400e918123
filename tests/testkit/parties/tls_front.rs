//! TLS before an origin, with whatever certificate a test wants.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Origin;

/// Terminates TLS and passes the bytes on to an origin. It stops when dropped.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    directory: TempDir,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// How the front ends a connection when the origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Told,
    /// Without close_notify, as whoever cuts the wire would.
    Cut,
}

impl TlsFront {
    /// With a certificate for `localhost` that is valid.
    pub fn before(origin: &Origin) -> Self {
        Self::with(origin, &params("localhost"), End::Told)
    }

    pub fn with(origin: &Origin, params: &CertificateParams, end: End) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = TempDir::new().expect("a directory");
        std::fs::write(directory.path().join("root.pem"), certificate.pem()).expect("a file");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports them")
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate.der().to_vec())],
                PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
            )
            .expect("a certificate and its key");
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        listener.set_nonblocking(true).expect("an option");
        let stop = CancellationToken::new();
        let (stopped, to) = (stop.clone(), origin.address());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let serving = serve(listener, TlsAcceptor::from(Arc::new(config)), to, end);
                stopped.run_until_cancelled(serving).await;
            });
        });
        Self { address, directory, stop, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    pub fn authority(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// What must be trusted for its certificate to be.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn params(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).expect("a name")
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, to: SocketAddr, end: End) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        // A client that does not like the certificate ends the handshake, and nothing else.
        connections.spawn(async move { pass(stream, &acceptor, to, end).await });
    }
}

async fn pass(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    to: SocketAddr,
    end: End,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(acceptor.accept(stream).await?);
    let (mut from_origin, mut to_origin) = TcpStream::connect(to).await?.into_split();
    let back = async {
        copy(&mut from_origin, &mut to_client).await?;
        match end {
            End::Told => to_client.shutdown().await,
            End::Cut => to_client.flush().await,
        }
    };
    let there = async {
        copy(&mut from_client, &mut to_origin).await?;
        to_origin.shutdown().await
    };
    tokio::select! {
        ended = back => ended,
        Err(error) = there => Err(error),
    }
}
