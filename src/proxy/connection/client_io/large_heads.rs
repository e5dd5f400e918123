//! The memory of heads that have not come whole. An ordinary one is part of what any connection may hold; a large one
//! takes of the memory for requests under way before they are any.

use std::sync::Arc;

use crate::clients::{BodyMemory, Held, RejectReason};
use crate::types::client_key::ClientKey;

/// Bytes of a head that any connection may hold. Most heads are a tenth of that.
const ORDINARY_BYTES: usize = 8 << 10;

/// The buffer that a head comes into is doubled when it is full.
const GROWTH: usize = 2;

/// From whom the memory for large heads is, and what there is of it.
#[derive(Debug)]
pub struct LargeHeads {
    asker: ClientKey,
    memory: Arc<BodyMemory>,
    head_max: usize,
    held: Option<Held>,
}

impl LargeHeads {
    /// For heads of at most `head_max` bytes, which `asker` sends.
    pub fn new(asker: ClientKey, memory: &Arc<BodyMemory>, head_max: usize) -> Self {
        Self { asker, memory: Arc::clone(memory), head_max, held: None }
    }

    /// So many bytes of a head have come.
    ///
    /// # Errors
    ///
    /// [`RejectReason::Memory`] where they are many and there is no memory for them.
    pub(super) fn note(&mut self, bytes: usize) -> Result<(), RejectReason> {
        if bytes > ORDINARY_BYTES && self.held.is_none() {
            self.held = Some(self.memory.keep(&self.asker, GROWTH * self.head_max)?);
        }
        Ok(())
    }

    /// Nothing of it is held any more.
    pub(super) fn clear(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_head_takes_memory_and_gives_it_back() {
        const HEAD_MAX: usize = 64 << 10;
        let memory = Arc::new(BodyMemory::new(3 * HEAD_MAX));
        let (mut one, mut other) = (
            LargeHeads::new(ClientKey::Proxy, &memory, HEAD_MAX),
            LargeHeads::new(ClientKey::Proxy, &memory, HEAD_MAX),
        );
        assert_eq!((one.note(ORDINARY_BYTES), memory.counts().0), (Ok(()), 0));
        assert_eq!((one.note(ORDINARY_BYTES + 1), one.note(HEAD_MAX)), (Ok(()), Ok(())));
        assert_eq!(memory.counts().0, 2 * HEAD_MAX);
        assert!(other.note(HEAD_MAX).is_err());
        one.clear();
        assert_eq!((other.note(HEAD_MAX), memory.counts().0), (Ok(()), 2 * HEAD_MAX));
        drop(other);
        assert_eq!(memory.counts().0, 0);
    }
}
