//! Builds entries: from a fetch, for one more profile, or from their persisted form.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::convert::Blobs;
use super::entry::{Entry, FetchedAs};
use super::parse_cache::ParseCache;
use super::persisted::Persisted;
use crate::audit::limits::PROFILES_PER_ORIGIN_MAX;
use crate::policy::access::{CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::robots::{Dialect, RobotsTxt};
use crate::runtime::lock::Lock;

/// What entries are built with.
#[derive(Debug, Default)]
pub(super) struct EntryBuilder {
    pub(super) parse_cache: ParseCache,
    /// The profiles in use, as set by [`Self::set_profiles`].
    profiles: Lock<Vec<Arc<Profile>>>,
}

impl EntryBuilder {
    /// Sets the profiles for which restored entries get a state. Replaces the earlier ones.
    pub(super) fn set_profiles<'a>(&self, profiles: impl IntoIterator<Item = &'a Arc<Profile>>) {
        let mut known = self.profiles.lock();
        known.clear();
        for profile in profiles {
            if !known.contains(profile) && known.len() < PROFILES_PER_ORIGIN_MAX {
                known.push(Arc::clone(profile));
            }
        }
    }

    /// The entry after `fetched`.
    pub(super) fn after(
        &self,
        known: Option<&Entry>,
        profile: &Arc<Profile>,
        fetched_as: &FetchedAs,
        fetched: CompletedFetch,
    ) -> Entry {
        Entry::after(known, profile, fetched_as, fetched, jitter(), &self.read())
    }

    /// The entry with a state for `profile`, and whether that is new.
    pub(super) fn derive_for(
        &self,
        profile: &Arc<Profile>,
        entry: Arc<Entry>,
    ) -> (Arc<Entry>, bool) {
        if entry.has_state_for(profile) {
            return (entry, false);
        }
        (Arc::new(entry.with_profile(profile, jitter(), &self.read())), true)
    }

    /// The restored entry with a state for `profile` as well, and whether that is new.
    pub(super) fn restore_for(
        &self,
        profile: &Arc<Profile>,
        persisted: Persisted,
        blobs: Blobs,
    ) -> Option<(Arc<Entry>, bool)> {
        let mut profiles = self.profiles.lock().clone();
        if !profiles.contains(profile) {
            profiles.push(Arc::clone(profile));
        }
        let entry = self.restore(&profiles, persisted, blobs)?;
        Some(self.derive_for(profile, entry))
    }

    /// The restored entry, with states for `profiles` as by [`Entry::restore`].
    pub(super) fn restore(
        &self,
        profiles: &[Arc<Profile>],
        persisted: Persisted,
        mut blobs: Blobs,
    ) -> Option<Arc<Entry>> {
        for digest in persisted.files() {
            if let Some(body) = blobs.get_mut(&digest) {
                *body = self.parse_cache.share(digest.0, body);
            }
        }
        Entry::restore(persisted, &blobs, profiles, jitter(), &self.read()).map(Arc::new)
    }

    fn read(&self) -> impl Fn(&Snapshot, &Dialect) -> Arc<RobotsTxt> {
        |snapshot, dialect| self.parse_cache.read(snapshot, dialect)
    }
}

/// From 0 to 1. It only has to differ between calls, so the hasher's random keys suffice.
pub(super) fn jitter() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(0) >> 48).unwrap_or(0))
        / f64::from(u16::MAX)
}
