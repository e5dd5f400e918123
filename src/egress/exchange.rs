//! One exchange over one connection: sends the request, waits for the head of the response, checks
//! it, and gives the connection to the body of the response. [`RetryRule`] says when a request without
//! a response is sent a second time.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use h2::Reason;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::body::{ClientStall, RequestBody, RequestProgress, ResponseBody, ResponseGuard};
use super::config::Config;
use super::connection::BoxedRequest;
use super::connection::{Connection, Transport};
use super::error::{Error, Failure};
use super::http1::{HyperResponse, LargeRead};
use super::hyper_error::{asks_for_calm, ends_connection, exchange_error, head_error, http2_error};
use super::parent::restore_origin_form;
use super::pool::Lease;
use super::state::EgressState;
use super::tls::Versions;
use crate::pace::{RequestFailure, Turn};
use crate::runtime::box_future;
use crate::runtime::lazy_timer::LazyTimer;
use crate::types::origin::Origin;

/// What an origin says of the connection (RFC 2068 §19.7.1): `timeout` is the number of seconds that
/// it may idle.
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// What a request asks of its exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeKind {
    /// The versions of HTTP for it: one that asks for an upgrade has no choice.
    pub versions: Versions,
    /// Whether a copy of it is kept.
    pub may_repeat: bool,
}

/// Sends `request`, which has started, and waits for the head of its response. The connection goes
/// with the body of the response, which returns it to its pool.
///
/// # Errors
///
/// Why no response came, and whether the request may be sent again.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn keeps its arguments twice: the future of every request would have more than \
              the 4 KiB up to which the allocator is fast, which costs 0.9 % of its instructions"
)]
pub fn exchange<'a>(
    state: &'a EgressState,
    mut connection: Connection,
    origin: &'a Origin,
    mut request: BoxedRequest<RequestBody>,
    turn: Turn,
    ExchangeKind { versions, may_repeat }: ExchangeKind,
) -> impl Future<Output = Result<Response<Box<ResponseBody>>, FailedExchange>> + use<'a> {
    async move {
        // The guard of the configuration ends with this statement: a thread can hold only a few.
        let Config { response_timeout, body_idle_timeout, .. } = state.load().config;
        state.note_exchange(&turn);
        let response_guard = request.body.response_guard();
        let progress = request.body.progress();
        progress.start_origin_timer();
        let transport = &mut connection.transport;
        let method = request.head.method.clone();
        let waiting = || Waiting { progress: &progress, turn: &turn, limit: response_timeout };
        let mut waited = send_and_wait(transport, origin, request, versions, waiting()).await;
        if let Some(Err(failed)) = &waited
            && is_rejected_head(failed.error(), &progress)
        {
            match box_future(|| read_again(transport, method, waiting())).await {
                ReadAgain::Response(again) => waited = Some(*again),
                ReadAgain::Nothing => {}
                ReadAgain::TimedOut => waited = None,
                ReadAgain::Invalid(fault) => {
                    let error = head_error(&fault);
                    turn.note_failure(error.failure.of_pace());
                    return Err(FailedExchange::without_retry(error, turn));
                }
            }
        }
        let response = match waited {
            Some(Ok(response)) => response,
            Some(Err(failed)) => return Err(classify_failure(&connection, origin, failed, turn)),
            None => {
                turn.note_failure(RequestFailure::Timeout);
                let detail = format!("no response within {response_timeout:?}");
                let error = Error::new(Failure::ResponseTimeout, detail);
                return Err(FailedExchange::without_retry(error, turn));
            }
        };
        connection.note_response();
        if may_repeat && response.status() == StatusCode::REQUEST_TIMEOUT && connection.was_idle() {
            let detail = "the origin closed the connection, which had been idle, with 408";
            let error = Error::new(Failure::ConnectionTerminated, detail);
            let rule = RetryRule::Yes(Versions::Any);
            return Err(FailedExchange { error, unsent: None, rule, turn });
        }
        let transport = &connection.transport;
        if let Err(error) = check_response(transport, origin, &response, &turn) {
            return Err(FailedExchange::without_retry(error, turn));
        }
        let request_sent_at = progress.waiting_since();
        let (lease, large_read) =
            lease(state, connection, &response, progress.is_complete(), turn, response_guard);
        let version = response.version();
        Ok(response.map(|body| {
            let body = (body, version);
            ResponseBody::boxed(body, body_idle_timeout, lease, large_read, request_sent_at)
        }))
    }
}

/// Checks the head of a response: it is not one by which a parent refuses the request, and nothing
/// in it is ambiguous. What it means for the pace is noted with its `turn`.
fn check_response(
    transport: &Transport,
    origin: &Origin,
    response: &Response<Incoming>,
    turn: &Turn,
) -> Result<(), Error> {
    let (status, headers) = (response.status(), response.headers());
    let refusal = transport.forwarder().and_then(|it| it.refusal(status, headers));
    if let Some(error) = refusal {
        turn.note_failure(RequestFailure::Other);
        return Err(error);
    }
    turn.note_response(status, headers);
    check_head(origin, headers)
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
    if let Transport::Http1(connection) = &mut transport {
        // Few responses have it, and comparing names costs less than hashing this one.
        let mut fields = response.headers().iter();
        let keep_alive = fields.find(|(name, _)| **name == KEEP_ALIVE);
        connection.idle_max = keep_alive.and_then(|(_, value)| idle_max(value));
    }
    // To an origin of HTTP/1.0 hyper would go on in HTTP/1.0. The proxy speaks its own version
    // (RFC 9110 §6.2), on another connection.
    let is_reusable = !outlives_response && response.version() > Version::HTTP_10;
    let lease = Lease { transport, pool, is_reusable, turn, _response_guard: response_guard };
    (lease, large_read)
}

/// How long a connection may be reused after this `Keep-Alive`: a second less than the origin keeps
/// it, or half of it, because the origin's time began before its response came.
fn idle_max(keep_alive: &HeaderValue) -> Option<Duration> {
    let parameters = keep_alive.to_str().ok()?.split([',', ';']);
    let seconds = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().trim_matches('"').parse::<u32>().ok())?
    });
    let timeout = Duration::from_secs(seconds.min()?.into());
    Some(timeout - (timeout / 2).min(Duration::from_secs(1)))
}

/// What the wait for a response is bounded by.
#[derive(Clone, Copy, Debug)]
struct Waiting<'a> {
    progress: &'a RequestProgress,
    turn: &'a Turn,
    limit: Duration,
}

/// Whether a head came that hyper does not take, to a request that was sent whole.
fn is_rejected_head(error: &hyper::Error, progress: &RequestProgress) -> bool {
    error.is_parse() && progress.is_complete()
}

/// What a second reading of a head has brought.
enum ReadAgain {
    /// Boxed: it is rare, and large.
    Response(Box<HyperResponse>),
    /// There is nothing to be read again.
    Nothing,
    /// The origin did not send the rest in time.
    TimedOut,
    /// What is wrong with the head.
    Invalid(io::Error),
}

/// Reads the head of a response once more that hyper did not take.
async fn read_again(transport: &mut Transport, method: Method, waiting: Waiting<'_>) -> ReadAgain {
    let Waiting { progress, limit, .. } = waiting;
    let mut timer = LazyTimer::new();
    let again = {
        let mut again = pin!(transport.read_again(method));
        poll_fn(|cx| match again.as_mut().poll(cx) {
            Poll::Ready(again) => Poll::Ready(Some(again)),
            Poll::Pending => progress.poll_overdue(limit, &mut timer, cx).map(|()| None),
        })
        .await
    };
    match again {
        None => ReadAgain::TimedOut,
        Some(None) => ReadAgain::Nothing,
        Some(Some(Err(fault))) => ReadAgain::Invalid(fault),
        Some(Some(Ok(response))) => wait(transport, pin!(response), waiting, || {})
            .await
            .map_or(ReadAgain::TimedOut, |response| ReadAgain::Response(Box::new(response))),
    }
}

/// The response to `request`; `None` when the origin did not respond in time.
async fn send_and_wait(
    transport: &mut Transport,
    origin: &Origin,
    request: BoxedRequest<RequestBody>,
    versions: Versions,
    waiting: Waiting<'_>,
) -> Option<HyperResponse> {
    let turn = waiting.turn;
    let response = pin!(transport.send(origin, request, versions, turn.is_for_robots_txt()));
    let mut is_written = false;
    // The first poll writes the head.
    let note_written = || {
        if !std::mem::replace(&mut is_written, true) {
            turn.note_request_written();
        }
    };
    wait(transport, response, waiting, note_written).await
}

/// Polls `response`, and calls `on_poll` after each time; `None` when the origin did not respond in
/// time.
async fn wait(
    transport: &mut Transport,
    mut response: Pin<&mut impl Future<Output = HyperResponse>>,
    Waiting { progress, turn, limit }: Waiting<'_>,
    mut on_poll: impl FnMut(),
) -> Option<HyperResponse> {
    let (mut timer, mut stall) = (LazyTimer::new(), ClientStall::default());
    poll_fn(|cx| {
        let polled = transport.poll_driven(cx, |cx| response.as_mut().poll(cx));
        on_poll();
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
    let wants_calm = asks_for_calm(cause) || connection.transport.wants_calm();
    if wants_calm {
        turn.note_failure(RequestFailure::EnhanceYourCalm);
    } else if !was_closed {
        turn.note_failure(error.failure.of_pace());
    }
    let rule = if wants_calm { RetryRule::No } else { RetryRule::of(cause, was_closed) };
    FailedExchange { rule, error, unsent, turn }
}

fn check_head(origin: &Origin, headers: &HeaderMap) -> Result<(), Error> {
    match framing_fault(headers) {
        Some(fault) => {
            let detail = format!("no valid response from {origin}: {fault}");
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

/// An exchange that brought no response, with what a retry needs.
#[derive(Debug)]
pub struct FailedExchange {
    pub error: Error,
    /// The request, when nothing of it was sent.
    pub unsent: Option<BoxedRequest<RequestBody>>,
    pub rule: RetryRule,
    pub turn: Turn,
}

/// A request that is to be sent a second time.
#[derive(Debug)]
pub struct Retry {
    pub request: BoxedRequest<RequestBody>,
    pub versions: Versions,
    pub turn: Turn,
}

/// Whether a failed exchange permits a retry (RFC 9110 §9.2.2, RFC 9113 §8.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryRule {
    No,
    /// In one of these versions of HTTP.
    Yes(Versions),
}

/// A copy of a request, kept in case that it is sent a second time.
#[derive(Debug)]
pub struct RetryCopy(BoxedRequest<RequestBody>);

impl FailedExchange {
    /// An exchange that must not be tried again.
    pub const fn without_retry(error: Error, turn: Turn) -> Self {
        Self { error, unsent: None, rule: RetryRule::No, turn }
    }

    /// The request to send again: itself when nothing of it was sent, else its copy.
    ///
    /// # Errors
    ///
    /// The error of the exchange, when the request may not be repeated.
    pub fn into_retry(self, copy: Option<RetryCopy>, versions: Versions) -> Result<Retry, Error> {
        let Self { error, unsent, rule, turn } = self;
        match (unsent, copy, rule) {
            (Some(request), _, _) => Ok(Retry { request, versions, turn }),
            (None, Some(RetryCopy(request)), RetryRule::Yes(versions)) => {
                Ok(Retry { request, versions, turn })
            }
            _ => Err(error),
        }
    }
}

impl RetryRule {
    /// A request is sent again when the origin says that it did nothing with it (RFC 9113 §8.7),
    /// when the origin requires HTTP/1.1 (§7), and when a kept connection `was_closed`.
    pub fn of(error: &hyper::Error, was_closed: bool) -> Self {
        match http2_error(error) {
            Some(error) if error.reason() == Some(Reason::HTTP_1_1_REQUIRED) => {
                Self::Yes(Versions::Http1)
            }
            Some(error) if error.is_remote() && error.is_go_away() => Self::Yes(Versions::Any),
            Some(error) if error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM) => {
                Self::Yes(Versions::Any)
            }
            // The origin began to process the request, and then reset the stream.
            Some(error) if error.is_reset() => Self::No,
            _ if was_closed => Self::Yes(Versions::Any),
            _ => Self::No,
        }
    }
}

impl RetryCopy {
    /// A copy of `request`, which may be sent in `versions`, if it may be repeated: it is idempotent
    /// (RFC 9110 §9.2.2), without content, and asks for no upgrade.
    pub fn of(request: &BoxedRequest<RequestBody>, versions: Versions) -> Option<Self> {
        let BoxedRequest { head, body } = request;
        let is_idempotent = matches!(
            head.method,
            Method::GET
                | Method::HEAD
                | Method::OPTIONS
                | Method::TRACE
                | Method::PUT
                | Method::DELETE
        );
        if !is_idempotent || !body.is_empty() || versions == Versions::Http1 {
            return None;
        }
        Some(Self(BoxedRequest { head: head.clone(), body: body.empty_copy() }))
    }
}

#[cfg(test)]
mod tests {
    use http::header::UPGRADE;
    use http::{HeaderValue, Request, Version};

    use super::*;

    #[test]
    fn an_idle_connection_is_kept_for_less_than_its_origin_says() {
        for (value, milliseconds) in [
            ("timeout=5", Some(4000)),
            ("timeout=5, max=100", Some(4000)),
            ("max=100,Timeout = 60", Some(59_000)),
            ("timeout=\"15\"", Some(14_000)),
            ("timeout=2; max=1", Some(1000)),
            ("timeout=1", Some(500)),
            ("timeout=0", Some(0)),
            ("timeout=60, timeout=5", Some(4000)),
            ("max=100", None),
            ("timeout", None),
            ("timeout=-1", None),
            ("timeout=5s", None),
            ("", None),
        ] {
            let expected = milliseconds.map(Duration::from_millis);
            assert_eq!(idle_max(&HeaderValue::from_static(value)), expected, "{value:?}");
        }
    }

    fn request(method: Method) -> BoxedRequest<RequestBody> {
        let mut request = Request::new(RequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = "/a?b".parse().unwrap();
        request.into()
    }

    #[test]
    fn only_an_idempotent_request_without_upgrade_is_copied() {
        for (method, may) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::PUT, true),
            (Method::DELETE, true),
            (Method::POST, false),
            (Method::PATCH, false),
            (Method::from_bytes(b"MOVE").unwrap(), false),
        ] {
            let copy = RetryCopy::of(&request(method.clone()), Versions::Any);
            assert_eq!(copy.is_some(), may, "{method}");
        }
        let mut upgrade = request(Method::GET);
        upgrade.head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        assert!(RetryCopy::of(&upgrade, Versions::for_request(&upgrade.head)).is_none());
    }

    #[test]
    fn a_copy_has_the_whole_head() {
        #[derive(Clone, Debug, PartialEq)]
        struct Word(&'static str);
        let mut given = request(Method::HEAD);
        given.head.version = Version::HTTP_2;
        given.head.extensions.insert(Word("kept"));
        for (name, value) in [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")] {
            given.head.headers.append(name, HeaderValue::from_static(value));
        }
        let (given, copy) = (&given.head, RetryCopy::of(&given, Versions::Any).unwrap().0.head);
        assert_eq!(
            (&copy.method, &copy.uri, copy.version),
            (&given.method, &given.uri, given.version)
        );
        assert_eq!(copy.headers, given.headers);
        assert_eq!(copy.extensions.get::<Word>(), Some(&Word("kept")));
    }
}
