//! The proxy's parsers without a connection, for the properties in `tests/properties`, which feed
//! them any bytes. Not part of the interface.

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::request;
use http::uri::PathAndQuery;

use super::connect::sniff::TunnelProtocol;
use super::connect::{Connect, Https, HttpsMode};
use super::decision::rules::MixedHosts;
use super::destination::{Destination, Scope, Target, destination};
use super::framing::{Framing, FramingStep};
use super::response;
pub use super::response::Format;
use crate::types::origin::Origin;

/// The resource that a request on a client's own connection is for; `None`: it is for none, or
/// refused.
pub fn resource(request: &request::Parts) -> Option<(Origin, PathAndQuery)> {
    match destination(request, &Scope::AnyOrigin, false) {
        Ok(Destination::Resource(Target { origin, path, .. })) => Some((origin, path)),
        _ => None,
    }
}

/// The origin of a CONNECT whose port is listed; `None`: it is none, or refused.
pub fn connect(request: &request::Parts) -> Option<Origin> {
    let ports = request.uri.port_u16().into_iter().collect();
    let https = Https {
        mode: HttpsMode::Intercept,
        tunnel: Vec::new(),
        mixed: MixedHosts::Refuse,
        ports,
        under_run: false,
    };
    match destination(request, &Scope::AnyOrigin, false) {
        Ok(Destination::Connect) => match https.connect(request, &Scope::AnyOrigin) {
            Ok(Connect::Intercept(origin) | Connect::Classify(origin, _)) => Some(origin),
            Ok(Connect::PortNotAllowed(_)) | Err(_) => None,
        },
        _ => None,
    }
}

/// Whether the first bytes inside a CONNECT are taken for TLS (`Some(true)`), for HTTP
/// (`Some(false)`) or for neither.
pub fn is_tls(first: &[u8]) -> Option<bool> {
    match TunnelProtocol::of(first) {
        TunnelProtocol::Tls => Some(true),
        TunnelProtocol::Http => Some(false),
        TunnelProtocol::Other => None,
    }
}

/// The format of an error for a client that sends this `Accept`.
pub fn preferred(accept: HeaderValue) -> Format {
    response::preferred(&HeaderMap::from_iter([(ACCEPT, accept)]))
}

/// The messages that are whole in what a client sends, so many bytes at a time, as hyper gets
/// them; and whether a fault ended it.
pub fn messages(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut framing = Framing::new(FRAMED_BYTES_MAX, FRAMED_FIELDS_MAX);
    let (mut messages, mut message, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        waiting.extend_from_slice(piece);
        loop {
            match framing.check(&mut waiting) {
                Ok(FramingStep::Pass(count)) => {
                    let passed: Vec<u8> = waiting.drain(..count).collect();
                    message.extend(framing.take_encoded().map_or(passed, |encoded| encoded.head));
                }
                Ok(FramingStep::Discard(count)) => drop(waiting.drain(..count)),
                Ok(FramingStep::ReadMore) => break,
                Err(_) => return (messages, true),
            }
            if framing.is_between_requests() && !message.is_empty() {
                messages.push(std::mem::take(&mut message));
            }
        }
    }
    (messages, false)
}

/// Bounds of a head for [`messages`]: small, so that a fuzzer reaches them.
const FRAMED_BYTES_MAX: usize = 4096;
const FRAMED_FIELDS_MAX: usize = 20;
