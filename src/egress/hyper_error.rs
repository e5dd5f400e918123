//! What an error of hyper means for a request: a [`Failure`].

use std::error::Error as _;
use std::io;

use super::error::{Error, Failure};
use super::http1::HeadFault;
use super::tls::{alert_received, client_certificate, tls_error};
use crate::types::origin::Origin;

/// An error before the first request, while hyper set up HTTP.
pub fn setup_error(origin: &Origin, error: &hyper::Error) -> Error {
    exchange_error(origin, error, false)
}

/// An error instead of a response. An origin that asked for a client certificate in the handshake
/// and then ends the connection does so because there was none: in TLS 1.3 it can say so only now
/// (RFC 8446 §4.4.2.4).
pub fn exchange_error(origin: &Origin, error: &hyper::Error, certificate_requested: bool) -> Error {
    if let Some(rustls::Error::AlertReceived(alert)) = io_error(error).and_then(tls_error) {
        return if certificate_requested {
            client_certificate(origin)
        } else {
            alert_received(origin, *alert)
        };
    }
    if error.is_user() {
        return request_error(error);
    }
    if let Some(error) =
        io_error(error).filter(|error| error.get_ref().is_some_and(|it| it.is::<HeadFault>()))
    {
        return head_error(error);
    }
    let failure = failure(error);
    if certificate_requested && failure == Failure::ConnectionTerminated {
        return client_certificate(origin);
    }
    let cause = match error.source() {
        Some(source) => format!(": {source}"),
        None if failure == Failure::HeaderTooLarge => " (limits.max_header_bytes)".to_owned(),
        None => String::new(),
    };
    Error::new(failure, format!("no valid response from the origin: {error}{cause}"))
}

/// What a second reading of a head says of it.
pub fn head_error(error: &io::Error) -> Error {
    let fault = error.get_ref().and_then(|fault| fault.downcast_ref::<HeadFault>());
    let failure = match fault {
        Some(fault) if fault.is_too_large => Failure::HeaderTooLarge,
        Some(_) => Failure::Protocol,
        None => Failure::ConnectionTerminated,
    };
    Error::new(failure, format!("no valid response from the origin: {error}"))
}

/// Whether the connection failed, and not only one stream of it.
pub fn ends_connection(error: &hyper::Error) -> bool {
    !http2_error(error).is_some_and(h2::Error::is_reset)
}

/// Whether the origin has ended the stream or the connection, since it gets too much
/// (ENHANCE_YOUR_CALM, RFC 9113 §7).
pub fn asks_for_calm(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(|error| {
        error.is_remote() && error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM)
    })
}

/// The error of HTTP/2 that `error` stands for.
pub fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        return Failure::HeaderTooLarge;
    }
    // An error that the HTTP/2 library itself found is the origin's breach of the protocol
    // (RFC 9113 §5.4).
    let is_breach = http2_error(error).is_some_and(h2::Error::is_library);
    if error.is_parse() || is_breach { Failure::Protocol } else { Failure::ConnectionTerminated }
}

/// The request could not be sent whole, because of the body that came from the client.
fn request_error(error: &hyper::Error) -> Error {
    match io_error(error) {
        Some(source) if source.kind() == io::ErrorKind::TimedOut => {
            let detail = format!("the body of the request stalled: {source}");
            Error::new(Failure::RequestTimeout, detail)
        }
        _ => Error::new(
            Failure::RequestIncomplete,
            "the body of the request is not valid HTTP, or did not come to its end",
        ),
    }
}
