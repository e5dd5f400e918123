//! How servers are verified, and who we are to them.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::engine::files::{Sha256, digest_of};
use crate::runtime::crypto_provider::provider;
use crate::runtime::limits::NAMED_FILE_BYTES_MAX;
use crate::runtime::secret_file::{self, Found};
use crate::runtime::{clock::SystemClock, files};

/// Why there is no configuration. The message names the setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("engine.ca: {0}")]
    Authorities(String),
    #[error("engine.cert: {0}")]
    Certificate(String),
    #[error("engine.key: {0}")]
    Key(String),
}

/// How servers are verified, and who we are to them, as the files said it.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    pub(super) client: Arc<ClientConfig>,
    /// The digests of the files: of the authorities, the certificate and its key.
    pub digests: [Option<Sha256>; 3],
}

/// Two are equal if they are of the same files.
impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        self.digests == other.digests
    }
}

/// Trusts the authorities in the file `ca`, or those of the system. With a certificate and its key,
/// in PEM, this client is known by it.
pub fn tls_config(
    ca: Option<&Path>,
    client: Option<(&Path, &Path)>,
) -> Result<TlsConfig, TlsConfigError> {
    let mut digests = [None; 3];
    let [ca_digest, certificate_digest, key_digest] = &mut digests;
    let config = ClientConfig::builder_with_details(Arc::new(provider()), Arc::new(SystemClock))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsConfigError::Authorities(error.to_string()))?
        .with_root_certificates(authorities(ca, ca_digest)?);
    let config = match client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(
                certificates(certificate, certificate_digest)?,
                private_key(key, key_digest)?,
            )
            .map_err(|error| TlsConfigError::Certificate(error.to_string()))?,
    };
    Ok(TlsConfig { client: Arc::new(config), digests })
}

fn authorities(
    ca: Option<&Path>,
    digest: &mut Option<Sha256>,
) -> Result<RootCertStore, TlsConfigError> {
    let fault = |reason: String| TlsConfigError::Authorities(reason);
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            for certificate in read_certificates(file, digest).map_err(fault)? {
                roots.add(certificate).map_err(|error| fault(error.to_string()))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(fault("no certificate of an authority".to_owned()));
    }
    Ok(roots)
}

fn certificates(
    file: &Path,
    digest: &mut Option<Sha256>,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    read_certificates(file, digest).map_err(TlsConfigError::Certificate)
}

fn read_certificates(
    file: &Path,
    digest: &mut Option<Sha256>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = files::read(file, NAMED_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    *digest = Some(digest_of(&pem));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("no certificate in PEM form in it".to_owned());
    }
    Ok(certificates)
}

fn private_key(
    file: &Path,
    digest: &mut Option<Sha256>,
) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    let fault = |reason: String| TlsConfigError::Key(reason);
    match secret_file::read_of_group(file).map_err(|error| fault(error.to_string()))? {
        Found::Exposed => Err(fault(
            "others can read it: its mode must be 0600, or 0640 for its group".to_owned(),
        )),
        Found::Content(pem) => {
            *digest = Some(digest_of(&pem));
            PrivateKeyDer::from_pem_slice(&pem).map_err(|error| fault(error.to_string()))
        }
    }
}
