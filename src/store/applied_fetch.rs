//! The result of a fetch, applied to what is known of its origin.

use std::sync::Arc;

use super::entries::Entries;
use super::entry::{Entry, FetchedAs};
use super::fetch_listener::BeforeFetch;
use crate::policy::access::{AccessResult, CompletedFetch};
use crate::policy::profile::Profile;

/// The result of a fetch. Large files are parsed on the blocking pool.
pub(super) struct AppliedFetch {
    entries: Arc<Entries>,
    /// The entry that it builds on.
    known: Option<Arc<Entry>>,
    profile: Arc<Profile>,
    fetched_as: FetchedAs,
    fetched: CompletedFetch,
    entry: Arc<Entry>,
}

impl AppliedFetch {
    /// Applies `fetched` to `known`.
    pub(super) fn new(
        entries: Arc<Entries>,
        known: Option<Arc<Entry>>,
        profile: Arc<Profile>,
        fetched_as: FetchedAs,
        fetched: CompletedFetch,
    ) -> Self {
        let builder = &entries.builder;
        let fetched = builder.parse_cache.shared(fetched);
        let entry = builder.after(known.as_deref(), &profile, &fetched_as, fetched.clone());
        Self { entries, known, profile, fetched_as, fetched, entry: Arc::new(entry) }
    }

    /// Whether a parent proxy failed. Other proxies may go by another.
    pub(super) fn is_parent_failure(&self) -> bool {
        matches!(&self.fetched.result, AccessResult::Without(cause) if cause.is_of_parent())
    }

    /// The entry that it builds on if no other has completed meanwhile. One that has been forgotten
    /// has no part in the result; but a 304 is about its copy (RFC 9110 §15.4.5).
    pub(super) fn base(&self, is_forgotten: bool) -> Option<Arc<Entry>> {
        let confirms_copy = matches!(self.fetched.result, AccessResult::NotModified { .. });
        self.known.clone().filter(|_| !is_forgotten || confirms_copy)
    }

    /// The state before this fetch, where `base` is what it builds on.
    pub(super) fn before(&self, base: Option<Arc<Entry>>) -> BeforeFetch {
        BeforeFetch {
            fetched_as: self.fetched_as.clone(),
            profile: Arc::clone(&self.profile),
            at: self.fetched.at,
            entry: base,
        }
    }

    /// The entry after the fetch, applied to `base`. Its file is already parsed.
    pub(super) fn entry_on(self, base: Option<Arc<Entry>>) -> Arc<Entry> {
        let Self { entries, known, profile, fetched_as, fetched, entry } = self;
        if base.as_ref().map(Arc::as_ptr) == known.as_ref().map(Arc::as_ptr) {
            return entry;
        }
        Arc::new(entries.builder.after(base.as_deref(), &profile, &fetched_as, fetched))
    }
}
