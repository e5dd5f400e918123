//! TLS for origins and clients: a certificate authority for origins that lives as long as the test
//! process, and streams that look like any other to those who speak HTTP on them.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, ConnectionCommon, RootCertStore,
    ServerConfig, ServerConnection, SideData, StreamOwned, SupportedProtocolVersion,
};

use super::NOW;
use super::wire::Stream;

/// What an origin's certificate is for, besides 127.0.0.1 and [`OF_DOCUMENTATION`].
pub const NAMES: [&str; 4] = ["localhost", "a.localhost", "b.localhost", "c.localhost"];

/// The name of the site in the pages of the book (RFC 2606 §3), which no resolver here knows.
const OF_DOCUMENTATION: &str = "example.com";

/// Who vouches for every origin of this process, and what they all show.
struct Origins {
    ca: String,
    config: Arc<ServerConfig>,
}

static ORIGINS: LazyLock<Origins> = LazyLock::new(|| {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::from_params(&params, key);
    let key = KeyPair::generate().expect("a key");
    let names = NAMES.iter().chain([&OF_DOCUMENTATION]).map(|name| (*name).to_owned());
    let mut params = CertificateParams::new(names.collect::<Vec<_>>()).expect("names");
    params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate with its key");
    Origins { ca, config: Arc::new(config) }
});

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The CA of all origins, PEM.
pub fn origins_ca() -> &'static str {
    &ORIGINS.ca
}

pub fn origin_config() -> Arc<ServerConfig> {
    Arc::clone(&ORIGINS.config)
}

/// The host of an authority.
pub fn host(authority: &str) -> &str {
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// A client that trusts these certificates, at the time of the test, and remembers no session.
pub fn trusting(pem: &str, alpn: &[&str]) -> Arc<ClientConfig> {
    trusting_at(rustls::DEFAULT_VERSIONS, pem, alpn)
}

/// The same, for these versions of TLS only.
pub fn trusting_at(
    versions: &[&'static SupportedProtocolVersion],
    pem: &str,
    alpn: &[&str],
) -> Arc<ClientConfig> {
    client(Arc::new(TestTime), versions, pem, alpn)
}

/// The same, today: for a proxy that is a process of its own.
#[allow(dead_code, reason = "there is none in tests/it")]
pub fn trusting_today(pem: &str, alpn: &[&str]) -> Arc<ClientConfig> {
    client(Arc::new(DefaultTimeProvider), rustls::DEFAULT_VERSIONS, pem, alpn)
}

fn client(
    time: Arc<dyn TimeProvider>,
    versions: &[&'static SupportedProtocolVersion],
    pem: &str,
    alpn: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let mut config = ClientConfig::builder_with_details(provider(), time)
        .with_protocol_versions(versions)
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The client's clock shows what the proxy's does when a test begins.
#[derive(Debug)]
struct TestTime;

impl TimeProvider for TestTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(NOW.millis())))
    }
}

pub fn server_name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).expect("a name or an address")
}

/// A client's handshake, before its end.
#[derive(Debug)]
pub struct Handshake(ClientConnection);

impl Handshake {
    pub fn new(config: Arc<ClientConfig>, name: &str) -> Self {
        Self(ClientConnection::new(config, server_name(name)).expect("a sound configuration"))
    }

    /// The first flight.
    pub fn hello(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.write_tls(&mut bytes).expect("a vector takes everything");
        bytes
    }

    /// Goes on over `stream`, of which these bytes have been read already.
    pub fn finish(mut self, read: Vec<u8>, mut stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        let mut read = read.as_slice();
        while !read.is_empty() {
            self.0.read_tls(&mut read)?;
            self.0.process_new_packets().map_err(io::Error::other)?;
        }
        while self.0.is_handshaking() {
            self.0.complete_io(&mut stream)?;
        }
        Ok(Box::new(Secured(StreamOwned::new(self.0, stream))))
    }
}

/// The alert that the other side ended a handshake with.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// The origin's side; the handshake comes with the first bytes.
pub fn accept(config: &Arc<ServerConfig>, stream: TcpStream) -> Box<dyn Stream> {
    let connection = ServerConnection::new(Arc::clone(config)).expect("a sound configuration");
    Box::new(Secured(StreamOwned::new(connection, stream)))
}

/// TLS on a connection. The library's own stream reads while it cannot write, and never tells that
/// a write has stalled.
#[derive(Debug)]
struct Secured<C>(StreamOwned<C, TcpStream>)
where
    C: Debug;

impl<C, S> Secured<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Debug,
    S: SideData,
{
    fn write_pending(&mut self) -> io::Result<()> {
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut self.0.sock)?;
        }
        Ok(())
    }
}

impl<C, S> Read for Secured<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Debug,
    S: SideData,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<C, S> Write for Secured<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Debug,
    S: SideData,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_pending()?;
        self.0.conn.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_pending()
    }
}

impl<C, S> Stream for Secured<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Debug + Send,
    S: SideData,
{
    fn tcp(&self) -> &TcpStream {
        &self.0.sock
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        if self.0.sock.has_ended()? {
            return Ok(true);
        }
        // What is there may be the end of TLS. The library takes no more than it can hold.
        let _ = self.0.conn.read_tls(&mut self.0.sock);
        let state = self.0.conn.process_new_packets().map_err(io::Error::other)?;
        Ok(state.peer_has_closed())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        self.write_pending()
    }
}
