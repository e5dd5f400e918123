//! Answers that are read in the largest pieces: those of a few connections, as each keeps the room for them for
//! good; and each as long as much of it is still to come. What is left is read in smaller ones: it may still be
//! held for a client that has stopped when the connection brings the next.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::portions::Signs;
use crate::egress::limits::ORIGIN_READ_BULK_BYTES;

/// An answer is long from so many bytes on.
const ORIGIN_BULK_BYTES_MIN: u64 = 8 << 20;

/// So much of it is read in smaller pieces at its end: when its connection brings another, none of the largest
/// is held of this one.
const ORIGIN_BULK_REST_BYTES: u64 = 4 * ORIGIN_READ_BULK_BYTES as u64;

/// The right of one connection to have the room for them.
#[derive(Debug)]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// For an answer of so many bytes, if one more may have it.
    pub fn take(rights: &Arc<Semaphore>, to_come: u64) -> Option<Self> {
        if to_come < ORIGIN_BULK_BYTES_MIN {
            return None;
        }
        Arc::clone(rights).try_acquire_owned().ok().map(|permit| Self { _permit: permit })
    }
}

/// An answer that is read so, until this is dropped.
#[derive(Debug)]
pub struct Bulk(Arc<Signs>);

impl Bulk {
    /// One of so many bytes, which comes over the connection of `signs`.
    pub fn begin(signs: &Arc<Signs>, to_come: u64) -> Option<Self> {
        let bulk = Self(Arc::clone(signs));
        bulk.0.in_bulk.store(true, Ordering::Relaxed);
        Some(bulk).filter(|bulk| bulk.goes_on(Some(to_come)))
    }

    /// Whether enough is still to come.
    pub fn goes_on(&self, to_come: Option<u64>) -> bool {
        to_come.is_some_and(|bytes| bytes >= ORIGIN_BULK_REST_BYTES)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.0.in_bulk.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::limits::ORIGIN_BULKS_MAX;

    #[test]
    fn few_connections_read_large_pieces_at_one_time() {
        let rights = Arc::new(Semaphore::new(ORIGIN_BULKS_MAX));
        assert!(Room::take(&rights, ORIGIN_BULK_BYTES_MIN - 1).is_none(), "no long answer");
        let take = || Room::take(&rights, ORIGIN_BULK_BYTES_MIN);
        let rooms: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(rooms.len(), ORIGIN_BULKS_MAX);
        drop(rooms);
        assert!(take().is_some());
    }

    #[test]
    fn an_answer_is_read_so_until_little_is_to_come() {
        let signs = Arc::<Signs>::default();
        let is_set = || signs.in_bulk.load(Ordering::Relaxed);
        assert!(Bulk::begin(&signs, ORIGIN_BULK_REST_BYTES - 1).is_none() && !is_set());
        let bulk = Bulk::begin(&signs, ORIGIN_BULK_REST_BYTES).unwrap();
        assert!(is_set() && bulk.goes_on(Some(ORIGIN_BULK_REST_BYTES)));
        assert!(!bulk.goes_on(Some(ORIGIN_BULK_REST_BYTES - 1)) && !bulk.goes_on(None));
        drop(bulk);
        assert!(!is_set());
    }
}
