//! A parsed certificate: subject, validity, fingerprint.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use time::UtcDateTime;
use time::macros::format_description;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::types::timestamp::Timestamp;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The certificate of a CA. Public: contains nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    subject: String,
    not_before: Timestamp,
    not_after: Timestamp,
    is_self_issued: bool,
}

impl Certificate {
    pub(super) fn parse(der: CertificateDer<'static>) -> Result<Self, String> {
        let x509 = x509(&der)?;
        let moment =
            |seconds: i64| Timestamp::from_millis(u64::try_from(seconds).unwrap_or(0) * 1000);
        Ok(Self {
            subject: x509.subject().to_string(),
            not_before: moment(x509.validity().not_before.timestamp()),
            not_after: moment(x509.validity().not_after.timestamp()),
            is_self_issued: x509.issuer().as_raw() == x509.subject().as_raw(),
            der,
        })
    }

    /// The certificate in DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The subject in text form: `CN=courtesy CA 2026-11-20 a1b2c3`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The first moment at which it is valid (RFC 5280 §4.1.2.5).
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// The last moment at which it is valid (RFC 5280 §4.1.2.5).
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether it has expired at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.not_after
    }

    /// Why it is not valid at this time; `None` if it is. Clients would refuse what it signs (RFC
    /// 5280 §6.1.3).
    pub fn invalidity(&self, now: Timestamp) -> Option<String> {
        let said = |what: &str, date| {
            Some(format!("the CA \"{}\" {what} {}", self.subject, print_date(date)))
        };
        if self.is_expired(now) {
            said("expired on", self.not_after)
        } else if now < self.not_before {
            said("is not valid before", self.not_before)
        } else {
            None
        }
    }

    /// Full days until it expires; zero on the last day and later.
    pub fn days_left(&self, now: Timestamp) -> u64 {
        now.until(self.not_after).as_secs() * 1000 / DAY_MILLIS
    }

    /// SHA-256 of the whole certificate, as other tools print it: `AB:CD:…`.
    pub fn fingerprint(&self) -> String {
        let pairs: Vec<_> =
            Sha256::digest(&self.der).iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The certificate in PEM (RFC 7468).
    pub fn pem(&self) -> String {
        pem(&self.der)
    }

    /// Whether it is self-issued, as a root is.
    pub(super) const fn is_self_issued(&self) -> bool {
        self.is_self_issued
    }

    /// RFC 5280 §4.2.1.9 and §4.2.1.3: the requirements of a client for an issuer.
    pub(super) fn check_may_sign(&self) -> Result<(), String> {
        let x509 = self.x509();
        let key_usage = x509.key_usage().map_err(|error| error.to_string())?;
        if !x509.is_ca() {
            Err("it is not the certificate of a CA: CA:TRUE is missing".into())
        } else if key_usage.is_some_and(|usage| !usage.value.key_cert_sign()) {
            Err("its key may not sign certificates: keyCertSign is missing".into())
        } else {
            Ok(())
        }
    }

    pub(super) fn x509(&self) -> X509Certificate<'_> {
        x509(&self.der).expect("it was parsed before")
    }
}

/// Formats any certificate as text.
pub fn pem(der: &[u8]) -> String {
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
    }
    pem + "-----END CERTIFICATE-----\n"
}

fn x509(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok((&[], x509)) => Ok(x509),
        Ok(_) => Err("there is something behind the certificate".into()),
        Err(error) => Err(format!("not a certificate: {error}")),
    }
}

/// The day of a timestamp in UTC: `2026-11-20`.
pub fn print_date(moment: Timestamp) -> String {
    let seconds = i64::try_from(moment.millis() / 1000).unwrap_or(i64::MAX);
    let date = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    date.format(format_description!("[year]-[month]-[day]")).expect("a date has these parts")
}

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
