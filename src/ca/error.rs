//! Errors of the CA and of leaf certificates. Each names the file and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The remedy for an expired CA.
pub const CA_REMEDY: &str =
    "`courtesy ca rotate` makes another, and one of your own is replaced in its files";

/// Why a CA cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{}: the key of the CA is accessible to others than its owner; run: chmod 600 {}", file.display(), file.display())]
    Exposed { file: PathBuf },
    #[error("{}: {reason}", file.display())]
    Unusable { file: PathBuf, reason: String },
    #[error("{} and {} do not belong together: the certificate has another key", certificate.display(), key.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("{}: this CA is the operator's own, which courtesy does not change; replace its files and reload", file.display())]
    NotOurs { file: PathBuf },
    #[error("the CA cannot sign: {0}")]
    Certificate(#[from] CertificateError),
}

/// Why a certificate could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The CA is expired or not valid yet, as the text says.
    #[error("{0}; {CA_REMEDY}")]
    Invalid(String),
    #[error("the certificate cannot be issued: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("the certificate cannot be served: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the system provides no random numbers")]
    Random,
    #[error("issuing the certificate was cancelled")]
    Aborted,
}

impl CaError {
    pub(super) fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { file: file.to_owned(), source }
    }

    pub(super) fn unusable(file: &Path, reason: impl ToString) -> Self {
        Self::Unusable { file: file.to_owned(), reason: reason.to_string() }
    }
}
