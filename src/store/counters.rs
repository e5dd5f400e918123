//! Counters of the store.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::fetch::NotSent;
use super::persisted::{Blobs, Persisted};
use crate::pace::{KeptHold, LaneView};
use crate::policy::access::{AccessResult, Cause, CompletedFetch};
use crate::robots::{self, Dialect};
use crate::runtime::counters::{Histogram, HistogramCounts};
use crate::types::origin::Origin;

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Origins in memory.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Distinct parsed files in memory, by content and dialect.
    pub parsed: usize,
    /// Fetches in flight or queued.
    pub flights: usize,
    /// Requests that wait for a fetch.
    pub waiters: usize,
    /// Lookups that memory answered.
    pub hits: u64,
    /// Lookups that waited.
    pub misses: u64,
    /// Fetches that were begun.
    pub fetches: u64,
    /// How long lookups waited that missed memory.
    pub waits: HistogramCounts,
}

#[derive(Default)]
pub(super) struct Counters {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub fetches: AtomicU64,
    pub waits: Histogram,
    results: [AtomicU64; RESULTS.len()],
}

/// How a fetch can end: the words of the audit record, status codes by class, and two without a
/// result: not sent (`refused`), and cancelled (`aborted`).
const RESULTS: [&str; 22] = [
    "successful",
    "not_modified",
    "status_4xx",
    "status_5xx",
    "status_other",
    "too_many_redirects",
    "redirect_loop",
    "redirect_without_location",
    "name_not_found",
    "dns_error",
    "dns_timeout",
    "connection_failed",
    "tls_error",
    "timeout",
    "cut_short",
    "invalid_response",
    "undecodable",
    "redirect_refused",
    "not_robots_txt",
    "parent_failed",
    "refused",
    "aborted",
];

/// A fetch in flight. Counted as aborted unless [`Self::ended`] is called.
pub(super) struct CountedFetch<'a> {
    counters: &'a Counters,
    result: &'static str,
}

impl Counters {
    pub(super) fn begin(&self) -> CountedFetch<'_> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        CountedFetch { counters: self, result: "aborted" }
    }

    /// The number of fetches by result, including those at zero.
    pub(super) fn results(&self) -> [(&'static str, u64); RESULTS.len()] {
        std::array::from_fn(|place| (RESULTS[place], self.results[place].load(Ordering::Relaxed)))
    }
}

impl CountedFetch<'_> {
    pub(super) fn ended(mut self, ended: &Result<CompletedFetch, NotSent>) {
        self.result = match ended {
            Err(NotSent(_)) => "refused",
            Ok(fetched) => word(&fetched.result),
        };
    }
}

impl Drop for CountedFetch<'_> {
    fn drop(&mut self) {
        let place =
            RESULTS.iter().position(|result| *result == self.result).expect("a word of the table");
        self.counters.results[place].fetch_add(1, Ordering::Relaxed);
    }
}

fn word(result: &AccessResult) -> &'static str {
    match result {
        AccessResult::Without(Cause::Status { code: 400..500, .. }) => "status_4xx",
        AccessResult::Without(Cause::Status { code: 500..600, .. }) => "status_5xx",
        AccessResult::Without(Cause::Status { .. }) => "status_other",
        result => result.word(),
    }
}

/// What is known of one origin, as shown to operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub origin: String,
    #[serde(flatten)]
    pub persisted: Persisted,
    /// The number of lines of the file that [`Persisted::shown`] has, if it was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// When requests may start there, if that is not at once; of a running proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<LaneView>,
    /// What the engine has of it; of a running proxy that shares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<EngineReport>,
}

/// What the engine has of one origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Why the engine does not respond; the rest says nothing then.
    pub fault: Option<String>,
    /// What a proxy has published last.
    pub known: Option<Persisted>,
    /// How many proxies send requests there.
    pub proxies: usize,
    /// The hold that all proxies obey.
    pub hold: Option<KeptHold>,
}

impl Report {
    /// Of an origin that is not in this proxy's store.
    pub fn unknown(origin: &Origin) -> Self {
        Self::new(origin.to_string(), Persisted::default(), &Blobs::default())
    }

    pub(super) fn new(origin: String, persisted: Persisted, blobs: &Blobs) -> Self {
        let (_, shown) = persisted.clone().shown();
        let file = shown.good.as_ref().and_then(|good| blobs.get(&good.file.sha256));
        Self {
            origin,
            lines: file.map(|file| line_count(file)),
            persisted,
            pace: None,
            shared: None,
        }
    }
}

/// A final line end starts no further line.
fn line_count(file: &[u8]) -> usize {
    let is_open = file.last().is_some_and(|byte| !b"\r\n".contains(byte));
    robots::lines(file, &Dialect::RFC9309).count().saturating_sub(usize::from(!is_open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::access::NetworkFailure;

    /// A word that is missing in the table would panic.
    #[test]
    fn every_result_is_a_word_of_the_table() {
        let counters = Counters::default();
        let failed = NetworkFailure::ALL.map(|failure| Cause::failed(failure, ""));
        let status = [304, 404, 503, 999].map(|code| Cause::Status { code, retry_after: None });
        let redirects = [
            Cause::TooManyRedirects { limit: 5 },
            Cause::RedirectLoop,
            Cause::RedirectWithoutLocation { code: 301 },
        ];
        for cause in failed.into_iter().chain(status).chain(redirects) {
            CountedFetch { counters: &counters, result: word(&AccessResult::Without(cause)) };
        }
        CountedFetch {
            counters: &counters,
            result: word(&AccessResult::NotModified { freshness: Default::default() }),
        };
        drop(counters.begin());
        let counted: u64 = counters.results().iter().map(|(_, count)| count).sum();
        assert_eq!(counted, NetworkFailure::ALL.len() as u64 + 4 + 3 + 1 + 1);
        for (result, expected) in
            [("status_other", 2), ("status_4xx", 1), ("aborted", 1), ("refused", 0)]
        {
            assert!(counters.results().contains(&(result, expected)), "{result}");
        }
    }

    #[test]
    fn lines_are_counted_as_people_do() {
        let files = [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("a\rb\r", 2), ("\n\n", 2)];
        for (file, count) in files {
            assert_eq!(line_count(file.as_bytes()), count, "{file:?}");
        }
    }
}
