//! Fetches one robots.txt: redirects, timeout, size limit, decoding.
//!
//! Whatever the origin does, the result is a finding ([`Fetched`]) in bounded time and memory. An
//! incomplete file is a failure, never a shorter file. The request carries no cookies and no
//! credentials, and each hop passes the egress address policy.

mod answer;
mod decode;
mod freshness;
mod head;
mod identity;
#[doc(hidden)]
pub mod probe;
mod redirect;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body as HttpBody;

use crate::egress::{self, Egress, Failure, QueueWait, RequestBody, Requester};
use crate::policy::access::{AccessResult, Cause, Fetched, NetworkFailure};
use crate::runtime::box_future::box_future;
use crate::runtime::clock::Clock;
use crate::store::limits::ROBOTS_TXT_BYTES;
use crate::types::client_key::ClientKey;
use crate::types::origin::{Origin, Scheme};
pub use identity::FetchIdentity;
use redirect::{Chain, Hop};

/// The interface that tests replace.
pub trait FetchRobots: Send + Sync + 'static {
    /// Fetches one robots.txt, within the fetcher's timeout.
    fn fetch(&self, ask: Ask) -> Pin<Box<dyn Future<Output = Result<Fetched, Refused>> + Send>>;

    /// The identity of a fetch for the agent with this product token.
    fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        FetchIdentity::of_agent(agent)
    }
}

/// The parameters of a fetch.
#[derive(Clone, Debug)]
pub struct Ask {
    pub origin: Origin,
    /// The agent that is judged. The site must see it, and its response must be the one that every
    /// client of that name would get.
    pub identity: FetchIdentity,
    /// Of the stored copy, for a conditional request.
    pub validators: Option<Validators>,
    pub redirects_max: u8,
    /// The client that caused the fetch, in whose turn names are resolved.
    pub client: ClientKey,
    pub progress: Arc<Progress>,
}

/// The progress of a fetch, which decides whether it may be cancelled.
#[derive(Debug, Default)]
pub struct Progress {
    answered: AtomicBool,
    queued: QueueWait,
}

/// RFC 9110 §8.8: identifies the representation that `url` returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Validators {
    pub url: String,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
}

/// The request was not sent: the origin's addresses are prohibited, or the proxy or its machine
/// lacked resources ([`Failure::is_ours`]). Not a finding about the robots.txt, so it is not
/// stored.
#[derive(Clone, Debug)]
pub struct Refused(pub egress::Error);

/// How a robots.txt is fetched.
#[derive(Clone, Debug)]
pub struct Config {
    /// A fixed User-Agent for all agents.
    pub fetch_as: Option<FetchIdentity>,
    /// A URL through which the site can reach the operator; printable ASCII.
    pub contact: Option<String>,
    /// For the whole redirect chain, bodies included.
    pub timeout: Duration,
    /// Bytes of the decoded file (RFC 9309 §2.5: at least 500 KiB).
    pub max_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fetch_as: None,
            contact: None,
            timeout: Duration::from_secs(10),
            max_size: ROBOTS_TXT_BYTES,
        }
    }
}

impl Progress {
    /// Whether a site has responded, at least with a redirect.
    pub fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }
}

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
    fn fetch(&self, ask: Ask) -> Pin<Box<dyn Future<Output = Result<Fetched, Refused>> + Send>> {
        let egress = Arc::clone(&self.egress);
        let (client, progress) = (ask.client.clone(), Arc::clone(&ask.progress));
        let timeout = self.config.timeout;
        let send = move |origin: Origin, request| {
            let egress = match origin.scheme() {
                Scheme::Https => Egress::current().unwrap_or_else(|| Arc::clone(&egress)),
                // Plain HTTP saves no handshake by sharing, and the page then finds an unused
                // connection.
                Scheme::Http | Scheme::Ftp => Arc::clone(&egress),
            };
            let (client, progress) = (client.clone(), Arc::clone(&progress));
            async move {
                let asker = Requester::Robots(&client, &progress.queued);
                let turn = egress.lanes().take_for_robots_txt(&origin, timeout).await;
                let turn = turn.map_err(egress::Error::paced)?;
                let response = egress.send(&origin, Request::into(request), asker, turn).await?;
                let peer = response.body().peer();
                Ok((response, peer))
            }
        };
        box_future(|| fetch(ask, Arc::clone(&self.config), Arc::clone(&self.clock), send))
    }

    fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.config.fetch_as.clone().unwrap_or_else(|| FetchIdentity::of_agent(agent))
    }
}

/// The whole fetch, over any function that sends one request and returns the response with its
/// peer.
async fn fetch<S, R, B>(
    ask: Ask,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    send: S,
) -> Result<Fetched, Refused>
where
    S: Fn(Origin, Request<RequestBody>) -> R,
    R: Future<Output = Result<(Response<B>, Option<IpAddr>), egress::Error>>,
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
            return Err(Refused(egress::Error::new(Failure::Exhausted, detail)));
        }
        Err(_) => AccessResult::Without(Cause::Failed {
            failure: NetworkFailure::Timeout,
            detail: format!("not complete after {} ms", config.timeout.as_millis()).into(),
        }),
    };
    let (at, mut result) = (clock.wall(), result);
    let capture = chain.capture(at, &result, &user_agent(&ask, &config));
    if let AccessResult::Successful { snapshot, .. } = &mut result {
        Arc::make_mut(snapshot).capture = capture.clone();
    }
    Ok(Fetched { at, url: chain.url(), hops: chain.hops(), result, capture })
}

async fn follow<S, R, B>(
    chain: &mut Chain,
    ask: &Ask,
    config: &Config,
    clock: &dyn Clock,
    send: S,
) -> Result<AccessResult, Refused>
where
    S: Fn(Origin, Request<RequestBody>) -> R,
    R: Future<Output = Result<(Response<B>, Option<IpAddr>), egress::Error>>,
    B: HttpBody<Data = bytes::Bytes, Error: std::error::Error + 'static> + Unpin,
{
    loop {
        let hop = chain.here();
        let request = request(hop, ask, config);
        let may_be_not_modified = is_conditional(&request);
        let sent = head::request(&request);
        let response = match send(hop.origin.clone(), request).await {
            Ok((response, peer)) => {
                ask.progress.answered.store(true, Ordering::Relaxed);
                chain.answered(&response, peer, sent);
                response
            }
            Err(error) => return unsent(error, chain.hops()).map(AccessResult::Without),
        };
        if response.status() == StatusCode::NOT_MODIFIED && may_be_not_modified {
            let freshness = freshness::freshness(response.headers(), clock.wall());
            return Ok(AccessResult::NotModified { freshness });
        }
        if !redirect::is_redirect(response.status()) {
            return Ok(answer::read(response, chain, clock.wall(), config.max_size).await);
        }
        if let Err(cause) = chain.follow(response.status(), response.headers()) {
            return Ok(AccessResult::Without(cause));
        }
    }
}

fn request(hop: &Hop, ask: &Ask, config: &Config) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = hop.target.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, hop.host.clone());
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.1"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
    headers.insert(USER_AGENT, user_agent(ask, config));
    // Validators belong to one URL: elsewhere the same tag may name another file.
    if let Some(validators) = ask.validators.as_ref().filter(|validators| validators.url == hop.url)
    {
        headers.extend(validators.etag.clone().map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(validators.last_modified.clone().map(|date| (IF_MODIFIED_SINCE, date)));
    }
    request
}

fn user_agent(ask: &Ask, config: &Config) -> HeaderValue {
    ask.identity.user_agent(config.fetch_as.as_ref(), config.contact.as_deref())
}

fn is_conditional(request: &Request<RequestBody>) -> bool {
    [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|field| request.headers().contains_key(field))
}

/// Classifies a failed request.
fn unsent(error: egress::Error, hops: u8) -> Result<Cause, Refused> {
    let failure = match error.failure {
        Failure::ConnectionLimit | Failure::NoRoute | Failure::Exhausted | Failure::Paced => {
            return Err(Refused(error));
        }
        Failure::AddressProhibited | Failure::HostProhibited | Failure::Loop if hops == 0 => {
            return Err(Refused(error));
        }
        Failure::AddressProhibited | Failure::HostProhibited | Failure::Loop => {
            NetworkFailure::RedirectRefused
        }
        Failure::NameNotFound if hops == 0 => NetworkFailure::NameNotFound,
        // A redirect may lead to another host.
        Failure::NameNotFound | Failure::Dns => NetworkFailure::Dns,
        Failure::DnsTimeout => NetworkFailure::DnsTimeout,
        Failure::Unroutable | Failure::ConnectionRefused => NetworkFailure::Connection,
        Failure::ConnectionTimeout | Failure::ResponseTimeout => NetworkFailure::Timeout,
        // The request has no body that could be incomplete.
        Failure::ConnectionTerminated
        | Failure::RequestIncomplete
        | Failure::RequestTimeout
        | Failure::Incomplete => NetworkFailure::CutShort,
        Failure::TlsCertificate | Failure::TlsProtocol => NetworkFailure::Tls,
        Failure::Protocol | Failure::HeaderTooLarge => NetworkFailure::InvalidResponse,
    };
    Ok(Cause::Failed { failure, detail: error.detail.into() })
}
