//! A semaphore that grants permits to clients in turn, and never all of them to one client.

use std::sync::{Arc, MutexGuard};

use tokio::sync::oneshot;

use super::fair_queue::FairQueue;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// A semaphore that is fair between clients (see [`FairQueue`]).
#[derive(Debug)]
pub struct FairSemaphore(Lock<Table>);

#[derive(Debug)]
struct Table {
    max: usize,
    turns: FairQueue<oneshot::Sender<SemaphorePermit>>,
}

/// One permit; released when dropped.
#[derive(Debug)]
pub struct SemaphorePermit {
    client: ClientKey,
    semaphore: Arc<FairSemaphore>,
}

impl FairSemaphore {
    /// With `max` permits.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Lock::new(Table { max, turns: FairQueue::default() })))
    }

    /// A permit, if `client` may have one without waiting.
    pub fn try_acquire(self: &Arc<Self>, client: &ClientKey) -> Option<SemaphorePermit> {
        let mut table = self.table();
        let Table { max, turns } = &mut *table;
        turns.take(client, *max).then(|| self.permit(client.clone()))
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub async fn acquire(self: &Arc<Self>, client: &ClientKey) -> SemaphorePermit {
        loop {
            if let Some(permit) = self.try_acquire(client) {
                return permit;
            }
            let (sender, receiver) = oneshot::channel();
            self.table().turns.enqueue(client, sender, oneshot::Sender::is_closed);
            // A permit may have been released in between.
            self.grant();
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Changes the number of permits; permits already granted stay valid.
    pub fn resize(self: &Arc<Self>, max: usize) {
        self.table().max = max;
        self.grant();
    }

    /// How many permits there are.
    pub fn max(&self) -> usize {
        self.table().max
    }

    /// How many permits are granted.
    pub fn in_use(&self) -> usize {
        self.table().turns.in_use()
    }

    /// Grants free permits to waiters. Sends without the lock: a permit whose waiter has left is
    /// released at once, which locks again.
    fn grant(self: &Arc<Self>) {
        let mut granted = Vec::new();
        {
            let mut table = self.table();
            let Table { max, turns } = &mut *table;
            granted.extend(std::iter::from_fn(|| turns.next(*max, oneshot::Sender::is_closed)));
        }
        for (client, waiter) in granted {
            let _ = waiter.send(self.permit(client));
        }
    }

    fn permit(self: &Arc<Self>, client: ClientKey) -> SemaphorePermit {
        SemaphorePermit { client, semaphore: Arc::clone(self) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also locked while dropping, where a panic would be a second one.
        self.0.lock()
    }
}

impl Drop for SemaphorePermit {
    fn drop(&mut self) {
        let is_contended = {
            let mut table = self.semaphore.table();
            table.turns.release(&self.client);
            table.turns.is_contended()
        };
        if is_contended {
            self.semaphore.grant();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn client(number: u8) -> ClientKey {
        ClientKey::of([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn clients_take_turns_and_who_left_is_passed_over() {
        let semaphore = FairSemaphore::new(1);
        let permit = semaphore.try_acquire(&client(1)).unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (number, leaves) in [(1, false), (1, false), (2, true), (2, false)] {
            let (semaphore, order) = (Arc::clone(&semaphore), Arc::clone(&order));
            let task = waiting.spawn(async move {
                let _permit = semaphore.acquire(&client(number)).await;
                order.lock().unwrap().push(number);
            });
            tokio::task::yield_now().await;
            if leaves {
                task.abort();
                tokio::task::yield_now().await;
            }
        }
        drop(permit);
        while waiting.join_next().await.is_some() {}
        assert_eq!(*order.lock().unwrap(), [1, 2, 1]);
        assert_eq!(semaphore.in_use(), 0);
    }

    #[tokio::test]
    async fn more_permits_wake_who_waits() {
        let semaphore = FairSemaphore::new(0);
        assert!(semaphore.try_acquire(&client(1)).is_none());
        let other = Arc::clone(&semaphore);
        let waiting = tokio::spawn(async move { other.acquire(&client(1)).await });
        tokio::task::yield_now().await;
        semaphore.resize(1);
        drop(waiting.await.unwrap());
        assert_eq!(semaphore.in_use(), 0);
    }
}
