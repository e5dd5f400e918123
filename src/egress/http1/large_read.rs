//! Responses that are read in the largest pieces: over a few connections at a time, and each only
//! while much of it is still to come. The rest is read in smaller pieces, because it may be held
//! for a client that has stopped reading.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::egress::body::IoState;
use crate::egress::limits::ORIGIN_READ_LARGEST_BYTES;

/// Connections that read in the largest pieces at one time: when all their clients stop, 72 MiB are
/// held.
pub const BUFFER_PERMITS_MAX: usize = 32;

/// Responses of at least so many bytes are read in the largest pieces.
const LARGE_RESPONSE_BYTES: u64 = 8 << 20;

/// The bytes at the end of such a response that are read in smaller pieces.
const REST_BYTES: u64 = 4 * ORIGIN_READ_LARGEST_BYTES as u64;

/// Permits one connection to have a buffer for the largest pieces.
#[derive(Debug)]
pub struct BufferPermit {
    _permit: OwnedSemaphorePermit,
}

impl BufferPermit {
    /// For a response of `remaining` bytes, if it is large and there is a permit.
    pub fn take(permits: &Arc<Semaphore>, remaining: u64) -> Option<Self> {
        if remaining < LARGE_RESPONSE_BYTES {
            return None;
        }
        Arc::clone(permits).try_acquire_owned().ok().map(|permit| Self { _permit: permit })
    }
}

/// A response that is read in the largest pieces until this is dropped.
#[derive(Debug)]
pub struct LargeRead(Arc<IoState>);

impl LargeRead {
    /// For a response of `remaining` bytes over the connection of `io`.
    pub fn begin(io: &Arc<IoState>, remaining: u64) -> Option<Self> {
        let read = Self(Arc::clone(io));
        read.0.allows_largest_reads.store(true, Ordering::Relaxed);
        Some(read).filter(|read| read.is_far_from_end(Some(remaining)))
    }

    /// Whether so much of the response remains that the largest pieces are still used.
    pub fn is_far_from_end(&self, remaining: Option<u64>) -> bool {
        remaining.is_some_and(|bytes| bytes >= REST_BYTES)
    }
}

impl Drop for LargeRead {
    fn drop(&mut self) {
        self.0.allows_largest_reads.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_connections_read_large_pieces_at_one_time() {
        let permits = Arc::new(Semaphore::new(BUFFER_PERMITS_MAX));
        assert!(BufferPermit::take(&permits, LARGE_RESPONSE_BYTES - 1).is_none(), "not large");
        let take = || BufferPermit::take(&permits, LARGE_RESPONSE_BYTES);
        let taken: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(taken.len(), BUFFER_PERMITS_MAX);
        drop(taken);
        assert!(take().is_some());
    }

    #[test]
    fn a_response_is_read_in_the_largest_pieces_until_little_is_left() {
        let io = Arc::<IoState>::default();
        let is_set = || io.allows_largest_reads.load(Ordering::Relaxed);
        assert!(LargeRead::begin(&io, REST_BYTES - 1).is_none() && !is_set());
        let read = LargeRead::begin(&io, REST_BYTES).unwrap();
        assert!(is_set() && read.is_far_from_end(Some(REST_BYTES)));
        assert!(!read.is_far_from_end(Some(REST_BYTES - 1)) && !read.is_far_from_end(None));
        drop(read);
        assert!(!is_set());
    }
}
