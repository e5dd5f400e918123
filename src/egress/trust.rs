//! Whose certificates are trusted: the platform's or the bundled authorities, and the operator's.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::files;
use crate::limits::NAMED_FILE_OCTETS_MAX;

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

impl Roots {
    /// These roots and those in the files `extra`.
    pub(super) fn with(self, extra: &[PathBuf]) -> Result<RootCertStore, RootsError> {
        let mut store = RootCertStore::empty();
        if self == Self::System {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if store.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        for file in extra {
            add_file(&mut store, file).map_err(|reason| RootsError { file: file.clone(), reason })?;
        }
        Ok(store)
    }
}

fn add_file(store: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let pem = files::read(file, NAMED_FILE_OCTETS_MAX).map_err(|error| error.to_string())?;
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
        found = true;
    }
    if found { Ok(()) } else { Err("no certificate in PEM form in it".into()) }
}
