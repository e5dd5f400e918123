//! The counts that egress exports as metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::runtime::histogram::{Histogram, HistogramCounts};

/// Counters that workers write to.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Durations of connections that were made, from the DNS lookup to the end of the handshake.
    pub connect: Histogram,
    /// Requests, fetches of robots.txt and tunnels that went by a parent proxy.
    pub by_parent: AtomicU64,
    /// Those of clients among them: no fetch of robots.txt.
    pub forwarded_by_parent: Arc<AtomicU64>,
}

/// The counts at one moment, summed over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Idle connections in pools.
    pub idle: usize,
    /// Connections in use, or being made.
    pub in_use: usize,
    /// How long it took to make a connection.
    pub connect: HistogramCounts,
}
