//! The result of a fetch, applied to what is known of its origin.

use std::sync::Arc;

use super::entries::Entries;
use super::entry::Entry;
use super::fetch::FetchIdentity;
use super::landing::Before;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::types::client_key::ClientKey;

/// The result of a fetch. Large files are parsed on the blocking pool.
pub(super) struct Learnt {
    entries: Arc<Entries>,
    /// The entry that it builds on.
    known: Option<Arc<Entry>>,
    profile: Arc<Profile>,
    identity: FetchIdentity,
    fetched: Fetched,
    entry: Arc<Entry>,
}

impl Learnt {
    /// Applies `fetched` to `known`.
    pub(super) fn new(
        entries: Arc<Entries>,
        known: Option<Arc<Entry>>,
        profile: Arc<Profile>,
        identity: FetchIdentity,
        fetched: Fetched,
    ) -> Self {
        let builder = &entries.builder;
        let fetched = builder.parse_cache.shared(fetched);
        let entry = builder.after(known.as_deref(), &profile, &identity, fetched.clone());
        Self { entries, known, profile, identity, fetched, entry: Arc::new(entry) }
    }

    /// The state before this fetch, where `newest` is the current entry.
    pub(super) fn before(&self, newest: Option<&Arc<Entry>>, client: ClientKey) -> Before {
        Before {
            identity: self.identity.clone(),
            client,
            profile: Arc::clone(&self.profile),
            at: self.fetched.at,
            entry: newest.or(self.known.as_ref()).cloned(),
        }
    }

    /// Applies the fetch to `newest` instead, if that has changed. Its file is already parsed.
    pub(super) fn on_top_of(self, newest: Option<Arc<Entry>>) -> Arc<Entry> {
        let Self { entries, known, profile, identity, fetched, entry } = self;
        match newest.filter(|it| !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, it))) {
            None => entry,
            Some(newest) => {
                Arc::new(entries.builder.after(Some(&newest), &profile, &identity, fetched))
            }
        }
    }
}
