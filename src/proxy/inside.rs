//! What clients speak inside a CONNECT that is intercepted, and how their handshakes fail: a crawler
//! that does not trust the CA shows here first, and nowhere else.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustls::AlertDescription;

use super::connect::sniff::Protocol;
use super::distrust::Distrust;

/// Shared by all workers.
#[derive(Debug, Default)]
pub struct Inside {
    speeches: [AtomicU64; SPEECHES.len()],
    failures: [AtomicU64; ALERTS.len()],
    unused: AtomicU64,
    pub(super) distrust: Distrust,
}

const SPEECHES: [&str; 3] = ["tls", "http", "other"];

/// The alerts (RFC 8446 §6.2) by which clients say what they think of our certificate; another; and
/// none: the client left without a word, or said nothing any more.
const ALERTS: [&str; 7] = [
    "unknown_ca",
    "certificate_unknown",
    "bad_certificate",
    "certificate_expired",
    "close_notify",
    "other",
    "none",
];

impl Inside {
    pub(super) fn spoke(&self, speech: Protocol) {
        let place = match speech {
            Protocol::Tls => 0,
            Protocol::Http => 1,
            Protocol::Other => 2,
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
            Some(AlertDescription::CloseNotify) => 4,
            Some(_) => 5,
            None => 6,
        };
        self.failures[place].fetch_add(1, Ordering::Relaxed);
    }

    /// A client has ended its connection after the handshake, without a request.
    pub(super) fn left_unused(&self) {
        self.unused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have.
    pub fn unused(&self) -> u64 {
        self.unused.load(Ordering::Relaxed)
    }

    /// How many clients and hosts have been named because the client does not seem to trust the certificate.
    pub fn distrusting(&self) -> u64 {
        self.distrust.named()
    }

    /// Names the clients that have left without a request, and have made none since for a while.
    pub fn name_distrusting(&self, now: Instant, under_run: bool) {
        self.distrust.due(now).iter().for_each(|it| it.say(under_run));
    }

    /// The same when all connections have ended: what has not come does not come any more.
    pub fn name_rest(&self, under_run: bool) {
        self.distrust.rest().iter().for_each(|it| it.say(under_run));
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
