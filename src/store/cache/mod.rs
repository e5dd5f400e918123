//! What memory has of origins, in two tiers: few that are ready to answer with, and many that were used
//! longer ago and are packed ([`Pack`]). Bounded by number and by bytes, both tiers together; the least
//! recently used is packed first, and goes first.

mod packed;
mod ready;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::entry::Entry;
use super::pack::{Pack, PackedFile};
use crate::types::origin::Origin;
use packed::Packed;
use ready::Ready;

/// One part in so many of the memory for what is known of origins is for those that are ready to answer
/// with, also where those that are packed could fill all of it. Of a gigabyte, a million origins leave a fifth.
pub(crate) const STORE_READY_SHARE: usize = 6;

/// So large is that part at most, as long as there is room for it: of what it loses when there is none any
/// more, a third is lost, for what the allocator has cut up for large pieces hardly serves for small ones.
pub(crate) const STORE_READY_SHARE_MOST: usize = 3;

/// One byte in so many is free between the pieces, as `benches/memory.rs` has it after many have come and
/// gone.
const STORE_BETWEEN_PIECES: usize = 32;

/// An origin that was packed and is ready again stays packed beside that, as long as nothing else is known
/// of it: it has to be packed no second time.
pub(super) struct Cache {
    ready: Ready,
    packed: Packed,
    entries_max: usize,
    bytes_max: usize,
}

/// An entry that is to be packed.
pub(super) struct Candidate {
    pub(super) origin: Origin,
    pub(super) entry: Arc<Entry>,
    /// Its file, where that is packed already.
    pub(super) file: Option<Arc<PackedFile>>,
}

impl Cache {
    pub(super) fn new(entries_max: NonZeroUsize, bytes_max: usize) -> Self {
        Self {
            ready: Ready::new(),
            packed: Packed::new(),
            entries_max: entries_max.get(),
            bytes_max,
        }
    }

    /// What is ready.
    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.ready.get(origin)
    }

    /// Without counting as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.ready.peek(origin)
    }

    /// Without counting as a use.
    pub(super) fn packed(&self, origin: &Origin) -> Option<&Pack> {
        self.packed.peek(origin)
    }

    /// What is to be unpacked: the others go before it.
    pub(super) fn use_packed(&mut self, origin: &Origin) -> Option<Pack> {
        self.packed.get(origin).cloned()
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        self.ready.remove(origin);
        self.packed.remove(origin);
    }

    /// Other bounds, which hold at once.
    pub(super) fn resize(&mut self, entries_max: NonZeroUsize, bytes_max: usize) {
        (self.entries_max, self.bytes_max) = (entries_max.get(), bytes_max);
        // Else those that are ready would leave none of the others.
        while self.bytes() > bytes_max
            && held(self.ready.bytes()) > bytes_max / STORE_READY_SHARE_MOST
        {
            let Some((origin, _)) = self.ready.oldest() else { break };
            let origin = origin.clone();
            self.packed.close(&origin);
            self.ready.remove(&origin);
        }
        self.shrink();
    }

    /// An entry larger than the whole cache is not kept at all.
    pub(super) fn put(&mut self, origin: &Origin, entry: Arc<Entry>) {
        self.packed.remove(origin);
        if self.is_too_large(&entry) {
            self.ready.remove(origin);
        } else {
            self.ready.put(origin, entry);
            self.shrink();
        }
    }

    /// Puts `new` in the place of `old`, if that is still what is there: whether it was.
    pub(super) fn replace(&mut self, origin: &Origin, old: &Arc<Entry>, new: Arc<Entry>) -> bool {
        let is_there = self.is_ready(origin, old);
        if is_there {
            self.put(origin, new);
        }
        is_there
    }

    /// What `change` made of the entry, if it is ready and anything is to change.
    pub(super) fn update(
        &mut self,
        origin: &Origin,
        change: impl FnOnce(&Entry) -> Option<Entry>,
    ) -> Option<Arc<Entry>> {
        let changed = Arc::new(self.ready.peek(origin).and_then(|entry| change(entry))?);
        self.put(origin, Arc::clone(&changed));
        Some(changed)
    }

    /// Tells the pack of `origin` whether the site's pages answer: the pack, if that is news.
    pub(super) fn note_site_of_packed(&mut self, origin: &Origin, is_up: bool) -> Option<Pack> {
        self.packed.note_site(origin, is_up)
    }

    /// What is to be packed before so many `bytes` more are ready, if anything is. Those that are ready have
    /// a share of the room, and a larger one as long as nothing else needs it.
    pub(super) fn next_to_pack(&mut self, bytes: usize) -> Option<Candidate> {
        while !self.has_room(bytes) {
            let (origin, entry) = self.ready.oldest()?;
            let (origin, entry) = (origin.clone(), Arc::clone(entry));
            if !self.packed.close(&origin) {
                let file = entry.snapshot().and_then(|snapshot| self.packed.file(&snapshot.sha256));
                return Some(Candidate { file: file.cloned(), origin, entry });
            }
            self.ready.remove(&origin);
        }
        None
    }

    /// Puts `pack` in the place of what it was made of, if that is still there.
    pub(super) fn pack(&mut self, made_of: &Candidate, pack: Pack) {
        if self.is_ready(&made_of.origin, &made_of.entry) {
            self.ready.remove(&made_of.origin);
            self.packed.put(made_of.origin.clone(), pack);
            self.shrink();
        }
    }

    /// Makes ready what was made of `pack`, with the news of the site that there has been since; if the pack
    /// is still there.
    pub(super) fn unpack(
        &mut self,
        origin: &Origin,
        pack: &Pack,
        entry: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        let known = self.packed.peek(origin).filter(|known| known.is(pack))?;
        let entry = entry.with_site(known.site_up).map_or_else(|| Arc::clone(entry), Arc::new);
        if !self.is_too_large(&entry) {
            self.packed.open(origin);
            self.ready.put(origin, Arc::clone(&entry));
            self.shrink();
        }
        Some(entry)
    }

    /// `pack` goes, if it is still there.
    pub(super) fn drop_pack(&mut self, origin: &Origin, pack: &Pack) {
        if self.is_packed(origin, pack) {
            self.packed.remove(origin);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.packed_len()
    }

    /// Those that are not ready.
    pub(super) fn packed_len(&self) -> usize {
        self.packed.len() - self.packed.open_len()
    }

    pub(super) const fn bytes(&self) -> usize {
        held(self.ready.bytes() + self.packed.bytes())
    }

    fn is_ready(&self, origin: &Origin, entry: &Arc<Entry>) -> bool {
        self.ready.peek(origin).is_some_and(|known| Arc::ptr_eq(known, entry))
    }

    pub(super) fn is_packed(&self, origin: &Origin, pack: &Pack) -> bool {
        self.packed.peek(origin).is_some_and(|known| known.is(pack))
    }

    fn is_too_large(&self, entry: &Entry) -> bool {
        entry.weight_when_ready() > self.bytes_max
    }

    fn has_room(&self, bytes: usize) -> bool {
        let (ready, max) = (held(self.ready.bytes() + bytes), self.bytes_max);
        let fits = held(self.ready.bytes() + self.packed.bytes() + bytes) <= max;
        ready <= max / STORE_READY_SHARE
            || ready <= max / STORE_READY_SHARE_MOST && fits
            || bytes > max
    }

    /// Who is packed alone has not been asked about for longer than anybody who is ready.
    fn shrink(&mut self) {
        let is_full =
            |cache: &Self| cache.bytes() > cache.bytes_max || cache.len() > cache.entries_max;
        while is_full(self) && (self.packed.pop() || self.ready.pop()) {}
    }
}

/// With what the allocator leaves free between pieces of all sizes that come and go.
const fn held(bytes: usize) -> usize {
    bytes + bytes / STORE_BETWEEN_PIECES
}
