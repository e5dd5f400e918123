//! Explains TLS errors: what failed, and what to do about it.

use rustls::{AlertDescription, CertificateError, Error as Tls};

use super::verifier::Finding;
use crate::egress::error::{Error, Failure};
use crate::types::HOST_BYTES_MAX;
use crate::types::origin::Origin;

/// The error of a handshake in which the origin requested a client certificate, or not.
pub fn handshake_error(
    origin: &Origin,
    error: &std::io::Error,
    certificate_requested: bool,
) -> Error {
    match tls_error(error) {
        Some(Tls::InvalidCertificate(reason)) => {
            let detail = format!(
                "the certificate of {origin} is not accepted: {}",
                describe_certificate(reason)
            );
            Error::new(Failure::TlsCertificate, detail)
        }
        // Whatever alert an origin sends when it was shown no certificate, this is the cause.
        Some(Tls::AlertReceived(_)) | None if certificate_requested => client_certificate(origin),
        Some(Tls::AlertReceived(alert)) => alert_received(origin, *alert),
        Some(Tls::InvalidMessage(_)) => {
            let detail =
                format!("{origin} does not speak TLS, or not in a way that is understood: {error}");
            Error::new(Failure::TlsProtocol, detail)
        }
        Some(other) => Error::new(
            Failure::TlsProtocol,
            format!("the TLS handshake with {origin} failed: {other}"),
        ),
        None => Error::new(
            Failure::ConnectionTerminated,
            format!("the connection to {origin} ended during the TLS handshake: {error}"),
        ),
    }
}

/// The error of rustls, if it was the cause.
pub fn tls_error(error: &std::io::Error) -> Option<&Tls> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// The error for an origin that requires a client certificate, which a proxy cannot relay.
pub fn client_certificate(origin: &Origin) -> Error {
    let detail = format!(
        "{origin} asks for a client certificate, which a proxy cannot relay: list the host in https.tunnel, \
         and the client shows its own"
    );
    Error::new(Failure::TlsProtocol, detail)
}

/// The error for an alert with which the origin ended the connection.
pub fn alert_received(origin: &Origin, alert: AlertDescription) -> Error {
    if alert == AlertDescription::CertificateRequired {
        return client_certificate(origin);
    }
    let meaning = match alert {
        AlertDescription::HandshakeFailure => {
            ": it shares no cipher suite or key exchange with us, as one that has CBC, RSA key exchange \
             or P-521 only"
        }
        AlertDescription::ProtocolVersion => ": it speaks neither TLS 1.2 nor TLS 1.3",
        AlertDescription::UnrecognisedName => ": it does not know the name it was asked for",
        AlertDescription::NoApplicationProtocol => ": it offers neither HTTP/2 nor HTTP/1.1",
        _ => "",
    };
    let detail = format!("{origin} refused TLS with the alert {}{meaning}", alert_name(alert));
    Error::new(Failure::TlsProtocol, detail)
}

/// The name of an alert as RFC 8446 §6 spells it: what people search for.
fn alert_name(alert: AlertDescription) -> String {
    let mut name = String::new();
    for letter in format!("{alert:?}").chars() {
        if letter.is_ascii_uppercase() && name.ends_with(|before: char| before.is_ascii_lowercase())
        {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// What to do about an authority that is not known.
const TRUST: &str =
    "To trust its authority, name a file with that in tls.extra_roots, or with --extra-root";

fn describe_certificate(reason: &CertificateError) -> String {
    use CertificateError as E;
    match reason {
        E::Expired => "it has expired".into(),
        E::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / SECONDS_OF_A_DAY;
            format!("it has expired, {days} days ago")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet".into(),
        E::UnknownIssuer => format!("its issuer is unknown. {TRUST}"),
        E::NotValidForName => "it is for another name".into(),
        E::NotValidForNameContext { presented, .. } => describe_names(presented),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "it is not made out for servers (extended key usage)".into()
        }
        E::BadSignature => "a signature in it, or made with its key, is wrong".into(),
        E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed by an algorithm that is too weak or unknown".into()
        }
        E::BadEncoding => "it is not well-formed".into(),
        E::UnhandledCriticalExtension => {
            "it has a critical extension that is not understood".into()
        }
        E::Revoked => "it has been revoked".into(),
        E::Other(other) => describe_other(&*other.0),
        other => format!("{other:?}"),
    }
}

const SECONDS_OF_A_DAY: u64 = 24 * 60 * 60;

/// Names of a certificate that a message lists; there may be hundreds.
const NAMES_LISTED: usize = 3;

fn describe_names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "it has no subject alternative name, and a common name does not count (RFC 9110 §4.3.4)"
            .into();
    }
    let listed: Vec<String> = presented.iter().take(NAMES_LISTED).map(|name| plain(name)).collect();
    let listed = listed.join(", ");
    let more = if presented.len() > NAMES_LISTED { ", …" } else { "" };
    format!("it is for another name: {listed}{more}")
}

/// The name in `DnsName("example.com")`, as rustls prints it: with misleading characters escaped.
fn plain(name: &str) -> String {
    let inner =
        name.split_once('(').map_or(name, |(_, inner)| inner.strip_suffix(')').unwrap_or(inner));
    inner.trim_matches('"').chars().take(HOST_BYTES_MAX).collect()
}

fn describe_other(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    use webpki::Error as E;
    if let Some(finding) = error.downcast_ref::<Finding>() {
        return match finding {
            Finding::SelfSigned | Finding::ChainBroken => format!("{finding}. {TRUST}"),
            Finding::WeakKey => finding.to_string(),
        };
    }
    match error.downcast_ref::<E>() {
        Some(E::CaUsedAsEndEntity) => {
            "it is a certificate authority's, which cannot stand for a site".into()
        }
        Some(E::EndEntityUsedAsCa) => {
            "it was issued by a certificate that is no authority's".into()
        }
        Some(E::PathLenConstraintViolated) => {
            "its chain is longer than its authority permits".into()
        }
        Some(E::NameConstraintViolation) => "its issuer may not issue for this name".into(),
        Some(
            E::MaximumPathDepthExceeded
            | E::MaximumPathBuildCallsExceeded
            | E::MaximumSignatureChecksExceeded,
        ) => "its chain is too long to be checked".into(),
        _ => error.to_string(),
    }
}
