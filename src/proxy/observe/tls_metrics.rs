//! Counts of the protocols that clients speak inside an intercepted CONNECT, and of failed TLS
//! handshakes: only these show a crawler that does not trust the CA.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustls::AlertDescription;

use super::distrust::Distrust;
use crate::proxy::connect::sniff::Protocol;

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct TlsMetrics {
    protocols: [AtomicU64; PROTOCOLS.len()],
    failures: [AtomicU64; ALERTS.len()],
    unused: AtomicU64,
    pub distrust: Distrust,
}

const PROTOCOLS: [&str; 3] = ["tls", "http", "other"];

/// The alerts (RFC 8446 §6.2) by which clients reject a certificate; any other alert; and none: the
/// client closed the connection or timed out.
const ALERTS: [&str; 7] = [
    "unknown_ca",
    "certificate_unknown",
    "bad_certificate",
    "certificate_expired",
    "close_notify",
    "other",
    "none",
];

impl TlsMetrics {
    /// Counts the protocol of one CONNECT.
    pub fn count_protocol(&self, protocol: Protocol) {
        let place = match protocol {
            Protocol::Tls => 0,
            Protocol::Http => 1,
            Protocol::Other => 2,
        };
        self.protocols[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed handshake; `None`: it timed out.
    pub fn count_failure(&self, error: Option<&io::Error>) {
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

    /// Counts a connection that the client closed after the handshake, without a request.
    pub fn count_unused(&self) {
        self.unused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were closed after the handshake, without a request.
    pub fn unused(&self) -> u64 {
        self.unused.load(Ordering::Relaxed)
    }

    /// How many clients and hosts were logged because the client does not seem to trust the
    /// certificate.
    pub fn distrusting(&self) -> u64 {
        self.distrust.named()
    }

    /// Logs the clients that closed a connection without a request and have made none since.
    pub fn log_distrusting(&self, now: Instant, under_run: bool) {
        self.distrust.take_due(now).iter().for_each(|it| it.log(under_run));
    }

    /// The same when all connections have ended, so that no more requests come.
    pub fn log_rest(&self, under_run: bool) {
        self.distrust.take_rest().iter().for_each(|it| it.log(under_run));
    }

    /// How many CONNECTs had which protocol inside.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PROTOCOLS.into_iter().zip(self.protocols.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How many handshakes failed, by the alert.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ALERTS.into_iter().zip(self.failures.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The alert that a client has sent, if `error` is one.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}
