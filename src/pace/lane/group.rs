//! The requests of the crawlers that one group of a robots.txt applies to.

use std::time::Duration;

use crate::pace::queue::Queue;
use crate::pace::tick::Tick;

#[derive(Debug)]
pub(super) struct Group {
    pub name: Box<str>,
    /// The delay that the site asks of it.
    pub delay: Duration,
    /// The next start by that delay.
    pub next: Tick,
    /// The last time that it had a turn: of groups that are ready at once, the other goes first.
    pub granted: Tick,
    pub queue: Queue,
}

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            delay: Duration::ZERO,
            next: Tick::default(),
            granted: Tick::default(),
            queue: Queue::default(),
        }
    }

    /// Whether nothing need be remembered of it at `now`.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        self.queue.len() == 0 && self.next <= now
    }
}
