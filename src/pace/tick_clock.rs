//! The clock of the lanes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tick::Tick;
use crate::runtime::clock::{Clock, monotonic, monotonic_micros};
use crate::types::timestamp::Timestamp;

/// The time since the start of the process, by the monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct TickClock {
    start: Instant,
    /// The start, in microseconds.
    start_micros: u64,
    clock: Arc<dyn Clock>,
}

impl TickClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        // In this order no sleep until a tick ends before that.
        let start_micros = monotonic_micros();
        Self { start: monotonic(), start_micros, clock }
    }

    pub(super) fn now(&self) -> Tick {
        let micros = monotonic_micros().saturating_sub(self.start_micros);
        Tick::from_micros(micros) + self.clock.advanced()
    }

    pub(super) fn instant(&self, at: Tick) -> tokio::time::Instant {
        let after = Duration::from_micros(at.micros()).saturating_sub(self.clock.advanced());
        (self.start + after.min(Duration::from_secs(u32::MAX.into()))).into()
    }

    pub(super) fn date(&self) -> Timestamp {
        self.clock.wall()
    }
}
