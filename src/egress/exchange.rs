//! One exchange over one connection: sends the request, waits for the head of the response, checks
//! it, and gives the connection to the body of the response.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::body::{ClientStall, RequestBody, RequestProgress, ResponseBody, ResponseGuard};
use super::boxed_request::BoxedRequest;
use super::config::Config;
use super::connection::{Connection, Transport};
use super::error::{Error, Failure};
use super::http1::LargeRead;
use super::hyper_error::{ends_connection, exchange_error};
use super::parent::restore_origin_form;
use super::pool::Lease;
use super::retry::{FailedExchange, RetryRule};
use super::state::EgressState;
use crate::pace::Turn;
use crate::runtime::lazy_timer::LazyTimer;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Origin;

/// Sends `request`, which has started, and waits for the head of its response. The connection goes
/// with the body of the response, which returns it to its pool.
///
/// # Errors
///
/// Why no response came, and whether the request may be sent again.
pub async fn exchange(
    state: &EgressState,
    mut connection: Connection,
    origin: &Origin,
    mut request: BoxedRequest<RequestBody>,
    turn: Turn,
) -> Result<Response<Box<ResponseBody>>, FailedExchange> {
    // The guard of the configuration ends with this statement: a thread can hold only a few.
    let Config { response_timeout, body_idle_timeout, max_headers, .. } = state.load().config;
    state.note_exchange(&turn);
    let response_guard = request.body.response_guard();
    let progress = request.body.progress();
    progress.start_origin_timer();
    let transport = &mut connection.transport;
    let loop_tokens = transport.forwarder().and_then(|_| request.head.extensions.get().cloned());
    let response =
        match send_and_wait(transport, origin, request, &progress, &turn, response_timeout).await {
            Some(Ok(response)) => response,
            Some(Err(failed)) => return Err(classify_failure(&connection, origin, failed, turn)),
            None => {
                turn.note_failure(true);
                let detail = format!("no response within {response_timeout:?}");
                let error = Error::new(Failure::ResponseTimeout, detail);
                return Err(FailedExchange::without_retry(error, turn));
            }
        };
    let loop_tokens = loop_tokens.unwrap_or_default();
    if let Err(error) =
        check_response(transport, origin, &response, &loop_tokens, max_headers, &turn)
    {
        return Err(FailedExchange::without_retry(error, turn));
    }
    connection.note_response();
    let request_sent_at = progress.waiting_since();
    let (lease, large_read) =
        lease(state, connection, &response, progress.is_complete(), turn, response_guard);
    let version = response.version();
    Ok(response.map(|body| {
        ResponseBody::boxed((body, version), body_idle_timeout, lease, large_read, request_sent_at)
    }))
}

/// Checks the head of a response: it is not one by which a parent refuses the request, and nothing
/// in it is ambiguous. What it means for the pace is noted with its `turn`.
fn check_response(
    transport: &Transport,
    origin: &Origin,
    response: &Response<Incoming>,
    loop_tokens: &LoopTokens,
    max_headers: usize,
    turn: &Turn,
) -> Result<(), Error> {
    let (status, headers) = (response.status(), response.headers());
    let refusal = transport.forwarder().and_then(|it| it.refusal(status, headers, loop_tokens));
    if let Some(error) = refusal {
        turn.note_failure(false);
        return Err(error);
    }
    turn.note_response(status, headers);
    check_head(origin, headers, max_headers)
}

/// The lease of `connection` for the body of `response`, and the permit to read that in the largest
/// pieces, if it is large.
fn lease(
    state: &EgressState,
    connection: Connection,
    response: &Response<Incoming>,
    is_request_complete: bool,
    turn: Turn,
    response_guard: Option<ResponseGuard>,
) -> (Lease, Option<LargeRead>) {
    let Connection { mut transport, pool, .. } = connection;
    let remaining = response.body().size_hint().exact();
    let large_read = transport.begin_large_read(&state.buffer_permits, remaining);
    // An upload goes on whether or not the response is read, and so does another protocol.
    let outlives_response = !is_request_complete || response.status().is_informational();
    if outlives_response {
        transport.detach();
    }
    // To an origin of HTTP/1.0 hyper would go on in HTTP/1.0. The proxy speaks its own version
    // (RFC 9110 §6.2), on another connection.
    let is_reusable = !outlives_response && response.version() > Version::HTTP_10;
    let lease = Lease { transport, pool, is_reusable, turn, _response_guard: response_guard };
    (lease, large_read)
}

/// The response to `request`; `None` when the origin did not respond in time.
async fn send_and_wait(
    transport: &mut Transport,
    origin: &Origin,
    request: BoxedRequest<RequestBody>,
    progress: &RequestProgress,
    turn: &Turn,
    limit: Duration,
) -> Option<Result<Response<Incoming>, TrySendError<Request<RequestBody>>>> {
    let (mut timer, mut stall) = (LazyTimer::new(), ClientStall::default());
    let mut response = pin!(transport.send(origin, request));
    let mut is_written = false;
    poll_fn(|cx| {
        let polled = transport.poll_driven(cx, |cx| response.as_mut().poll(cx));
        // The first poll writes the head.
        if !std::mem::replace(&mut is_written, true) {
            turn.note_request_written();
        }
        match polled {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => {
                if let Some(is_stalled) = stall.poll(progress, cx) {
                    turn.note_client_stall(is_stalled);
                }
                progress.poll_overdue(limit, &mut timer, cx).map(|()| None)
            }
        }
    })
    .await
}

/// Classifies the error of `connection`, and retires a shared connection that has ended.
fn classify_failure(
    connection: &Connection,
    origin: &Origin,
    mut failed: TrySendError<Request<RequestBody>>,
    turn: Turn,
) -> FailedExchange {
    let is_reused = connection.is_reused;
    let mut unsent = failed.take_message().filter(|_| is_reused).map(BoxedRequest::from);
    if let (Some(_), Some(request)) = (connection.transport.forwarder(), &mut unsent) {
        restore_origin_form(&mut request.head);
    }
    let cause = failed.error();
    if let Transport::Http2(stream) = &connection.transport
        && ends_connection(cause)
    {
        stream.retire();
    }
    let error = exchange_error(origin, cause, connection.certificate_requested);
    let was_closed = is_reused && error.failure == Failure::ConnectionTerminated;
    FailedExchange { rule: RetryRule::of(cause, was_closed), error, unsent, turn }
}

fn check_head(origin: &Origin, headers: &HeaderMap, max_headers: usize) -> Result<(), Error> {
    if headers.len() > max_headers {
        let detail = format!("the response of {origin} has more than {max_headers} headers");
        return Err(Error::new(Failure::HeaderTooLarge, detail));
    }
    match framing_fault(headers) {
        Some(fault) => {
            let detail = format!("no valid response from the origin: {fault}");
            Err(Error::new(Failure::Protocol, detail))
        }
        None => Ok(()),
    }
}

/// What is ambiguous about where a response ends: hyper decides it, but the next recipient might
/// decide otherwise (RFC 9112 §6.1, §6.3).
fn framing_fault(headers: &HeaderMap) -> Option<&'static str> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if headers.contains_key(CONTENT_LENGTH) {
            return Some("it has both Content-Length and Transfer-Encoding");
        }
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if codings.next().is_some() || !is_chunked {
            return Some("it has a transfer coding besides chunked");
        }
    }
    let is_number = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    let are_numbers = headers.get_all(CONTENT_LENGTH).iter().all(is_number);
    (!are_numbers).then_some("its Content-Length is no number")
}
