//! TLS towards origins: one verifier, no way around it. Certificate trouble is told in words.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{Error, Failure};
use crate::origin::{Host, Origin};

/// Where trust in origins' certificates comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// The platform's store; the bundled roots when it has none.
    #[default]
    System,
    /// Mozilla's roots as built in.
    Bundled,
}

/// A root file that cannot be used, by name.
#[derive(Debug, thiserror::Error)]
#[error("tls.extra_roots: {}: {reason}", file.display())]
pub struct RootsError {
    pub file: PathBuf,
    pub reason: String,
}

/// The one client configuration: the provider is named here and nowhere else, so that no stray
/// feature of a dependency can change it.
pub fn connector(roots: Roots, extra: &[PathBuf]) -> Result<TlsConnector, RootsError> {
    let mut store = RootCertStore::empty();
    if roots == Roots::System {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for file in extra {
        add_file(&mut store, file).map_err(|reason| RootsError { file: file.clone(), reason })?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports TLS 1.2 and 1.3")
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn add_file(store: &mut RootCertStore, file: &std::path::Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let mut found = false;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
        found = true;
    }
    if found { Ok(()) } else { Err("no certificate in PEM form in it".into()) }
}

/// The handshake with `origin`, whose name (or address) the certificate must carry.
pub async fn handshake(
    connector: &TlsConnector,
    origin: &Origin,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Error> {
    let name = match origin.host() {
        Host::Name(name) => ServerName::try_from(name.to_string())
            .map_err(|_| Error::new(Failure::TlsProtocol, format!("{name} cannot be a TLS server name")))?,
        Host::V4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
        Host::V6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
    };
    connector.connect(name, stream).await.map_err(|error| handshake_error(origin, &error))
}

fn handshake_error(origin: &Origin, error: &std::io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            let detail =
                format!("the certificate of {origin} is not accepted: {}", certificate_words(reason));
            Error::new(Failure::TlsCertificate, detail)
        }
        Some(other) => {
            Error::new(Failure::TlsProtocol, format!("the TLS handshake with {origin} failed: {other}"))
        }
        None => Error::new(
            Failure::ConnectionTerminated,
            format!("the connection to {origin} ended during the TLS handshake: {error}"),
        ),
    }
}

fn certificate_words(reason: &CertificateError) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".into()
        }
        CertificateError::UnknownIssuer => "its issuer is unknown".into(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".into()
        }
        other => format!("{other:?}"),
    }
}
