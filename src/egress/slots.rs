//! The bound on exchanges under way with one origin, over all workers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Error, Failure};
use crate::origin::Origin;

/// A table of origins that are in use right now; an origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots {
    per_origin: usize,
    table: Mutex<HashMap<Origin, Arc<Semaphore>>>,
}

/// The right to one exchange; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    origin: Origin,
    slots: Weak<Slots>,
}

impl Slots {
    pub fn new(per_origin: usize) -> Arc<Self> {
        Arc::new(Self { per_origin, table: Mutex::default() })
    }

    /// Waits for a slot of `origin`, at most `deadline`.
    pub async fn acquire(self: &Arc<Self>, origin: &Origin, deadline: Duration) -> Result<Slot, Error> {
        let semaphore = {
            let mut table = self.table.lock().expect("no panic while locked");
            Arc::clone(
                table.entry(origin.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_origin))),
            )
        };
        // Made before the wait, so that a cancelled waiter cleans up too.
        let mut slot = Slot { permit: None, origin: origin.clone(), slots: Arc::downgrade(self) };
        slot.permit = match Arc::clone(&semaphore).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => timeout(deadline, semaphore.acquire_owned()).await.ok().and_then(Result::ok),
        };
        if slot.permit.is_some() {
            return Ok(slot);
        }
        let detail = format!(
            "{} exchanges with {origin} are under way and none ended within {deadline:?} \
             (egress.max_per_origin)",
            self.per_origin
        );
        Err(Error::new(Failure::ConnectionLimit, detail))
    }
}

impl Slot {
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.permit.take());
        let Some(slots) = self.slots.upgrade() else { return };
        let mut table = slots.table.lock().expect("no panic while locked");
        // Only the table holds it: nobody uses or awaits a slot of this origin any more.
        if table.get(&self.origin).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            table.remove(&self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::split_url;

    #[tokio::test]
    async fn an_origin_has_so_many_slots_and_an_entry_only_while_used() {
        let slots = Slots::new(2);
        let (origin, _) = split_url(b"http://example.com/").unwrap();
        let first = slots.acquire(&origin, Duration::ZERO).await.unwrap();
        let second = slots.acquire(&origin, Duration::ZERO).await.unwrap();
        let third = slots.acquire(&origin, Duration::from_millis(1)).await;
        assert_eq!(third.unwrap_err().failure, Failure::ConnectionLimit);
        drop(first);
        slots.acquire(&origin, Duration::ZERO).await.unwrap();
        drop(second);
        assert!(slots.table.lock().unwrap().is_empty());
    }
}
