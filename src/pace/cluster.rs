//! The engine through which several proxies share the pace of origins, and this proxy's part of the
//! pace while it is away.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::config::Away;
use super::lane::Share;
use crate::engine::Engine;

/// The engine, once it is set, and this proxy's part while it is away.
#[derive(Debug)]
pub(super) struct Cluster {
    engine: OnceLock<Arc<dyn Engine>>,
    /// So many times as long are the delays at present.
    delays: AtomicU32,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { engine: OnceLock::new(), delays: AtomicU32::new(1) }
    }
}

impl Cluster {
    /// Sets the engine, unless there is one.
    pub(super) fn set(&self, engine: Arc<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    pub(super) fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.get()
    }

    /// The part of a lane that is new.
    pub(super) fn share(&self) -> Share {
        Share { delays: self.delays.load(Ordering::Relaxed), here: 1 }
    }

    /// Brings the part of this proxy up to date with what is known of the engine. Returns the factor
    /// of delays if it has changed.
    pub(super) fn update(&self, away: Away, share: u32) -> Option<u32> {
        let status = self.engine.get()?.status();
        let members = u32::try_from(status.members).unwrap_or(u32::MAX).max(1);
        let delays = match away {
            _ if status.is_up => 1,
            Away::Share if share > 0 => share,
            Away::Share => members,
            Away::Alone | Away::Stop => 1,
        };
        (self.delays.swap(delays, Ordering::Relaxed) != delays).then_some(delays)
    }

    /// Whether paced requests are refused, because the engine is away and the settings say so.
    pub(super) fn is_stopped(&self, away: Away) -> bool {
        away == Away::Stop && self.engine.get().is_some_and(|engine| !engine.status().is_up)
    }
}
