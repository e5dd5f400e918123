//! Where entries are kept: in memory, ready or compressed, and on disk. An entry is read from the
//! first tier that has it, and written to memory and disk.
//!
//! The lock is not held while an entry moves, and it leaves its tier only when it is in the other:
//! an origin that fits in memory is never missing in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::background::Background;
use super::compressed::{Compressed, Compressor};
use super::convert::Blobs;
use super::disk::{Disk, Found};
use super::entry::Entry;
use super::entry_builder::EntryBuilder;
use super::limits::PARSED_INLINE_BYTES_MAX;
use super::memory::{Candidate, Memory};
use super::persisted::Persisted;
use super::report::Report;
use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// Bytes of a robots.txt that are compressed on the worker that needs room: half a millisecond's
/// work. Larger ones are compressed on the blocking pool.
const COMPRESSED_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Origins compressed in a row before the worker's other tasks get a turn.
const COMPRESSED_AT_ONCE: usize = 4;

/// Held until the entry that the room was made for is stored; others wait for it.
pub(super) type Room = OwnedMutexGuard<Compressor>;

/// The tiers of the store.
pub(super) struct Tiers {
    state: Lock<State>,
    /// Held to make room in memory, until the new entry is stored.
    compressor: Arc<Mutex<Compressor>>,
    /// `None` without persistence.
    disk: Option<Disk>,
    pub(super) builder: EntryBuilder,
    pub(super) background: Background,
    /// Lookups that found the origin compressed.
    decompressed: AtomicU64,
}

/// What the lock guards.
pub(super) struct State {
    pub(super) memory: Memory,
    /// How often an operator had an origin forgotten.
    forgets: u64,
}

impl Tiers {
    pub(super) fn new(memory: Memory, disk: Option<Disk>) -> Self {
        Self {
            state: Lock::new(State { memory, forgets: 0 }),
            compressor: Arc::default(),
            disk,
            builder: EntryBuilder::default(),
            background: Background::default(),
            decompressed: AtomicU64::new(0),
        }
    }

    /// The entries in memory. No code path leaves them inconsistent, so poison is ignored.
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) const fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// How many lookups found the origin compressed.
    pub(super) fn decompressed(&self) -> u64 {
        self.decompressed.load(Ordering::Relaxed)
    }

    /// Finds `origin` in the compressed tier or on disk, also under `asking`, and makes it ready.
    pub(super) async fn recall(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
        client: &ClientKey,
    ) -> Option<Arc<Entry>> {
        match self.decompress(origin, asking).await {
            Some(entry) => Some(entry),
            None => self.load(origin, asking, client).await,
        }
    }

    /// Decompresses `origin`, derives its state under `asking`, and makes it ready.
    pub(super) async fn decompress(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
    ) -> Option<Arc<Entry>> {
        let compressed = self.lock().memory.use_compressed(origin)?;
        let is_large = compressed.bytes() > PARSED_INLINE_BYTES_MAX;
        let restore = {
            let (tiers, asking) = (Arc::clone(self), Arc::clone(asking));
            let (origin, compressed) = (origin.clone(), compressed.clone());
            move || {
                let (persisted, blobs) = tiers.open(&origin, &compressed)?;
                tiers.builder.restore_under(&asking, persisted, blobs)
            }
        };
        let restored = if is_large { self.background.run(restore).await? } else { restore() };
        let Some((entry, is_new)) = restored else {
            tracing::error!(%origin, "the compressed data of this origin is invalid, and is removed");
            self.lock().memory.drop_compressed(origin, &compressed);
            return None;
        };
        self.decompressed.fetch_add(1, Ordering::Relaxed);
        let _room = self.make_room(&entry).await;
        let Some(ready) = self.lock().memory.decompress(origin, &compressed, &entry) else {
            return Some(entry);
        };
        if is_new {
            // The compressed form lacks the new profile.
            self.lock().memory.drop_compressed(origin, &compressed);
            self.write(origin, &ready);
        }
        Some(ready)
    }

    /// Loads `origin` from disk, also under `asking`.
    async fn load(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
        client: &ClientKey,
    ) -> Option<Arc<Entry>> {
        let forgets = self.lock().forgets;
        let (tiers, profile) = (Arc::clone(self), Arc::clone(asking));
        let restore = move |found| match found {
            Found::Queued(entry) => Some(tiers.builder.under(&profile, entry)),
            Found::Stored(persisted, blobs) => {
                tiers.builder.restore_under(&profile, *persisted, blobs)
            }
        };
        let (entry, is_new) = self.disk.as_ref()?.find(origin, client, restore).await?;
        if is_new {
            self.write(origin, &entry);
        }
        let _room = self.make_room(&entry).await;
        let mut state = self.lock();
        // An operator may have had this origin forgotten meanwhile.
        if state.forgets == forgets {
            state.memory.put(origin, Arc::clone(&entry));
        }
        Some(entry)
    }

    /// Replaces `old` by `new` in memory and on disk, if `old` is still the ready entry.
    pub(super) async fn replace(&self, origin: &Origin, old: &Arc<Entry>, new: &Arc<Entry>) {
        let _room = self.make_room(new).await;
        if self.lock().memory.replace(origin, old, Arc::clone(new)) {
            self.write(origin, new);
        }
    }

    /// Records whether the site's pages respond. Returns the ready entry if that changed it.
    pub(super) fn note_site(&self, origin: &Origin, is_up: bool) -> Option<Arc<Entry>> {
        let mut state = self.lock();
        if let Some(entry) = state.memory.update(origin, |entry| entry.with_site(is_up)) {
            drop(state);
            self.write(origin, &entry);
            return Some(entry);
        }
        let compressed = state.memory.note_site_of_compressed(origin, is_up)?;
        drop(state);
        self.write_compressed(origin, &compressed);
        None
    }

    /// Queues the entry of `origin` for writing to disk.
    pub(super) fn write(&self, origin: &Origin, entry: &Arc<Entry>) {
        if let Some(disk) = &self.disk {
            disk.put(origin, entry);
        }
    }

    /// Queues the compressed form of `origin` for writing to disk.
    fn write_compressed(&self, origin: &Origin, compressed: &Compressed) {
        let restore = |(persisted, blobs)| self.builder.restore(persisted, blobs);
        let opened = self.disk.as_ref().and_then(|_| self.open(origin, compressed));
        let Some(entry) = opened.and_then(restore) else { return };
        // A newer entry is written by the task that stored it.
        if self.lock().memory.is_compressed(origin, compressed) {
            self.write(origin, &entry);
        }
    }

    /// What is known of `origin`, in memory or on disk.
    pub(super) async fn report(&self, origin: &Origin) -> Option<Report> {
        let report = |(persisted, blobs)| Report::new(origin.to_string(), persisted, &blobs);
        let (ready, compressed) = {
            let state = self.lock();
            (state.memory.peek(origin).cloned(), state.memory.compressed(origin).cloned())
        };
        let held = ready.map(|entry| entry.persist());
        if let Some(held) = held.or_else(|| self.open(origin, &compressed?)) {
            return Some(report(held));
        }
        let read = |found| {
            Some(match found {
                Found::Queued(entry) => entry.persist(),
                Found::Stored(persisted, blobs) => (*persisted, blobs),
            })
        };
        self.disk.as_ref()?.find(origin, &ClientKey::Proxy, read).await.map(report)
    }

    /// Removes `origin` from memory and disk; `also` runs under the same lock.
    pub(super) fn forget(&self, origin: &Origin, also: impl FnOnce()) {
        if let Some(disk) = &self.disk {
            disk.forget(origin);
        }
        let mut state = self.lock();
        state.memory.remove(origin);
        also();
        state.forgets += 1;
    }

    /// Compresses the least recently used entries until `entry` fits in the ready tier.
    pub(super) async fn make_room(&self, entry: &Entry) -> Room {
        let bytes = entry.weight_when_ready();
        let mut room = Arc::clone(&self.compressor).lock_owned().await;
        for number in 1.. {
            let Some(candidate) = self.lock().memory.next_to_compress(bytes) else { return room };
            let candidate = Arc::new(candidate);
            let (compressed, room_again) = compress(room, &candidate).await;
            room = match room_again {
                Some(room) => room,
                None => Arc::clone(&self.compressor).lock_owned().await,
            };
            match compressed {
                Some(compressed) => self.lock().memory.compress(&candidate, compressed),
                // Without a compressed form, the entry is evicted as it is.
                None => break,
            }
            if number % COMPRESSED_AT_ONCE == 0 {
                // Lets others proceed before this worker continues.
                drop(room);
                tokio::task::yield_now().await;
                room = Arc::clone(&self.compressor).lock_owned().await;
            }
        }
        room
    }

    /// Decompresses, and shares the file's bytes with other entries.
    fn open(&self, origin: &Origin, compressed: &Compressed) -> Option<(Persisted, Blobs)> {
        compressed.open(origin, |sha256| self.builder.parse_cache.body(sha256))
    }
}

/// Compresses a large file on the blocking pool. The guard is lost if that thread panics.
async fn compress(
    mut room: Room,
    candidate: &Arc<Candidate>,
) -> (Option<Compressed>, Option<Room>) {
    let candidate = Arc::clone(candidate);
    let bytes = candidate.entry.snapshot().map_or(0, |snapshot| snapshot.body.len());
    let compress = move || {
        let Candidate { origin, entry, file } = &*candidate;
        (room.compress(origin, entry, file.clone()), room)
    };
    if bytes <= COMPRESSED_INLINE_BYTES_MAX {
        let (compressed, room) = compress();
        return (compressed, Some(room));
    }
    let compressed = tokio::task::spawn_blocking(compress).await;
    compressed.map_or((None, None), |(compressed, room)| (compressed, Some(room)))
}
