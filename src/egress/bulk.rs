//! Answers that are read in the largest portions: a few at a time, each as long as much of it is still to
//! come. What is left of it when it gives this up is read in smaller ones, so that no more of those are ever
//! held for clients that stop than there are such answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::portions::Signs;
use crate::limits::{ORIGIN_BULK_OCTETS_MIN, ORIGIN_BULK_REST_OCTETS};

/// The right of one answer to be read so. Given back when dropped.
#[derive(Debug)]
pub struct Bulk {
    signs: Arc<Signs>,
    _right: OwnedSemaphorePermit,
}

impl Bulk {
    /// For an answer that is known to be long, if one more may.
    pub fn begin(rights: &Arc<Semaphore>, signs: &Arc<Signs>, to_come: Option<u64>) -> Option<Self> {
        if to_come? < ORIGIN_BULK_OCTETS_MIN {
            return None;
        }
        let right = Arc::clone(rights).try_acquire_owned().ok()?;
        signs.in_bulk.store(true, Ordering::Relaxed);
        Some(Self { signs: Arc::clone(signs), _right: right })
    }

    /// Whether enough is still to come.
    pub fn goes_on(&self, to_come: Option<u64>) -> bool {
        to_come.is_some_and(|octets| octets >= ORIGIN_BULK_REST_OCTETS)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.signs.in_bulk.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_answers_have_it_until_little_is_to_come() {
        let (rights, signs) = (Arc::new(Semaphore::new(1)), [(); 2].map(|()| Arc::<Signs>::default()));
        let is_set = |at: usize| signs[at].in_bulk.load(Ordering::Relaxed);
        for short in [None, Some(0), Some(ORIGIN_BULK_OCTETS_MIN - 1)] {
            assert!(Bulk::begin(&rights, &signs[0], short).is_none() && !is_set(0), "{short:?}");
        }
        let long = Some(ORIGIN_BULK_OCTETS_MIN);
        let first = Bulk::begin(&rights, &signs[0], long).unwrap();
        assert!(is_set(0) && first.goes_on(Some(ORIGIN_BULK_REST_OCTETS)));
        assert!(!first.goes_on(Some(ORIGIN_BULK_REST_OCTETS - 1)) && !first.goes_on(None));
        assert!(Bulk::begin(&rights, &signs[1], long).is_none() && !is_set(1));
        drop(first);
        let next = Bulk::begin(&rights, &signs[1], long);
        assert!(next.is_some() && is_set(1) && !is_set(0));
    }
}
