//! Interim responses that wait to be written to the client.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use bytes::{Buf, BytesMut};

use crate::runtime::lock::Lock;

/// The interim responses of one connection, as bytes. Most connections have none, for which no lock
/// is taken.
#[derive(Debug, Default)]
pub struct InterimQueue {
    bytes: Lock<BytesMut>,
    /// Whether `bytes` has any. Written only with the lock held, and read without it.
    has_bytes: AtomicBool,
}

impl InterimQueue {
    /// Appends `head`, the head of an interim response.
    pub fn push(&self, head: &[u8]) {
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(head);
        self.has_bytes.store(true, Ordering::Release);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        !self.has_bytes.load(Ordering::Acquire)
    }

    /// Writes with `write`, once, and removes what was written.
    pub fn poll_write(
        &self,
        write: impl FnOnce(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes.lock();
        let written = ready!(write(&bytes))?;
        bytes.advance(written);
        self.has_bytes.store(!bytes.is_empty(), Ordering::Release);
        Poll::Ready(Ok(()))
    }

    /// Drops what has not been written.
    pub fn clear(&self) {
        let mut bytes = self.bytes.lock();
        bytes.clear();
        self.has_bytes.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_kept_until_it_is_cleared() {
        let queue = InterimQueue::default();
        assert!(queue.is_empty());
        queue.push(b"103 ");
        assert!(queue.poll_write(|_| Poll::Pending).is_pending() && !queue.is_empty());
        assert!(queue.poll_write(|_| Poll::Ready(Ok(1))).is_ready() && !queue.is_empty());
        let rest = queue.poll_write(|bytes| {
            assert_eq!(bytes, b"03 ");
            Poll::Ready(Ok(bytes.len()))
        });
        assert!(rest.is_ready() && queue.is_empty());
        queue.push(b"102 ");
        queue.clear();
        assert!(queue.is_empty());
    }
}
