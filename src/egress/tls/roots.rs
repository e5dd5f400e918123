//! The trusted certificate authorities: the platform's or the bundled ones, and the operator's.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::runtime::files;
use crate::runtime::limits::NAMED_FILE_BYTES_MAX;
use crate::types::words::words;

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
