//! What clients speak inside a CONNECT that is intercepted, and how their handshakes fail: a crawler
//! that does not trust the CA shows here first, and nowhere else.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::AlertDescription;

use super::intercept::Speech;

/// Shared by all workers.
#[derive(Debug, Default)]
pub struct Inside {
    speeches: [AtomicU64; SPEECHES.len()],
    failures: [AtomicU64; ALERTS.len()],
}

const SPEECHES: [&str; 3] = ["tls", "http", "other"];

/// The alerts (RFC 8446 §6.2) by which clients say what they think of our certificate; another; and
/// none: the client left without a word, or said nothing any more.
const ALERTS: [&str; 6] =
    ["unknown_ca", "certificate_unknown", "bad_certificate", "certificate_expired", "other", "none"];

impl Inside {
    pub(super) fn spoke(&self, speech: Speech) {
        let place = match speech {
            Speech::Tls => 0,
            Speech::Http => 1,
            Speech::Other => 2,
        };
        self.speeches[place].fetch_add(1, Ordering::Relaxed);
    }

    /// A handshake has come to nothing; `error` where there is one.
    pub(super) fn failed(&self, error: Option<&io::Error>) {
        let place = match error.and_then(alert) {
            Some(AlertDescription::UnknownCA) => 0,
            Some(AlertDescription::CertificateUnknown) => 1,
            Some(AlertDescription::BadCertificate) => 2,
            Some(AlertDescription::CertificateExpired) => 3,
            Some(_) => 4,
            None => 5,
        };
        self.failures[place].fetch_add(1, Ordering::Relaxed);
    }

    /// How many spoke what, by its word.
    pub fn speeches(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SPEECHES.into_iter().zip(self.speeches.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How many handshakes came to nothing, by the alert.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ALERTS.into_iter().zip(self.failures.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The alert that a client has sent.
pub(super) fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}
