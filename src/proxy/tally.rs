//! What became of the requests, as numbers, for whoever sums up a run or watches the proxy. Every
//! request for a resource is counted once when it is asked and once by how it ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::foreign::Named;
use super::inside::Inside;
use crate::audit::Reason;
use crate::proxy::limits::ORIGINS_COUNTED_MAX;
use crate::runtime::clock;
use crate::runtime::histogram::{Histogram, HistogramCounts};
use crate::runtime::sharded_counters::ShardedCounters;
use crate::types::origin::Origin;

/// Shared by all workers.
#[derive(Debug, Default)]
pub struct Tally {
    /// By [`Counted`].
    numbers: ShardedCounters<4>,
    /// To the head of the answer.
    lengths: Histogram,
    /// Of that, how long the origin took for its answer.
    upstream: Histogram,
    /// A lock is nothing beside the record that each denial waits for.
    denied: Mutex<HashMap<Reason, u64>>,
    /// `None`: origins are not told apart. A set behind a lock is for those who want to know.
    origins: Option<Mutex<HashSet<Origin>>>,
    /// What runs inside a CONNECT.
    pub inside: Inside,
    /// Clients that have been named because they do not speak HTTP.
    pub(super) foreign: Named,
}

/// What is counted of all requests.
#[derive(Clone, Copy)]
enum Counted {
    Requests,
    Forwarded,
    Copies,
    Failed,
}

/// The numbers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    /// Passed on to their origin, and answered by it.
    pub forwarded: u64,
    /// Requests for a robots.txt that were answered from the copy that decides.
    pub copies: u64,
    /// Answered by an error of the origin's side or ours, or left by the client before the answer.
    pub failed: u64,
    /// By reason, the most frequent first.
    pub denied: Vec<(Reason, u64)>,
    /// Distinct origins, up to [`ORIGINS_COUNTED_MAX`].
    pub origins: usize,
    /// Clients and hosts where the client does not seem to trust the proxy's certificate, as far as the log names
    /// them.
    pub distrusting: u64,
}

/// A request that has been asked and has not ended. One that is dropped has failed.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    tally: &'a Tally,
    since: Instant,
    /// When the origin had the whole request.
    asked_at: Option<Instant>,
    ended: bool,
}

/// How a request ended that did not fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Forwarded,
    /// A request for a robots.txt was answered from the copy that decides.
    Copy,
    Denied(Reason),
}

impl Asked<'_> {
    /// It was asked before it was known whether it counts.
    pub(super) fn since(mut self, since: Instant) -> Self {
        self.since = since;
        self
    }

    /// The origin has had the whole request since then, and has answered it now.
    pub(super) fn answered(mut self, asked_at: Option<Instant>) -> Self {
        self.asked_at = asked_at;
        self
    }

    pub(super) fn ended(mut self, end: End) {
        self.ended = true;
        match end {
            End::Forwarded => self.tally.count(Counted::Forwarded),
            End::Copy => self.tally.count(Counted::Copies),
            End::Denied(reason) => *locked(&self.tally.denied).entry(reason).or_default() += 1,
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let now = clock::monotonic();
        self.tally.lengths.note(now - self.since);
        if let Some(asked_at) = self.asked_at {
            self.tally.upstream.note(now - asked_at);
        }
        if !self.ended {
            self.tally.count(Counted::Failed);
        }
    }
}

impl Tally {
    /// One that tells origins apart, too.
    pub fn of_origins() -> Self {
        Self { origins: Some(Mutex::default()), ..Self::default() }
    }

    pub(super) fn asked(&self, origin: &Origin) -> Asked<'_> {
        self.count(Counted::Requests);
        if let Some(origins) = &self.origins {
            let mut origins = locked(origins);
            if origins.len() < ORIGINS_COUNTED_MAX && !origins.contains(origin) {
                origins.insert(origin.clone());
            }
        }
        Asked { tally: self, since: clock::monotonic(), asked_at: None, ended: false }
    }

    fn count(&self, counted: Counted) {
        self.numbers.add(counted as usize, 1);
    }

    /// How long requests took to the head of their answer.
    pub fn lengths(&self) -> HistogramCounts {
        self.lengths.counts()
    }

    /// How long origins took for the head of their answer, once they had the whole request.
    pub fn upstream(&self) -> HistogramCounts {
        self.upstream.counts()
    }

    pub fn counts(&self) -> Counts {
        let mut denied: Vec<_> =
            locked(&self.denied).iter().map(|(reason, count)| (*reason, *count)).collect();
        denied.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let value = |counted| self.numbers.value(counted as usize);
        Counts {
            requests: value(Counted::Requests),
            forwarded: value(Counted::Forwarded),
            copies: value(Counted::Copies),
            failed: value(Counted::Failed),
            denied,
            origins: self.origins.as_ref().map_or(0, |origins| locked(origins).len()),
            distrusting: self.inside.distrusting(),
        }
    }
}

impl Counts {
    pub fn denied_in_all(&self) -> u64 {
        self.denied.iter().map(|(_, count)| count).sum()
    }

    /// Asked, and not ended yet.
    pub fn under_way(&self) -> u64 {
        self.requests
            .saturating_sub(self.forwarded + self.copies + self.failed + self.denied_in_all())
    }
}

/// Counts stay right even if somebody panicked while holding them.
fn locked<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn every_request_is_counted_once_by_how_it_ended() {
        let tally = Tally::of_origins();
        let ask = |host| tally.asked(&Origin::from_authority(Scheme::Http, host).unwrap());
        ask("a.example").ended(End::Forwarded);
        ask("b.example").ended(End::Copy);
        ask("a.example").ended(End::Denied(Reason::RobotsUnreachable));
        drop(ask("a.example"));
        let _open = ask("a.example");
        let counts = tally.counts();
        assert_eq!((counts.requests, counts.origins), (5, 2));
        assert_eq!(
            (counts.forwarded, counts.copies, counts.failed, counts.under_way()),
            (1, 1, 1, 1)
        );
        assert_eq!(counts.denied, [(Reason::RobotsUnreachable, 1)]);
    }
}
