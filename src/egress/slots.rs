//! The bound on exchanges under way with one origin, over all workers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Error, Failure};
use crate::origin::Origin;

/// A table of origins that are in use right now; an origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots(Mutex<Table>);

#[derive(Debug)]
struct Table {
    per_origin: usize,
    origins: HashMap<Origin, Places>,
}

/// The slots of one origin.
#[derive(Debug)]
struct Places {
    semaphore: Arc<Semaphore>,
    /// Slots in use that will not come back: the bound has sunk below what was given out.
    surplus: usize,
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
        Arc::new(Self(Mutex::new(Table { per_origin, origins: HashMap::new() })))
    }

    /// Waits for a slot of `origin`, at most `deadline`.
    pub async fn acquire(self: &Arc<Self>, origin: &Origin, deadline: Duration) -> Result<Slot, Error> {
        let semaphore = self.table().semaphore(origin);
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
            self.table().per_origin
        );
        Err(Error::new(Failure::ConnectionLimit, detail))
    }

    /// Another bound, also for the origins that are in use.
    pub fn change(&self, per_origin: usize) {
        let mut table = self.table();
        let before = std::mem::replace(&mut table.per_origin, per_origin);
        for places in table.origins.values_mut() {
            places.grow(per_origin.saturating_sub(before));
            places.shrink(before.saturating_sub(per_origin));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also taken while dropping, where a panic would be a second one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn semaphore(&mut self, origin: &Origin) -> Arc<Semaphore> {
        let places = match self.origins.get(origin) {
            Some(places) => places,
            None => {
                let semaphore = Arc::new(Semaphore::new(self.per_origin));
                self.origins.entry(origin.clone()).or_insert(Places { semaphore, surplus: 0 })
            }
        };
        Arc::clone(&places.semaphore)
    }
}

impl Places {
    fn grow(&mut self, count: usize) {
        let kept = count.min(self.surplus);
        self.surplus -= kept;
        self.semaphore.add_permits(count - kept);
    }

    fn shrink(&mut self, count: usize) {
        self.surplus += count - self.semaphore.forget_permits(count);
    }
}

impl Slot {
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(slots) = self.slots.upgrade() else { return };
        let mut table = slots.table();
        let Some(places) = table.origins.get_mut(&self.origin) else { return };
        match self.permit.take() {
            Some(permit) if places.surplus > 0 => {
                permit.forget();
                places.surplus -= 1;
            }
            permit => drop(permit),
        }
        // Only the table holds it: nobody uses or awaits a slot of this origin any more.
        if Arc::strong_count(&places.semaphore) == 1 {
            table.origins.remove(&self.origin);
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
        assert!(slots.table().origins.is_empty());
    }

    #[tokio::test]
    async fn another_bound_holds_at_once_also_for_an_origin_in_use() {
        let slots = Slots::new(3);
        let (origin, _) = split_url(b"http://example.com/").unwrap();
        let acquire = async || slots.acquire(&origin, Duration::ZERO).await.ok();
        let mut held = vec![acquire().await.unwrap(), acquire().await.unwrap()];
        slots.change(1);
        assert!(acquire().await.is_none());
        held.pop();
        assert!(acquire().await.is_none(), "one is in use, and one is the bound");
        slots.change(2);
        held.push(acquire().await.unwrap());
        assert!(acquire().await.is_none());
        held.clear();
        assert!(slots.table().origins.is_empty());
    }
}
