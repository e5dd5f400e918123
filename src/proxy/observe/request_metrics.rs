//! Counts of requests, for metrics and for the summary of a run. Each request for a resource is
//! counted once when it comes and once by how it ends.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use http::Response;
use lru::LruCache;
use tracing::{info, warn};

use super::access_log::AccessEntry;
use super::run_observer::{ObservedRequest, RunObserver};
use super::tls_metrics::TlsMetrics;
use crate::audit::Reason;
use crate::clients::Client;
use crate::proxy::connection::body::Body;
use crate::proxy::decision::decision_context::Subject;
use crate::proxy::destination::Target;
use crate::proxy::framing::foreign_protocol::ForeignProtocol;
use crate::proxy::rejection::{Refusal, Rejection};
use crate::runtime::clock;
use crate::runtime::counters::{Counters, Histogram, HistogramCounts};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    /// By [`Counter`].
    counters: Counters<4>,
    /// To the head of the response.
    durations: Histogram,
    /// Of that, the time from the whole request at the origin to the head of its response.
    upstream: Histogram,
    /// A lock costs little beside the record that each denial waits for.
    denied: Lock<HashMap<Reason, u64>>,
    /// `None`: requests are not counted by host, as that takes a lock for each.
    observer: Option<Arc<RunObserver>>,
    /// Connections of clients.
    pub connections: ConnectionMetrics,
    /// TLS of clients inside a CONNECT.
    pub tls: TlsMetrics,
    /// Log lines for clients that do not speak HTTP.
    pub foreign_protocols: ForeignProtocolLog,
    /// Log lines for clients that connect to an origin and send nothing.
    pub silent_clients: SilentClientLog,
}

/// A count of all requests.
#[derive(Clone, Copy)]
enum Counter {
    Requests,
    Forwarded,
    Copies,
    Failed,
}

/// A snapshot of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests.
    pub requests: u64,
    /// Forwarded to their origin, and answered by it.
    pub forwarded: u64,
    /// Requests for a robots.txt that were answered with the copy that decides.
    pub copies: u64,
    /// Answered with an error of the origin's side or the proxy's, or abandoned by the client.
    pub failed: u64,
    /// By reason, the most frequent first.
    pub denied: Vec<(Reason, u64)>,
    /// Clients and hosts that were logged because the client does not seem to trust the proxy's
    /// certificate.
    pub distrusting: u64,
}

/// A request that has come and has not ended. If it is dropped, it has failed.
#[derive(Debug)]
pub struct PendingRequest<'a> {
    metrics: &'a RequestMetrics,
    entry: &'a AccessEntry,
    observed: Option<Box<ObservedRequest>>,
    since: Instant,
    /// When the origin had the whole request.
    sent_at: Option<Instant>,
    ended: bool,
}

/// How a request that did not fail has ended.
#[derive(Clone, Copy, Debug)]
pub enum RequestOutcome {
    Forwarded,
    /// A request for a robots.txt was answered with the copy that decides.
    RobotsCopy,
    Denied(Reason),
}

impl PendingRequest<'_> {
    /// The request came at `since`, before it was known that it counts.
    pub fn since(mut self, since: Instant) -> Self {
        self.since = since;
        self
    }

    /// Counts the request by how it ended; one that was refused has failed.
    pub fn finish(
        self,
        result: Result<(RequestOutcome, Response<Body>), Refusal>,
    ) -> Result<Response<Body>, Refusal> {
        match &result {
            Ok((outcome, response)) => {
                self.answered(response.body().request_sent_at()).end(*outcome);
            }
            Err(Refusal::Denial(denial)) => {
                if let Some(observed) = &self.observed {
                    observed.note_denied(&denial.record);
                }
                self.end(RequestOutcome::Denied(denial.record.reason));
            }
            Err(Refusal::Rejection(rejection)) => self.reject(rejection),
        }
        result.map(|(_, response)| response)
    }

    /// The origin, which had the whole request at `sent_at`, has answered now.
    pub fn answered(mut self, sent_at: Option<Instant>) -> Self {
        self.sent_at = sent_at;
        self
    }

    /// It has failed, and its client learns why.
    fn reject(mut self, rejection: &Rejection) {
        if let Some(observed) = self.observed.take() {
            observed.note_rejected(rejection);
        }
    }

    /// Counts how the request has ended.
    pub fn end(mut self, outcome: RequestOutcome) {
        self.ended = true;
        if let Some(observed) = self.observed.take()
            && !matches!(outcome, RequestOutcome::Denied(_))
        {
            observed.note_answered(matches!(outcome, RequestOutcome::RobotsCopy));
        }
        match outcome {
            RequestOutcome::Forwarded => self.metrics.count(Counter::Forwarded),
            RequestOutcome::RobotsCopy => self.metrics.count(Counter::Copies),
            RequestOutcome::Denied(reason) => {
                *self.metrics.denied.lock().entry(reason).or_default() += 1
            }
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let now = clock::monotonic();
        self.metrics.durations.note(now - self.since);
        if let Some(sent_at) = self.sent_at {
            self.metrics.upstream.note(now - sent_at);
        }
        if !self.ended {
            self.metrics.count(Counter::Failed);
            if let Some(observed) = &self.observed {
                observed.note_left(self.entry.is_waiting());
            }
        }
    }
}

impl RequestMetrics {
    /// Metrics of a run, whose requests `observer` observes.
    pub fn observed_by(observer: Arc<RunObserver>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Counts a request for `subject`.
    pub fn begin<'a>(&'a self, subject: Subject<'_>, entry: &'a AccessEntry) -> PendingRequest<'a> {
        self.count(Counter::Requests);
        let observed = self.observer.as_ref().map(|observer| {
            let url = subject.url();
            Box::new(observer.begin(subject.origin(), url))
        });
        let since = clock::monotonic();
        PendingRequest { metrics: self, entry, observed, since, sent_at: None, ended: false }
    }

    /// Tells the observer, if there is one, of a request for a resource that is rejected before it
    /// counts.
    pub fn note_rejected(&self, target: &Target, rejection: &Rejection) {
        if let Some(observer) = &self.observer {
            let url = Subject::Resource(target).url();
            observer.begin(&target.origin, url).note_rejected(rejection);
        }
    }

    fn count(&self, counter: Counter) {
        self.counters.add(counter as usize, 1);
    }

    /// How long requests took to the head of the response.
    pub fn durations(&self) -> HistogramCounts {
        self.durations.counts()
    }

    /// How long origins took to the head of their response, from the end of the request.
    pub fn upstream(&self) -> HistogramCounts {
        self.upstream.counts()
    }

    /// A snapshot.
    pub fn counts(&self) -> RequestCounts {
        let mut denied: Vec<_> =
            self.denied.lock().iter().map(|(reason, count)| (*reason, *count)).collect();
        denied.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let value = |counter| self.counters.value(counter as usize);
        RequestCounts {
            requests: value(Counter::Requests),
            forwarded: value(Counter::Forwarded),
            copies: value(Counter::Copies),
            failed: value(Counter::Failed),
            denied,
            distrusting: self.tls.distrusting(),
        }
    }
}

impl RequestCounts {
    /// Denied requests, of all reasons.
    pub fn denied_in_all(&self) -> u64 {
        self.denied.iter().map(|(_, count)| count).sum()
    }

    /// Requests that have not ended yet.
    pub fn under_way(&self) -> u64 {
        self.requests
            .saturating_sub(self.forwarded + self.copies + self.failed + self.denied_in_all())
    }
}

// Counts of the connections of clients: by the listener that has accepted them, and by the
// protocol that they begin with. A rejected connection is among them.

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    /// By [`ListenerKind`].
    accepted: Counters<{ LISTENER_KINDS.len() }>,
    /// By [`ClientProtocol`].
    protocols: Counters<{ PROTOCOLS.len() }>,
}

const LISTENER_KINDS: [&str; 3] = ["proxy", "transparent", "sealed"];

const PROTOCOLS: [&str; 6] = ["http1", "http2", "tls", "socks5", "other", "none"];

/// The kind of the listener that has accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Of clients that are set up for a proxy (`listen.proxy`).
    Proxy,
    /// Of connections that are redirected (`listen.transparent`).
    Transparent,
    /// Of the network of a sealed run, all of which leads to the proxy.
    Sealed,
}

/// The protocol of the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    /// Also any other protocol, which is refused as HTTP/1.
    Http1,
    /// In clear, with prior knowledge.
    Http2,
    /// Whatever is inside.
    Tls,
    Socks5,
    /// None of them, on a listener that refuses nothing as HTTP/1.
    Other,
    /// The client has sent nothing, until it left or its time was over.
    None,
}

impl ConnectionMetrics {
    /// Counts one connection.
    pub fn count_accepted(&self, by: ListenerKind) {
        self.accepted.add(by as usize, 1);
    }

    /// Counts the protocol of one connection.
    pub fn count_protocol(&self, protocol: ClientProtocol) {
        self.protocols.add(protocol as usize, 1);
    }

    /// How many connections each kind of listener has accepted.
    pub fn accepted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        LISTENER_KINDS.into_iter().zip(self.accepted.values())
    }

    /// How many connections began with which protocol.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PROTOCOLS.into_iter().zip(self.protocols.values())
    }
}

// Log lines for clients that do not speak HTTP to the proxy's port. They are answered with 400,
// but few of them show the response, so the log says which address to configure.

/// The latest clients that are remembered as logged, for a protocol other than HTTP.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Logs each client once.
#[derive(Debug)]
pub struct ForeignProtocolLog(Lock<LruCache<ClientKey, ()>>);

impl Default for ForeignProtocolLog {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(CLIENTS_MAX)))
    }
}

impl ForeignProtocolLog {
    /// Logs that `client` speaks `protocol`, unless that client has a line already.
    pub fn log(&self, client: &Client, protocol: ForeignProtocol) {
        let before = self.0.lock().put(client.key(), ());
        if before.is_none() {
            warn!(client = %client.address, "a client does not speak HTTP: {}", protocol.detail());
        }
    }
}

// Log lines for clients of transparent listeners that have connected to an origin, and send nothing:
// in their protocol the server speaks first, so their port is one that should not be redirected. They
// have asked for nothing that could be denied, and have no record.

/// The latest destinations that are remembered as logged. Each costs a client
/// ten seconds.
const DESTINATIONS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Logs each destination once.
#[derive(Debug)]
pub struct SilentClientLog(Lock<LruCache<Box<str>, ()>>);

impl Default for SilentClientLog {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(DESTINATIONS_MAX)))
    }
}

impl SilentClientLog {
    /// Logs that `client` has sent nothing to `destination`, a host and a port, in time, unless that has
    /// a line already.
    pub fn log(&self, client: &Client, destination: &str) {
        if self.is_first(destination) {
            let client = client.address;
            info!(%client, "a client has connected to {destination} and sent nothing: closed");
        }
    }

    fn is_first(&self, destination: &str) -> bool {
        self.0.lock().put(destination.into(), ()).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::{Origin, Scheme};

    #[test]
    fn every_request_is_counted_once_by_how_it_ended() {
        let (metrics, entry) = (RequestMetrics::default(), AccessEntry::default());
        let origin = Origin::from_authority(Scheme::Http, "a.example").unwrap();
        let ask = || metrics.begin(Subject::Host(&origin), &entry);
        ask().end(RequestOutcome::Forwarded);
        ask().end(RequestOutcome::RobotsCopy);
        ask().end(RequestOutcome::Denied(Reason::RobotsUnreachable));
        drop(ask());
        let _open = ask();
        let counts = metrics.counts();
        assert_eq!(counts.requests, 5);
        assert_eq!(
            (counts.forwarded, counts.copies, counts.failed, counts.under_way()),
            (1, 1, 1, 1)
        );
        assert_eq!(counts.denied, [(Reason::RobotsUnreachable, 1)]);
    }

    #[test]
    fn each_has_its_own_word() {
        let metrics = ConnectionMetrics::default();
        let kinds = [ListenerKind::Proxy, ListenerKind::Transparent, ListenerKind::Sealed];
        kinds.into_iter().enumerate().for_each(|(place, kind)| {
            (0..=place).for_each(|_| metrics.count_accepted(kind));
        });
        let expected = [("proxy", 1), ("transparent", 2), ("sealed", 3)];
        assert_eq!(metrics.accepted().collect::<Vec<_>>(), expected);
        for protocol in [ClientProtocol::Http1, ClientProtocol::Socks5, ClientProtocol::None] {
            metrics.count_protocol(protocol);
        }
        let seen: Vec<_> = metrics.protocols().filter(|(_, count)| *count == 1).collect();
        assert_eq!(seen, [("http1", 1), ("socks5", 1), ("none", 1)]);
    }

    #[test]
    fn each_destination_is_logged_once() {
        let log = SilentClientLog::default();
        let [one, other] = ["192.0.2.1:80", "192.0.2.1:443"];
        let first: Vec<_> = [one, one, other, one, other].map(|it| log.is_first(it)).into();
        assert_eq!(first, [true, false, true, false, false]);
    }
}
