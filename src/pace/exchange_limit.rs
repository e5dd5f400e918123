//! The limit on exchanges with one origin, paced or not, over all workers, and its fair use: a client
//! that waits gets one in turn with the other clients, however many requests each has waiting, and no
//! client can have all of them.

use tokio::sync::oneshot;

use crate::clients::FairQueue;
use crate::types::ClientKey;

/// The exchanges with one origin that are under way, and the requests that wait for one.
#[derive(Debug)]
pub(super) struct Exchanges {
    queue: FairQueue<oneshot::Sender<()>>,
    max: usize,
}

/// The clients that have an exchange now, and how their requests learn that.
pub(super) type NewExchanges = Vec<(ClientKey, oneshot::Sender<()>)>;

/// No exchange ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoExchange {
    /// The exchanges that may be under way at one time.
    pub max: usize,
}

impl Exchanges {
    /// Of at most `max` at a time.
    pub(super) fn new(max: usize) -> Self {
        Self { queue: FairQueue::default(), max }
    }

    /// Queues a request of `client`. To be followed by [`Self::grant`].
    pub(super) fn enqueue(&mut self, client: &ClientKey, waiter: oneshot::Sender<()>) {
        self.queue.enqueue(client, waiter, oneshot::Sender::is_closed);
    }

    /// How many may be under way.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// Takes one for `client`, if one is free and no request waits for it: the common case.
    pub(super) fn take(&mut self, client: &ClientKey) -> bool {
        self.queue.take(client, self.max)
    }

    /// Ends one of `client`. To be followed by [`Self::grant`].
    pub(super) fn release(&mut self, client: &ClientKey) {
        self.queue.release(client);
    }

    pub(super) const fn resize(&mut self, max: usize) {
        self.max = max;
    }

    /// Grants what is free to those that wait.
    pub(super) fn grant(&mut self) -> NewExchanges {
        std::iter::from_fn(|| self.queue.next(self.max, oneshot::Sender::is_closed)).collect()
    }

    /// Whether any request waits.
    pub(super) fn is_contended(&self) -> bool {
        self.queue.is_contended()
    }

    /// The number under way, and of the requests that wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let waiting = self.queue.waiting().filter(|waiter| !waiter.is_closed());
        (self.queue.in_use(), waiting.count())
    }
}
