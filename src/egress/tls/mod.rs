//! TLS to origins: the client configurations, and the handshake, which chooses the version of HTTP.
//! Certificates are verified, except for hosts that the operator listed.

mod error;
mod stream;
mod verifier;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::UPGRADE;
use http::request;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::warn;

use super::error::{Error, Failure};
use super::origin_socket::OriginSocket;
use crate::runtime::clock::SystemClock;
use crate::runtime::lock::Lock;
use crate::runtime::{NAMED_FILE_BYTES_MAX, crypto_provider, files};
use crate::types::origin::{Host, Origin};
use crate::types::words::words;
use error::handshake_error;
pub use error::{alert_received, client_certificate, tls_error};
pub use stream::{PlaintextStream, PollReadable};
use verifier::{NoCertificate, Unverified, Verifier};

/// TLS sessions remembered for resumption, over all origins (RFC 8446 §2.2).
const TLS_SESSIONS_MAX: usize = 1024;

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The versions of HTTP that a request may be sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The one that the origin prefers.
    Any,
    /// The request asks for an upgrade, or the origin requires HTTP/1.1.
    Http1,
}

impl Versions {
    /// HTTP/2 has no upgrades (RFC 9113 §8.6).
    pub fn for_request(head: &request::Parts) -> Self {
        if head.headers.contains_key(UPGRADE) { Self::Http1 } else { Self::Any }
    }
}

/// The TLS configuration for origins.
pub struct Tls {
    verified: Connectors,
    unverified: Connectors,
    roots: Arc<RootCertStore>,
    insecure: HashSet<Host>,
    /// Hosts of `insecure` that have not been logged yet.
    unlogged: Lock<HashSet<Host>>,
}

struct Connectors {
    any: TlsConnector,
    http1: TlsConnector,
}

/// A connection after the handshake. Its TLS state is boxed, because the stream is moved often.
pub struct TlsConnection {
    pub stream: Box<TlsStream<OriginSocket>>,
    pub is_http2: bool,
    /// Whether the origin asked for a client certificate. It may do without one, or refuse only
    /// later to do without (RFC 8446 §4.4.2.4).
    pub certificate_requested: bool,
}

/// The TLS configuration that trusts `roots` and the certificates in the files `extra`.
///
/// # Errors
///
/// One error for each file that cannot be used.
pub fn connector(roots: Roots, extra: &[PathBuf]) -> Result<Tls, Vec<RootsError>> {
    let provider = Arc::new(crypto_provider());
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
        unlogged: Lock::default(),
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
        // Sessions are cached by server name, and separately for each verifier: none is resumed for
        // another host, and no unverified one where verification is required.
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        Self { any: TlsConnector::from(Arc::new(config)), http1 }
    }
}

impl Tls {
    /// Turns off the verification of certificates for `hosts`.
    #[must_use]
    pub fn without_verification_for(mut self, hosts: &[Host]) -> Self {
        self.insecure = hosts.iter().cloned().collect();
        self.unlogged = Lock::new(self.insecure.clone());
        self
    }

    /// Whether a certificate of `host` that was accepted under `before` is accepted here, too.
    pub(super) fn trusts_as(&self, before: &Self, host: &Host) -> bool {
        let was_verified = !before.insecure.contains(host);
        self.insecure.contains(host) || was_verified && self.has_roots_of(before)
    }

    /// Whether the roots are those of `before`.
    pub(super) fn has_roots_of(&self, before: &Self) -> bool {
        self.roots.roots == before.roots.roots
    }

    fn connector(&self, host: &Host, versions: Versions) -> &TlsConnector {
        let connectors = if self.insecure.contains(host) {
            self.log_once(host);
            &self.unverified
        } else {
            &self.verified
        };
        match versions {
            Versions::Any => &connectors.any,
            Versions::Http1 => &connectors.http1,
        }
    }

    fn log_once(&self, host: &Host) {
        if self.unlogged.lock().remove(host) {
            warn!(%host, "the certificate of this host is not verified (tls.insecure_origins)");
        }
    }

    /// The handshake with `origin`; the certificate must be for its name or address.
    ///
    /// # Errors
    ///
    /// [`Failure::TlsCertificate`], [`Failure::TlsProtocol`] or [`Failure::ConnectionTerminated`].
    pub async fn handshake(
        &self,
        origin: &Origin,
        stream: OriginSocket,
        versions: Versions,
    ) -> Result<TlsConnection, Error> {
        let name = server_name(origin.host())?;
        let connect = self.connector(origin.host(), versions).connect(name, stream);
        let (connected, certificate_requested) = NoCertificate::observe(connect).await;
        let stream = Box::new(
            connected.map_err(|error| handshake_error(origin, &error, certificate_requested))?,
        );
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok(TlsConnection { stream, is_http2, certificate_requested })
    }
}

/// Whether TLS can name `host`. A label of a host name neither begins nor ends with a hyphen (RFC 1123
/// §2.1); names in DNS and in URLs may.
pub fn is_tls_name(host: &Host) -> bool {
    server_name(host).is_ok()
}

/// The name to verify. An address is verified, too, but never sent as a name (RFC 6066 §3).
fn server_name(host: &Host) -> Result<ServerName<'static>, Error> {
    match host {
        Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| {
            let detail = format!(
                "{name} cannot be a name in TLS: a label begins or ends with a hyphen (RFC 1123 §2.1)"
            );
            Error::new(Failure::TlsProtocol, detail)
        }),
        Host::V4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
        Host::V6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
    }
}

words! {
    /// The source of the trusted authorities.
    #[derive(Default)]
    pub enum Roots {
        /// The platform's store; the bundled roots when that is empty.
        #[default]
        System = "system",
        /// Mozilla's roots, built into the program.
        Bundled = "bundled",
    }
}

/// A file of `tls.extra_roots` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("tls.extra_roots: {}: {reason}", file.display())]
pub struct RootsError {
    pub file: PathBuf,
    pub reason: String,
    /// Set when the system refused to read the file.
    pub kind: Option<ErrorKind>,
}

impl Roots {
    /// A store of these roots and of those in the files `extra`.
    pub fn with(self, extra: &[PathBuf]) -> Result<RootCertStore, Vec<RootsError>> {
        let mut store = RootCertStore::empty();
        if self == Self::System {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if store.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let add = |file: &PathBuf| {
            let fault = |(reason, kind)| RootsError { file: file.clone(), reason, kind };
            add_file(&mut store, file).map_err(fault).err()
        };
        let faults: Vec<_> = extra.iter().filter_map(add).collect();
        if faults.is_empty() { Ok(store) } else { Err(faults) }
    }
}

fn add_file(store: &mut RootCertStore, file: &Path) -> Result<(), (String, Option<ErrorKind>)> {
    let pem = files::read(file, NAMED_FILE_BYTES_MAX);
    let pem = pem.map_err(|error| (error.to_string(), Some(error.kind())))?;
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| (error.to_string(), None))?;
        store.add(certificate).map_err(|error| (error.to_string(), None))?;
        found = true;
    }
    if found { Ok(()) } else { Err(("no certificate in PEM form in it".into(), None)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::{Origin, Scheme};

    /// Of the hosts that a URL may have.
    #[test]
    fn tls_cannot_name_a_host_with_a_hyphen_at_the_end_of_a_label() {
        let is_name = |host: &str| {
            is_tls_name(Origin::from_authority(Scheme::Https, host).expect("a host").host())
        };
        let long = format!("{}.example", "a".repeat(63));
        for host in [
            "example.com",
            "a-b.example",
            "a--b.example",
            "_dmarc.example",
            "a_b.example",
            "a_.example",
            "1.2.3.example",
            "4711.example",
            "xn--bcher-kva.example",
            "localhost",
            "192.0.2.7",
            "[::1]",
            &long,
        ] {
            assert!(is_name(host), "{host}");
        }
        for host in ["-lead.example", "trail-.example", "a.-b.example", "a.b-.example", "-", "a.-"]
        {
            assert!(!is_name(host), "{host}");
        }
    }
}
