//! The size of an entry in memory: what it alone has, and what several entries may share.

use std::mem::size_of;
use std::sync::Arc;

use super::agents::AgentAnswer;
use super::answer::Answer;
use super::entry::Entry;
use crate::policy::access::{CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;

/// Bytes that an origin takes in memory beside its entry: its key, its place in the table and in
/// the list by last use.
const STORE_KEY_BYTES: usize = 256;
/// Bytes that a shared allocation takes in the tables that find it and count its uses: a row in two
/// tables that may be half empty.
const STORE_SHARED_BYTES: usize = 128;
/// Bytes that an allocation takes beside its content: the allocator's own, rounding, and the count
/// of its owners.
const STORE_PIECE_BYTES: usize = 48;

/// An allocation that several entries may share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Its address, which identifies it as long as an entry holds it.
    pub(super) place: usize,
    pub(super) bytes: usize,
}

impl Shared {
    /// Includes the map entry that counts its uses.
    pub(super) const fn weight(&self) -> usize {
        self.bytes + STORE_SHARED_BYTES
    }
}

impl Entry {
    /// Bytes of memory that no other entry shares, approximately: the counted allocations and their
    /// overhead.
    pub(super) fn own_weight(&self) -> usize {
        let fetched = |fetched: &CompletedFetch| {
            size_of::<CompletedFetch>()
                + piece(fetched.url.len())
                + piece(fetched.capture.json.len())
        };
        let file = |snapshot: &Arc<Snapshot>| {
            let fields = [&snapshot.content_type, &snapshot.etag, &snapshot.last_modified];
            let fields = fields.into_iter().flatten().map(|value| piece(value.len()));
            piece(size_of::<Snapshot>()) + piece(snapshot.url.len()) + fields.sum::<usize>()
        };
        let state = size_of::<(Arc<RobotsState>, Arc<Profile>)>() + piece(size_of::<RobotsState>());
        let of_answer = |answer: &Answer| {
            let facts = answer.good.iter().chain(answer.failed.as_deref()).map(fetched);
            let file = answer.snapshot().map_or(0, file);
            facts.sum::<usize>() + file + piece(answer.states.len() * state)
        };
        // Includes the short identity, in an allocation of its own.
        let agents = self.agents.as_ref().map_or(0, |agents| agents.0.len());
        let of_agents = agents * (size_of::<AgentAnswer>() + 3 * STORE_PIECE_BYTES);
        let answers: usize = self.answers().map(of_answer).sum();
        STORE_KEY_BYTES + piece(size_of::<Self>()) + answers + of_agents
    }

    /// What other entries may share: the files as received, and as parsed in each dialect.
    pub(super) fn shared(&self) -> impl Iterator<Item = Shared> {
        self.answers().flat_map(|answer| {
            let body = answer.snapshot().map(|snapshot| Shared {
                place: snapshot.body.as_ptr().addr(),
                bytes: piece(snapshot.body.len()),
            });
            let copies = answer.states.iter().filter_map(|(state, _)| state.copy());
            let rules = copies.map(|copy| Shared {
                place: Arc::as_ptr(&copy.rules).addr(),
                bytes: piece(copy.rules.weight()),
            });
            body.into_iter().chain(rules)
        })
    }

    /// Bytes of everything, as if nothing were shared.
    pub(super) fn weight(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.bytes).sum::<usize>()
    }

    /// The most bytes that it adds to the memory.
    pub(super) fn own_weight_and_shared(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.weight()).sum::<usize>()
    }
}

/// An allocation of this size, with its overhead.
const fn piece(bytes: usize) -> usize {
    bytes + STORE_PIECE_BYTES
}
