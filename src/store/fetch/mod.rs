//! Fetches one robots.txt: redirects, timeout, size limit, decoding.
//!
//! Whatever the origin does, a fetch has a result ([`CompletedFetch`]) in bounded time and memory.
//! An incomplete file is a failure, never a shorter file. The request carries no cookies and no
//! credentials, and each hop passes the egress address policy.

mod answer;
mod decode;
mod failure;
mod fetch_request;
mod freshness;
mod head;
mod identity;
#[doc(hidden)]
pub mod probe;
mod redirect;
mod request;
mod source;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body as HttpBody;

use crate::egress::{self, AlwaysPermitted, Egress, Failure, RequestBody, Requester};
use crate::policy::access::{AccessResult, Cause, CompletedFetch, NetworkFailure};
use crate::runtime::box_future::box_future;
use crate::runtime::clock::Clock;
use crate::types::origin::{Origin, Scheme};
use failure::unsent;
pub use fetch_request::{Config, FetchRequest, FetchRobots, NotSent, Progress, Validators};
pub use identity::FetchIdentity;
use redirect::Chain;
use request::{ConditionResult, request, user_agent};
use source::Source;

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
        let loop_tokens = ask.loop_tokens.clone();
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
            let loop_tokens = loop_tokens.clone();
            async move {
                let requester =
                    Requester::robots(&client, &progress.queued).with_loop_tokens(&loop_tokens);
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
        let request = request(hop, condition, ask, config);
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
                    let freshness = freshness::freshness(response.headers(), clock.wall());
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
            return Ok(answer::read(response, chain, clock.wall(), config.max_size).await);
        }
        if let Err(cause) = chain.follow(response.status(), response.headers()) {
            return Ok(AccessResult::Without(cause));
        }
    }
}
