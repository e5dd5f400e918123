//! One request and the head of its answer, over one connection; and, when there is none, what that
//! was and whether the request may be sent again (RFC 9110 §9.2.2, RFC 9113 §8.7).

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use h2::Reason;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::Egress;
use super::arriving::Arriving;
use super::dial::{Connection, Link};
use super::error::{Error, Failure};
use super::outgoing::Outgoing;
use super::pool::Lease;
use super::progress::Progress;
use super::slots::Slot;
use super::terms::Config;
use super::tls::Versions;
use super::tls_words::{alert_received, client_certificate, tls_error};
use crate::egress::boxed_request::BoxedRequest;
use crate::runtime::lazy_timer::LazyTimer;
use crate::types::origin::Origin;

/// An exchange without an answer.
pub struct Unanswered {
    pub error: Error,
    /// The request, when nothing of it was sent.
    pub unsent: Option<BoxedRequest<Outgoing>>,
    pub again: Again,
    pub slot: Slot,
}

/// Whether a request that can be repeated should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    No,
    Yes(Versions),
}

impl Egress {
    pub(super) async fn exchange(
        &self,
        mut connection: Connection,
        origin: &Origin,
        mut request: BoxedRequest<Outgoing>,
        slot: Slot,
    ) -> Result<Response<Box<Arriving>>, Unanswered> {
        // The look is over at once: a thread can take a few at a time only.
        let Config { response_timeout, body_idle_timeout, max_headers, .. } =
            self.shared.look().config;
        let answer = request.body.until_answered();
        let progress = request.body.progress();
        progress.is_origins();
        let answered =
            self.in_time(&mut connection.link, origin, request, &progress, response_timeout).await;
        let error = match answered {
            Some(Ok(response)) if response.headers().len() > max_headers => {
                let detail = format!("the answer of {origin} has more than {max_headers} fields");
                Error::new(Failure::HeaderTooLarge, detail)
            }
            Some(Ok(response)) if let Some(fault) = framing_fault(response.headers()) => {
                Error::new(Failure::Protocol, format!("no valid response from the origin: {fault}"))
            }
            Some(Ok(response)) => {
                let mut link = connection.proven();
                let bulk = link.bulk(&self.shared.bulks, response.body().size_hint().exact());
                // An upload goes on whether or not anybody reads the answer, and so does another protocol.
                let goes_on = !progress.is_complete() || response.status().is_informational();
                if goes_on {
                    link.detach();
                }
                // To an origin of HTTP/1.0 the library would go on in HTTP/1.0: we speak our own version
                // (RFC 9110 §6.2), on another connection.
                let lasts = !goes_on && response.version() > Version::HTTP_10;
                let lease = Lease { link, lasts, _answered: answer, slot };
                return Ok(response.map(|body| {
                    Arriving::boxed(body, body_idle_timeout, lease, bulk, progress.asked_at())
                }));
            }
            Some(Err(failed)) => return Err(unanswered(&connection, origin, failed, slot)),
            None => {
                let detail = format!("no response within {response_timeout:?}");
                Error::new(Failure::ResponseTimeout, detail)
            }
        };
        Err(Unanswered { error, unsent: None, again: Again::No, slot })
    }

    /// What comes of `request`, if anything does before the origin has been waited for too long.
    async fn in_time(
        &self,
        link: &mut Link,
        origin: &Origin,
        request: BoxedRequest<Outgoing>,
        progress: &Progress,
        limit: Duration,
    ) -> Option<Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> {
        let mut timer = LazyTimer::new();
        let mut answer = pin!(link.begin(origin, request));
        poll_fn(|cx| match link.poll_driven(cx, |cx| answer.as_mut().poll(cx)) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => progress.poll_overdue(limit, &mut timer, cx).map(|()| None),
        })
        .await
    }
}

/// What it means that `connection` brought no answer, for the request and for whoever shares it.
fn unanswered(
    connection: &Connection,
    origin: &Origin,
    mut failed: TrySendError<Request<Outgoing>>,
    slot: Slot,
) -> Unanswered {
    let kept = connection.kept;
    let unsent = failed.take_message().filter(|_| kept).map(BoxedRequest::from);
    let cause = failed.error();
    if let Link::Http2(stream) = &connection.link
        && ends_the_connection(cause)
    {
        stream.retire();
    }
    let error = exchange_error(origin, cause, connection.asked);
    let again = again(cause, kept && error.failure == Failure::ConnectionTerminated);
    Unanswered { error, unsent, again, slot }
}

/// The engine takes a GET or HEAD whose length it is not told for one without content, which would be
/// lost (RFC 9110 §9.3.1 gives it no meaning, but who passes it on has no say in that).
pub fn keep_content(request: &mut BoxedRequest<Outgoing>) {
    let is_chunked = request.body.size_hint().exact().is_none();
    if is_chunked && !request.head.headers.contains_key(CONTENT_LENGTH) {
        request.head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Again where the origin has said that it did nothing with the request (RFC 9113 §8.7), where it
/// wants another version (§7), and where a kept connection turned out closed.
fn again(error: &hyper::Error, closed_before: bool) -> Again {
    match http2_error(error) {
        Some(error) if error.reason() == Some(Reason::HTTP_1_1_REQUIRED) => {
            Again::Yes(Versions::Http1)
        }
        Some(error) if error.is_remote() && error.is_go_away() => Again::Yes(Versions::Any),
        Some(error) if error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM) => {
            Again::Yes(Versions::Any)
        }
        // The origin did begin, and then gave the stream up: it is there, and said no.
        Some(error) if error.is_reset() => Again::No,
        _ if closed_before => Again::Yes(Versions::Any),
        _ => Again::No,
    }
}

/// What is ambiguous about where a response ends: the engine settles it for itself, but the next
/// reader might settle it otherwise (RFC 9112 §6.1, §6.3).
fn framing_fault(fields: &HeaderMap) -> Option<&'static str> {
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if fields.contains_key(CONTENT_LENGTH) {
            return Some("it has both Content-Length and Transfer-Encoding");
        }
        if codings.next().is_some()
            || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
        {
            return Some("it has a transfer coding besides chunked");
        }
    }
    let is_number = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    (!fields.get_all(CONTENT_LENGTH).iter().all(is_number))
        .then_some("its Content-Length is no number")
}

/// Whether it is the connection that failed, and not only the stream.
fn ends_the_connection(error: &hyper::Error) -> bool {
    !http2_error(error).is_some_and(h2::Error::is_reset)
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Trouble while HTTP was being agreed on.
pub fn connection_error(origin: &Origin, error: &hyper::Error) -> Error {
    exchange_error(origin, error, false)
}

/// What an error of the library means. An origin that asked for a client certificate and then ends
/// the connection does so for want of it: in TLS 1.3 it can say so only now (RFC 8446 §4.4.2.4).
fn exchange_error(origin: &Origin, error: &hyper::Error, asked: bool) -> Error {
    if let Some(rustls::Error::AlertReceived(alert)) = io_error(error).and_then(tls_error) {
        return if asked { client_certificate(origin) } else { alert_received(origin, *alert) };
    }
    if error.is_user() {
        return request_error(error);
    }
    let failure = failure(error);
    if asked && failure == Failure::ConnectionTerminated {
        return client_certificate(origin);
    }
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Error::new(failure, format!("no valid response from the origin: {error}{cause}"))
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        return Failure::HeaderTooLarge;
    }
    // An error that the library found is the origin's breach of the protocol (RFC 9113 §5.4).
    let breach = http2_error(error).is_some_and(h2::Error::is_library);
    if error.is_parse() || breach { Failure::Protocol } else { Failure::ConnectionTerminated }
}

fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// The request could not be sent whole, because the client's body did not come so.
fn request_error(error: &hyper::Error) -> Error {
    match io_error(error) {
        Some(source) if source.kind() == io::ErrorKind::TimedOut => Error::new(
            Failure::RequestTimeout,
            format!("the body of the request stalled: {source}"),
        ),
        _ => Error::new(
            Failure::RequestIncomplete,
            "the body of the request is not valid HTTP, or did not come to its end",
        ),
    }
}
