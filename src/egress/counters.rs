//! What the way out counts, for whoever watches the proxy.

use super::terms::Shared;
use crate::runtime::histogram::{Histogram, HistogramCounts};

#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Of connections that were made, from the name to the end of the handshake.
    pub connect: Histogram,
}

/// The way out at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections that are kept and not used.
    pub idle: usize,
    /// Connections in use, or being made.
    pub in_use: usize,
    /// Exchanges that wait for a slot of their origin.
    pub waiting: usize,
    /// Those whose slot did not come in time.
    pub rejected: u64,
    pub waits: HistogramCounts,
    pub connect: HistogramCounts,
}

impl Shared {
    /// The numbers of all workers.
    pub fn stats(&self) -> Stats {
        let (exchanges, waiting) = self.slots.counts();
        let (mut idle, mut streams, mut busy) = (0, 0, 0);
        for pool in self.pools() {
            let shared = pool.multiplexed.in_use();
            idle += pool.idle() + shared.idle;
            streams += shared.streams;
            busy += shared.busy;
        }
        Stats {
            idle,
            // An exchange has a connection to itself, or a stream of one that is shared.
            in_use: exchanges.saturating_sub(streams) + busy,
            waiting,
            rejected: self.slots.rejected(),
            waits: self.slots.waits.counts(),
            connect: self.counters.connect.counts(),
        }
    }
}
