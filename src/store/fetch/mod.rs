//! Fetches one robots.txt: redirects, timeout, size limit, decoding.
//!
//! Whatever the origin does, a fetch has a result ([`CompletedFetch`]) in bounded time and memory.
//! An incomplete file is a failure, never a shorter file. The request carries no cookies and no
//! credentials, and each hop passes the egress address policy.

mod decode;
mod failure;
mod fetch_request;
mod head;
#[doc(hidden)]
pub mod probe;
mod redirect;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, ETAG, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, USER_AGENT,
};
use http::response::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Body as HttpBody};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use crate::egress::{self, AlwaysPermitted, Egress, Failure, RequestBody, Requester};
use crate::policy::access::{
    AccessResult, Capture, Cause, CompletedFetch, NetworkFailure, Snapshot,
};
use crate::runtime::box_future;
use crate::runtime::clock::Clock;
use crate::types::http_time::retry_after;
use crate::types::origin::{Origin, Scheme};
use crate::types::timestamp::Timestamp;
use decode::{Decoded, Decoder, Undecodable, Wanted};
use failure::unsent;
pub use fetch_request::{
    Config, FetchIdentity, FetchRequest, FetchRobots, NotSent, Progress, ROBOTS_TXT_BYTES,
    Validators,
};
use head::{Source, freshness};
use redirect::{Chain, Hop};

/// Fetches over an [`Egress`] of its own; https origins over the worker's egress, to share its
/// connections.
#[derive(Debug)]
pub struct RobotsFetcher {
    egress: Arc<Egress>,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
}

impl RobotsFetcher {
    /// A fetcher that uses the connections of `egress`.
    pub fn new(egress: Arc<Egress>, config: Config, clock: Arc<dyn Clock>) -> Self {
        Self { egress, config: Arc::new(config), clock }
    }
}

impl FetchRobots for RobotsFetcher {
    /// Fetches one robots.txt, within the fetcher's timeout.
    fn fetch(
        &self,
        ask: FetchRequest,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedFetch, NotSent>> + Send>> {
        let egress = Arc::clone(&self.egress);
        let (client, progress) = (ask.client.clone(), Arc::clone(&ask.progress));
        let timeout = self.config.timeout;
        let is_common = self.config.fetch_as.is_some() || ask.identity.agent().is_none();
        let send = move |origin: Origin, request| {
            let egress = match origin.scheme() {
                Scheme::Https => Egress::of_thread().unwrap_or_else(|| Arc::clone(&egress)),
                // Plain HTTP saves no handshake by sharing, and the page then finds an unused
                // connection.
                Scheme::Http | Scheme::Ftp => Arc::clone(&egress),
            };
            let (client, progress) = (client.clone(), Arc::clone(&progress));
            async move {
                let requester = Requester::robots(&client, &progress.queued);
                let turn = egress.lanes().acquire_for_robots_txt(&origin, timeout).await;
                let turn = turn.map_err(egress::Error::no_turn)?;
                let turn = if is_common { turn } else { turn.for_one_agent() };
                let response = egress
                    .send(
                        &origin,
                        Request::into(request),
                        requester,
                        turn,
                        &AlwaysPermitted::default(),
                    )
                    .await?;
                let (peer, via) = (response.body().peer(), response.body().via());
                Ok((response, Source { peer, via }))
            }
        };
        box_future(|| fetch(ask, Arc::clone(&self.config), Arc::clone(&self.clock), send))
    }

    fn max_size(&self) -> usize {
        self.config.max_size
    }

    fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.config.fetch_as.clone().unwrap_or_else(|| FetchIdentity::of_agent(agent))
    }

    fn is_common(&self, agent: Option<&str>) -> bool {
        self.config.fetch_as.is_some() || FetchIdentity::is_common(agent)
    }
}

/// The whole fetch, over any function that sends one request and returns the response with its
/// source.
async fn fetch<S, R, B>(
    ask: FetchRequest,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    send: S,
) -> Result<CompletedFetch, NotSent>
where
    S: Fn(Origin, Request<RequestBody>) -> R,
    R: Future<Output = Result<(Response<B>, Source), egress::Error>>,
    B: HttpBody<Data = bytes::Bytes, Error: std::error::Error + 'static> + Unpin,
{
    let mut chain = Chain::new(&ask.origin, ask.redirects_max);
    let followed =
        tokio::time::timeout(config.timeout, follow(&mut chain, &ask, &config, &*clock, send))
            .await;
    let result = match followed {
        Ok(result) => result?,
        Err(_) if ask.progress.queued.has_waited() => {
            let detail = format!(
                "not complete after {} ms, of which some were spent in queues of the proxy",
                config.timeout.as_millis()
            );
            return Err(NotSent(egress::Error::new(Failure::Exhausted, detail)));
        }
        Err(_) => {
            let detail = format!("not complete after {} ms", config.timeout.as_millis());
            AccessResult::Without(Cause::failed(NetworkFailure::Timeout, detail))
        }
    };
    let (at, mut result) = (clock.wall(), result);
    let capture = chain.capture(at, &result, &user_agent(&ask, &config));
    if let AccessResult::Successful { snapshot, .. } = &mut result {
        Arc::make_mut(snapshot).capture = capture.clone();
    }
    let (url, hops, varies) = (chain.url(), chain.hops(), ask.progress.varies());
    Ok(CompletedFetch { at, url, hops, varies, result, capture })
}

async fn follow<S, R, B>(
    chain: &mut Chain,
    ask: &FetchRequest,
    config: &Config,
    clock: &dyn Clock,
    send: S,
) -> Result<AccessResult, NotSent>
where
    S: Fn(Origin, Request<RequestBody>) -> R,
    R: Future<Output = Result<(Response<B>, Source), egress::Error>>,
    B: HttpBody<Data = bytes::Bytes, Error: std::error::Error + 'static> + Unpin,
{
    let mut validators = ask.validators.as_ref();
    loop {
        let hop = chain.here();
        // They belong to one URL: elsewhere the same tag may name another file.
        let condition = validators.filter(|validators| validators.url == hop.url);
        let request = robots_request(hop, condition, ask, config);
        let sent = head::request(&request);
        let (response, source) = match send(hop.origin.clone(), request).await {
            Ok((response, source)) => {
                ask.progress.note(response.headers());
                chain.answered(&response, &source, sent);
                (response, source)
            }
            Err(error) => {
                chain.parent_failed(&error);
                return unsent(error, chain.hops()).map(AccessResult::Without);
            }
        };
        if let Some(condition) = condition {
            match condition.answered_by(&response) {
                ConditionResult::NotModified => {
                    let freshness = head::freshness(response.headers(), clock.wall());
                    return Ok(AccessResult::NotModified { freshness });
                }
                ConditionResult::AskAgain => {
                    validators = None;
                    continue;
                }
                ConditionResult::Other => {}
            }
        }
        if !redirect::is_redirect(response.status()) {
            let now = clock.wall();
            if let Some(unclear) = source.unclear(response.status(), response.headers(), now) {
                return Ok(AccessResult::Without(unclear));
            }
            return Ok(read_answer(response, chain, clock.wall(), config.max_size).await);
        }
        if let Err(cause) = chain.follow(response.status(), response.headers()) {
            return Ok(AccessResult::Without(cause));
        }
    }
}

async fn read_answer<B>(
    response: Response<B>,
    chain: &Chain,
    now: Timestamp,
    max_size: usize,
) -> AccessResult
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    let (head, body) = response.into_parts();
    match head.status {
        // RFC 9309 §2.3.1.1 names 2xx in general; 204 is a file without rules. RFC 9110 §15.3.7: a
        // 206 is a partial response, which was not requested; to use it as the whole file would
        // widen access.
        status if status.is_success() && status != StatusCode::PARTIAL_CONTENT => {
            match read_body(&head, body, max_size).await {
                Ok(decoded) => successful(&head, decoded, chain, now),
                Err(cause) => AccessResult::Without(cause),
            }
        }
        status => AccessResult::Without(Cause::Status {
            code: status.as_u16(),
            retry_after: retry_after(&head.headers, now),
        }),
    }
}

fn successful(head: &Parts, decoded: Decoded, chain: &Chain, now: Timestamp) -> AccessResult {
    let snapshot = Snapshot {
        sha256: Sha256::digest(&decoded.body).into(),
        // Without the spare capacity.
        body: decoded.body.into_boxed_slice().into(),
        cut: decoded.cut,
        status: head.status.as_u16(),
        url: chain.url(),
        hops: chain.hops(),
        fetched_at: now,
        content_type: own(head, &CONTENT_TYPE),
        etag: own(head, &ETAG),
        last_modified: own(head, &LAST_MODIFIED),
        // Set when the whole fetch has ended.
        capture: Capture::none(),
    };
    AccessResult::Successful {
        snapshot: Arc::new(snapshot),
        freshness: freshness(&head.headers, now),
    }
}

/// A copy of a header value. The original is a slice of the buffer that the head was read into,
/// which is many times larger and would stay in memory as long as the file.
fn own(head: &Parts, name: &HeaderName) -> Option<HeaderValue> {
    let value = head.headers.get(name)?;
    Some(HeaderValue::from_bytes(value.as_bytes()).expect("a field value"))
}

/// Reads frames up to the limit; does not download what exceeds it.
async fn read_body<B>(head: &Parts, mut body: B, max_size: usize) -> Result<Decoded, Cause>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    // One byte more than the limit shows whether the last line within it is complete.
    let kept_max = max_size.saturating_add(1);
    let mut decoder = Decoder::new(&head.headers, kept_max).map_err(undecodable)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Some(chunk) = frame.data_ref() else { continue };
        if decoder.push(chunk).map_err(undecodable)? == Wanted::Nothing {
            break;
        }
    }
    decoder.finish().map_err(undecodable)
}

fn undecodable(error: Undecodable) -> Cause {
    Cause::failed(NetworkFailure::Undecodable, error.to_string())
}

/// A body that ends early (RFC 9112 §8: incomplete), stalls, or has invalid framing.
fn broken(error: &(dyn Error + 'static)) -> Cause {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    let kinds = causes().filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    let failures = kinds.filter_map(|kind| match kind {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Some(NetworkFailure::InvalidResponse)
        }
        io::ErrorKind::TimedOut => Some(NetworkFailure::Timeout),
        _ => None,
    });
    let failure = failures.last().unwrap_or(NetworkFailure::CutShort);
    let detail = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    Cause::failed(failure, detail)
}

/// What a response says of the condition of its request (RFC 9110 §13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionResult {
    /// The stored copy still holds.
    NotModified,
    /// It is about the condition, and says nothing of the file.
    AskAgain,
    /// It is a response as to any request.
    Other,
}

impl Validators {
    /// What `response`, to a request with these validators, says of them. Servers and firewalls that
    /// do not know a condition, or not this one, refuse it with 412 or 400.
    fn answered_by<B>(&self, response: &Response<B>) -> ConditionResult {
        match response.status() {
            StatusCode::NOT_MODIFIED if self.select(response) => ConditionResult::NotModified,
            StatusCode::NOT_MODIFIED
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::BAD_REQUEST => ConditionResult::AskAgain,
            _ => ConditionResult::Other,
        }
    }

    /// Whether a 304 is about the stored copy (RFC 9111 §4.3.4): its validators, if it has any, are
    /// those of the copy. Tags are compared weakly, as the server does (RFC 9110 §13.1.2).
    fn select<B>(&self, response: &Response<B>) -> bool {
        let opaque = |tag: &HeaderValue| {
            let tag = tag.as_bytes();
            tag.strip_prefix(b"W/").unwrap_or(tag).to_owned()
        };
        let headers = response.headers();
        match (&self.etag, headers.get(ETAG)) {
            (Some(own), Some(tag)) => opaque(own) == opaque(tag),
            _ => match (&self.last_modified, headers.get(LAST_MODIFIED)) {
                (Some(own), Some(date)) => own == date,
                _ => true,
            },
        }
    }
}

/// The request of one hop, conditional with `validators`.
fn robots_request(
    hop: &Hop,
    validators: Option<&Validators>,
    ask: &FetchRequest,
    config: &Config,
) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = hop.target.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, hop.host.clone());
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.1"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
    headers.insert(USER_AGENT, user_agent(ask, config));
    if let Some(validators) = validators {
        headers.extend(validators.etag.clone().map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(validators.last_modified.clone().map(|date| (IF_MODIFIED_SINCE, date)));
    }
    request
}

/// The User-Agent that the site is shown.
fn user_agent(ask: &FetchRequest, config: &Config) -> HeaderValue {
    ask.identity.user_agent(config.fetch_as.as_ref(), config.contact.as_deref())
}
