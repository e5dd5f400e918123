//! Moves entries between the tiers of memory: compresses to make room, decompresses on a lookup.
//!
//! The lock is not held meanwhile, and an entry leaves its tier only when it is in the other: an
//! origin that fits in memory is never missing in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedMutexGuard;

use super::Store;
use super::cache::Candidate;
use super::entry::Entry;
use super::knowledge::Knowledge;
use super::pack::{Pack, Packer};
use super::restore::Blobs;
use crate::policy::profile::Profile;
use crate::store::limits::PARSED_INLINE_BYTES_MAX;
use crate::types::origin::Origin;

/// Bytes of a robots.txt that are packed where room is needed: half a millisecond's work. More is done on a
/// thread that serves nobody.
const PACKED_INLINE_BYTES_MAX: usize = 16 * 1024;

/// How many origins are packed in one go, before others of the worker's clients have their turn.
const PACKED_AT_ONCE: usize = 4;

/// Held until the entry that the room was made for is stored; others wait for it.
pub(super) type Turn = OwnedMutexGuard<Packer>;

impl Store {
    /// Compresses the least recently used entries until `entry` fits in the ready tier.
    pub(super) async fn make_room(&self, entry: &Entry) -> Turn {
        let bytes = entry.weight_when_ready();
        let mut turn = Arc::clone(&self.packer).lock_owned().await;
        for number in 1.. {
            let Some(candidate) = self.shelf().cache.next_to_pack(bytes) else { return turn };
            let candidate = Arc::new(candidate);
            let (pack, turn_again) = pack(turn, &candidate).await;
            turn = match turn_again {
                Some(turn) => turn,
                None => Arc::clone(&self.packer).lock_owned().await,
            };
            match pack {
                Some(pack) => self.shelf().cache.pack(&candidate, pack),
                // Without a compressed form, the entry is evicted as it is.
                None => break,
            }
            if number % PACKED_AT_ONCE == 0 {
                // Lets others proceed before this worker continues.
                drop(turn);
                tokio::task::yield_now().await;
                turn = Arc::clone(&self.packer).lock_owned().await;
            }
        }
        turn
    }

    /// Decompresses `origin`, derives its state under `asking`, and makes it ready.
    pub(super) async fn unpack(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
    ) -> Option<Arc<Entry>> {
        let pack = self.shelf().cache.use_packed(origin)?;
        let is_large = pack.bytes() > PARSED_INLINE_BYTES_MAX;
        let revive = {
            let (store, asking) = (Arc::clone(self), Arc::clone(asking));
            let (origin, pack) = (origin.clone(), pack.clone());
            move || {
                let (knowledge, blobs) = store.open(&origin, &pack)?;
                store.revive(knowledge, blobs, &asking)
            }
        };
        let revived = if is_large { self.apart.run(revive).await? } else { revive() };
        let Some((entry, is_new)) = revived else {
            tracing::error!(%origin, "what memory has packed of an origin is broken: it is forgotten");
            self.shelf().cache.drop_pack(origin, &pack);
            return None;
        };
        self.counters.unpacked.fetch_add(1, Ordering::Relaxed);
        let _turn = self.make_room(&entry).await;
        let Some(ready) = self.shelf().cache.unpack(origin, &pack, &entry) else {
            return Some(entry);
        };
        if is_new {
            // The compressed form lacks the new profile.
            self.shelf().cache.drop_pack(origin, &pack);
            self.keep(origin, &ready);
        }
        Some(ready)
    }

    /// Queues the compressed form of `origin` for writing to disk.
    pub(super) fn keep_packed(&self, origin: &Origin, pack: &Pack) {
        let profiles = self.profiles().clone();
        let restore = |(knowledge, blobs)| self.restore(knowledge, blobs, &profiles);
        let Some(entry) =
            self.disk.as_ref().and_then(|_| self.open(origin, pack)).and_then(restore)
        else {
            return;
        };
        // A newer entry is written by the task that stored it.
        if self.shelf().cache.is_packed(origin, pack) {
            self.keep(origin, &entry);
        }
    }

    /// Decompresses, and shares the file's bytes with other entries.
    pub(super) fn open(&self, origin: &Origin, pack: &Pack) -> Option<(Knowledge, Blobs)> {
        pack.unpack(origin, |sha256| self.parsed.body(sha256))
    }
}

/// Compresses a large file on the blocking pool. The guard is lost if that thread panics.
async fn pack(mut turn: Turn, candidate: &Arc<Candidate>) -> (Option<Pack>, Option<Turn>) {
    let candidate = Arc::clone(candidate);
    let bytes = candidate.entry.snapshot().map_or(0, |snapshot| snapshot.body.len());
    let pack = move || {
        let Candidate { origin, entry, file } = &*candidate;
        (turn.pack(origin, entry, file.clone()), turn)
    };
    if bytes <= PACKED_INLINE_BYTES_MAX {
        let (pack, turn) = pack();
        return (pack, Some(turn));
    }
    let packed = tokio::task::spawn_blocking(pack).await;
    packed.map_or((None, None), |(pack, turn)| (pack, Some(turn)))
}
