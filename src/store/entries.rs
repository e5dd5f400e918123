//! Where entries are kept: in memory and on disk. An entry is read from memory or, if it has been
//! evicted there, from disk; it is written to both under one lock, so that both get the same one
//! last.

use std::sync::{Arc, MutexGuard};

use super::background::Background;
use super::disk::{Disk, Found};
use super::entry::Entry;
use super::entry_builder::EntryBuilder;
use super::memory::Memory;
use super::report::Report;
use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;
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
        client: &ClientKey,
    ) -> Option<Arc<Entry>> {
        let forgets = self.lock().forgets;
        let (entries, profile) = (Arc::clone(self), Arc::clone(profile));
        let restore = move |found| match found {
            Found::Queued(entry) => Some(entries.builder.derive_for(&profile, entry)),
            Found::Stored(persisted, blobs) => {
                entries.builder.restore_for(&profile, *persisted, blobs)
            }
        };
        let (entry, is_new) = self.disk.as_ref()?.find(origin, client, restore).await?;
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
        let (persisted, blobs) = match in_memory {
            Some(entry) => entry.persist(),
            None => {
                let read = |found| {
                    Some(match found {
                        Found::Queued(entry) => entry.persist(),
                        Found::Stored(persisted, blobs) => (*persisted, blobs),
                    })
                };
                self.disk.as_ref()?.find(origin, &ClientKey::Proxy, read).await?
            }
        };
        Some(Report::new(origin.to_string(), persisted, &blobs))
    }

    /// Removes `origin` from memory and disk; `also` runs under the same lock.
    pub(super) fn forget(&self, origin: &Origin, also: impl FnOnce()) {
        let mut state = self.lock();
        if let Some(disk) = &self.disk {
            disk.forget(origin);
        }
        state.memory.remove(origin);
        state.forgets += 1;
        also();
    }
}
