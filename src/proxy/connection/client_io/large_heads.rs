//! Memory for request heads that have not arrived whole. The bytes of an ordinary head are part of
//! what every connection may buffer; for a large one, memory of the requests under way is reserved
//! before it is such a request.

use std::sync::Arc;

use crate::clients::{BodyMemory, MemoryPermit, RejectReason};
use crate::types::ClientKey;

/// Bytes of a head that every connection may buffer. Most heads are a tenth of that.
const ORDINARY_BYTES: usize = 8 << 10;

/// The buffer of a head doubles when it is full.
const GROWTH: usize = 2;

/// The memory reserved for the large heads of one connection.
#[derive(Debug)]
pub struct LargeHeads {
    client: ClientKey,
    memory: Arc<BodyMemory>,
    head_max: usize,
    permit: Option<MemoryPermit>,
}

impl LargeHeads {
    /// For heads of at most `head_max` bytes from `client`. Nothing is reserved yet.
    pub fn new(client: ClientKey, memory: &Arc<BodyMemory>, head_max: usize) -> Self {
        Self { client, memory: Arc::clone(memory), head_max, permit: None }
    }

    /// Notes how many bytes of a head have arrived, and reserves memory for a large one.
    ///
    /// # Errors
    ///
    /// [`RejectReason::Memory`] if the head is large and there is no memory for it.
    pub(super) fn note(&mut self, bytes: usize) -> Result<(), RejectReason> {
        if bytes > ORDINARY_BYTES && self.permit.is_none() {
            self.permit = Some(self.memory.reserve(&self.client, GROWTH * self.head_max)?);
        }
        Ok(())
    }

    /// Releases the memory: no bytes of a head are buffered.
    pub(super) fn clear(&mut self) {
        self.permit = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_head_reserves_memory_and_gives_it_back() {
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
