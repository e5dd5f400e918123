//! TLS between clients and the proxy itself, for a proxy that is named by `https://`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::runtime::clock::SystemClock;
use crate::runtime::files::{self, Found};
use crate::runtime::{NAMED_FILE_BYTES_MAX, crypto_provider};

/// Whether TLS is served on the proxy's port, beside what is in clear, and by which certificate.
#[derive(Clone, Debug, Default)]
pub enum ListenerTls {
    #[default]
    Off,
    /// The operator's own, with its chain.
    Own(Arc<ServerConfig>, Arc<[CertificateDer<'static>]>),
    /// A leaf of the local CA, for the name that the client asks for.
    Leaf,
}

/// Why the operator's certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenerTlsError {
    #[error("{} (listen.tls_cert): {reason}", file.display())]
    Certificate { file: PathBuf, reason: String },
    #[error("{} (listen.tls_key): {reason}", file.display())]
    Key { file: PathBuf, reason: String },
}

impl ListenerTls {
    /// Reads the operator's certificate, with its chain, and its key, both PEM.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or does not fit, or a key that others can read.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ListenerTlsError> {
        let fault = |reason: String| {
            let file = certificate.to_owned();
            ListenerTlsError::Certificate { file, reason }
        };
        let pem = files::read(certificate, NAMED_FILE_BYTES_MAX);
        let pem = pem.map_err(|error| fault(error.to_string()))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| fault(error.to_string()))?;
        let provider = Arc::new(crypto_provider());
        let builder = ServerConfig::builder_with_details(provider, Arc::new(SystemClock))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(error.to_string()))?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(chain.clone(), private_key(key)?)
            .map_err(|error| fault(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self::Own(Arc::new(config), chain.into()))
    }

    /// Whether clients see the same certificate as from `other`.
    pub fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(_, one), Self::Own(_, other)) => one == other,
            (Self::Off, Self::Off) | (Self::Leaf, Self::Leaf) => true,
            _ => false,
        }
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, ListenerTlsError> {
    let fault = |reason: String| ListenerTlsError::Key { file: file.to_owned(), reason };
    match files::read_secret(file).map_err(|error| fault(error.to_string()))? {
        Found::Exposed => Err(fault("others can read it: its mode must be 0600".to_owned())),
        Found::Content(pem) => {
            PrivateKeyDer::from_pem_slice(&pem).map_err(|error| fault(error.to_string()))
        }
    }
}
