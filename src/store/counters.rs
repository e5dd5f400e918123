//! Counters of the store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::access::{AccessResult, Cause, CompletedFetch};
use crate::runtime::histogram::{Histogram, HistogramCounts};
use crate::store::fetch::NotSent;

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
}
