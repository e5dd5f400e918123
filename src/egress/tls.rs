//! TLS towards origins: the client configurations, and the handshake that chooses the version of
//! HTTP. Certificates are verified; only for a host that the operator listed are they not.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::warn;

use super::error::{Error, Failure};
use super::tls_words::handshake_error;
use super::trust::{Roots, RootsError};
use super::verify::{NoCertificate, Unverified, Verifier};
use crate::runtime::clock::SystemClock;
use crate::runtime::crypto_provider::provider;
use crate::types::origin::{Host, Origin};

/// TLS sessions remembered for resumption, over all origins (RFC 8446 §2.2).
const TLS_SESSIONS_MAX: usize = 1024;

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The versions of HTTP that a request may go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Whichever the origin prefers.
    Any,
    /// An upgrade is asked for, or the origin wants it so.
    Http1,
}

/// How TLS is spoken to origins.
pub struct Tls {
    verified: Connectors,
    unverified: Connectors,
    roots: Arc<RootCertStore>,
    insecure: HashSet<Host>,
    /// Hosts of `insecure` of which the log has not yet told.
    untold: Mutex<HashSet<Host>>,
}

struct Connectors {
    any: TlsConnector,
    http1: TlsConnector,
}

/// A connection that has been secured, its TLS on the heap: it would be moved with each change of hands.
pub struct Secured {
    pub stream: Box<TlsStream<TcpStream>>,
    pub http2: bool,
    /// Whether the origin asked for a client certificate. It may do without, or say only later that
    /// it does not (RFC 8446 §4.4.2.4).
    pub asked: bool,
}

/// The client configurations.
///
/// # Errors
///
/// Each file that cannot be used.
pub fn connector(roots: Roots, extra: &[PathBuf]) -> Result<Tls, Vec<RootsError>> {
    let provider = Arc::new(provider());
    let roots = Arc::new(roots.with(extra)?);
    let webpki =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .expect("there are roots, and no revocation lists that could be wrong");
    let unverified = Unverified(provider.signature_verification_algorithms);
    Ok(Tls {
        verified: Connectors::new(&provider, Arc::new(Verifier(webpki))),
        unverified: Connectors::new(&provider, Arc::new(unverified)),
        roots,
        insecure: HashSet::new(),
        untold: Mutex::default(),
    })
}

impl Connectors {
    fn new(provider: &Arc<CryptoProvider>, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        let mut config =
            ClientConfig::builder_with_details(Arc::clone(provider), Arc::new(SystemClock))
                .with_safe_default_protocol_versions()
                .expect("the provider supports TLS 1.2 and 1.3")
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_client_cert_resolver(Arc::new(NoCertificate));
        // Sessions are kept by server name, and each verifier has its own: none is resumed for
        // another host, nor one that was not verified where one must be.
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        Self { any: TlsConnector::from(Arc::new(config)), http1 }
    }
}

impl Tls {
    /// Certificates of `hosts` are not verified.
    #[must_use]
    pub fn without_verification_for(mut self, hosts: &[Host]) -> Self {
        self.insecure = hosts.iter().cloned().collect();
        self.untold = Mutex::new(self.insecure.clone());
        self
    }

    /// Whether `host`, verified as `before` has it, need not be verified again.
    pub(super) fn trusts_as(&self, before: &Self, host: &Host) -> bool {
        let was_verified = !before.insecure.contains(host);
        self.insecure.contains(host) || was_verified && self.roots.roots == before.roots.roots
    }

    fn connector(&self, host: &Host, versions: Versions) -> &TlsConnector {
        let connectors = if self.insecure.contains(host) {
            self.tell_once(host);
            &self.unverified
        } else {
            &self.verified
        };
        match versions {
            Versions::Any => &connectors.any,
            Versions::Http1 => &connectors.http1,
        }
    }

    fn tell_once(&self, host: &Host) {
        if self.untold.lock().unwrap_or_else(PoisonError::into_inner).remove(host) {
            warn!(%host, "the certificate of this host is not verified (tls.insecure_origins)");
        }
    }

    /// The handshake with `origin`, whose name (or address) the certificate must carry.
    pub async fn handshake(
        &self,
        origin: &Origin,
        stream: TcpStream,
        versions: Versions,
    ) -> Result<Secured, Error> {
        let name = server_name(origin.host())?;
        let connect = self.connector(origin.host(), versions).connect(name, stream);
        let (connected, asked) = NoCertificate::noting(connect).await;
        let stream = Box::new(connected.map_err(|error| handshake_error(origin, &error, asked))?);
        let http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok(Secured { stream, http2, asked })
    }
}

/// An address is checked against the certificate and never sent as a name (RFC 6066 §3).
fn server_name(host: &Host) -> Result<ServerName<'static>, Error> {
    match host {
        Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| {
            Error::new(Failure::TlsProtocol, format!("{name} cannot be a TLS server name"))
        }),
        Host::V4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
        Host::V6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
    }
}
