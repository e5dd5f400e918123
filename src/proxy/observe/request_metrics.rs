//! Counts of requests, for metrics and for the summary of a run. Each request for a resource is
//! counted once when it comes and once by how it ends.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use http::Response;

use super::connection_metrics::ConnectionMetrics;
use super::foreign_protocol_log::ForeignProtocolLog;
use super::silent_client_log::SilentClientLog;
use super::tls_metrics::TlsMetrics;
use crate::audit::Reason;
use crate::proxy::connection::state::body::Body;
use crate::proxy::limits::ORIGINS_COUNTED_MAX;
use crate::proxy::outcome::refusal::Refusal;
use crate::runtime::clock;
use crate::runtime::counters::{Counters, Histogram, HistogramCounts};
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

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
    /// `None`: distinct origins are not counted, as that takes a lock for each request.
    origins: Option<Lock<HashSet<Origin>>>,
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
    /// Distinct origins, up to [`ORIGINS_COUNTED_MAX`].
    pub origins: usize,
    /// Clients and hosts that were logged because the client does not seem to trust the proxy's
    /// certificate.
    pub distrusting: u64,
}

/// A request that has come and has not ended. If it is dropped, it has failed.
#[derive(Debug)]
pub struct PendingRequest<'a> {
    metrics: &'a RequestMetrics,
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
            Err(Refusal::Denial(denial)) => self.end(RequestOutcome::Denied(denial.record.reason)),
            Err(Refusal::Rejection(_)) => drop(self),
        }
        result.map(|(_, response)| response)
    }

    /// The origin, which had the whole request at `sent_at`, has answered now.
    pub fn answered(mut self, sent_at: Option<Instant>) -> Self {
        self.sent_at = sent_at;
        self
    }

    /// Counts how the request has ended.
    pub fn end(mut self, outcome: RequestOutcome) {
        self.ended = true;
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
        }
    }
}

impl RequestMetrics {
    /// Metrics that count distinct origins, too.
    pub fn with_origins() -> Self {
        Self { origins: Some(Lock::default()), ..Self::default() }
    }

    /// Counts a request for a resource of `origin`.
    pub fn begin(&self, origin: &Origin) -> PendingRequest<'_> {
        self.count(Counter::Requests);
        if let Some(origins) = &self.origins {
            let mut origins = origins.lock();
            if origins.len() < ORIGINS_COUNTED_MAX && !origins.contains(origin) {
                origins.insert(origin.clone());
            }
        }
        PendingRequest { metrics: self, since: clock::monotonic(), sent_at: None, ended: false }
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
            origins: self.origins.as_ref().map_or(0, |origins| origins.lock().len()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn every_request_is_counted_once_by_how_it_ended() {
        let metrics = RequestMetrics::with_origins();
        let ask = |host| metrics.begin(&Origin::from_authority(Scheme::Http, host).unwrap());
        ask("a.example").end(RequestOutcome::Forwarded);
        ask("b.example").end(RequestOutcome::RobotsCopy);
        ask("a.example").end(RequestOutcome::Denied(Reason::RobotsUnreachable));
        drop(ask("a.example"));
        let _open = ask("a.example");
        let counts = metrics.counts();
        assert_eq!((counts.requests, counts.origins), (5, 2));
        assert_eq!(
            (counts.forwarded, counts.copies, counts.failed, counts.under_way()),
            (1, 1, 1, 1)
        );
        assert_eq!(counts.denied, [(Reason::RobotsUnreachable, 1)]);
    }
}
