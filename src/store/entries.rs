//! Where entries are kept: in memory and on disk. An entry is read from memory or, if it has been
//! evicted there, from disk; it is written to both under one lock, so that both get the same one
//! last.

use std::sync::{Arc, MutexGuard};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::counters::Report;
use super::disk::{Disk, Found};
use super::entry::{Entry, FetchedAs};
use super::fetch_listener::BeforeFetch;
use super::memory::{Memory, ParseCache};
use super::persisted::{Blobs, Persisted};
use crate::audit::PROFILES_PER_ORIGIN_MAX;
use crate::policy::access::{AccessResult, CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::robots::{Dialect, RobotsTxt};
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// The entries of the store.
pub(super) struct Entries {
    state: Lock<LockedEntries>,
    /// `None` without persistence.
    disk: Option<Disk>,
    pub(super) builder: EntryBuilder,
    pub(super) background: Background,
}

/// What the lock guards.
pub(super) struct LockedEntries {
    pub(super) memory: Memory,
    /// Counts the origins that an operator had forgotten: a load that began before one does not
    /// write its result back.
    forgets: u64,
}

impl Entries {
    pub(super) fn new(memory: Memory, disk: Option<Disk>) -> Self {
        Self {
            state: Lock::new(LockedEntries { memory, forgets: 0 }),
            disk,
            builder: EntryBuilder::default(),
            background: Background::default(),
        }
    }

    /// The entries in memory.
    pub(super) fn lock(&self) -> MutexGuard<'_, LockedEntries> {
        self.state.lock()
    }

    pub(super) const fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Stores `entry` in memory, and queues it for writing to disk.
    pub(super) fn put(&self, state: &mut LockedEntries, origin: &Origin, entry: &Arc<Entry>) {
        state.memory.put(origin, Arc::clone(entry));
        if let Some(disk) = &self.disk {
            disk.put(origin, entry);
        }
    }

    /// Loads `origin` from disk into memory, with a state for `profile`.
    pub(super) async fn load(
        self: &Arc<Self>,
        origin: &Origin,
        profile: &Arc<Profile>,
    ) -> Option<Arc<Entry>> {
        let forgets = self.lock().forgets;
        let (entries, profile) = (Arc::clone(self), Arc::clone(profile));
        let Found { token, persisted, blobs } = self.disk.as_ref()?.find(origin).await?;
        let restore = move || entries.builder.restore_for(&profile, persisted, blobs);
        let (entry, is_new) = self.background.run(restore).await??;
        let entry = Arc::new(Entry { token, ..Entry::clone(&entry) });
        let mut state = self.lock();
        // An operator may have had this origin forgotten meanwhile.
        if state.forgets == forgets {
            if is_new {
                self.put(&mut state, origin, &entry);
            } else {
                state.memory.put(origin, Arc::clone(&entry));
            }
        }
        Some(entry)
    }

    /// Replaces `old` by `new`, if `old` is still the entry in memory.
    pub(super) fn replace(&self, origin: &Origin, old: &Arc<Entry>, new: &Arc<Entry>) {
        let mut state = self.lock();
        if state.memory.peek(origin).is_some_and(|entry| Arc::ptr_eq(entry, old)) {
            self.put(&mut state, origin, new);
        }
    }

    /// Records whether the site's pages respond. Returns the entry if that changed it.
    pub(super) fn note_site(&self, origin: &Origin, is_up: bool) -> Option<Arc<Entry>> {
        let mut state = self.lock();
        let entry = Arc::new(state.memory.peek(origin)?.with_site(is_up)?);
        self.put(&mut state, origin, &entry);
        Some(entry)
    }

    /// What is known of `origin`, in memory or on disk.
    pub(super) async fn report(&self, origin: &Origin) -> Option<Report> {
        let in_memory = self.lock().memory.peek(origin).cloned();
        if let Some(entry) = in_memory {
            let (persisted, blobs) = entry.persist();
            return Some(Report::new(origin.to_string(), persisted, &blobs));
        }
        Some(self.disk.as_ref()?.find(origin).await?.report(origin))
    }

    /// Removes `origin` from memory and disk; `also` runs under the same lock.
    pub(super) fn forget(&self, origin: &Origin, also: impl FnOnce()) {
        let mut state = self.lock();
        if let Some(disk) = &self.disk {
            disk.0.forget(origin);
        }
        state.memory.remove(origin);
        state.forgets += 1;
        also();
    }
}

/// How many large files are parsed at a time; each takes some megabytes meanwhile.
const PARSED_MAX: usize = 4;

/// Bounds the concurrent work.
#[derive(Clone, Debug)]
pub(super) struct Background(Arc<Semaphore>);

impl Background {
    /// Runs `work` when a permit is free. `None` if the runtime shuts down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        // The work continues after its caller has left, so the permit moves with it.
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PARSED_MAX)))
    }
}

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
        Entry::after(known, profile, fetched_as, fetched, fastrand::f64(), &self.read())
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
        (Arc::new(entry.with_profile(profile, fastrand::f64(), &self.read())), true)
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
        Entry::restore(persisted, &blobs, profiles, fastrand::f64(), &self.read()).map(Arc::new)
    }

    fn read(&self) -> impl Fn(&Snapshot, &Dialect) -> Arc<RobotsTxt> {
        |snapshot, dialect| self.parse_cache.read(snapshot, dialect)
    }
}
