//! The engine through which several proxies share the pace of origins, and this proxy's part of the
//! pace while it is away.

use std::sync::{Arc, OnceLock};

use super::config::{Away, Config};
use super::lane::Share;
use super::tick::Tick;
use crate::engine::Engine;
use crate::runtime::lock::Lock;

/// The engine, once it is set, and this proxy's part while it is away.
#[derive(Debug)]
pub(super) struct Peers {
    engine: OnceLock<Arc<dyn Engine>>,
    /// The part of a lane that is new.
    share: Lock<Share>,
}

impl Default for Peers {
    fn default() -> Self {
        Self { engine: OnceLock::new(), share: Lock::new(Share::ALONE) }
    }
}

impl Peers {
    /// Sets the engine, unless there is one.
    pub(super) fn set(&self, engine: Arc<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    pub(super) fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.get()
    }

    /// The part of a lane that is new.
    pub(super) fn share(&self) -> Share {
        *self.share.lock()
    }

    /// The factor of the delays of a proxy that cannot reach the engine.
    pub(super) fn delay_factor(&self, config: &Config) -> u32 {
        let members = self.engine.get().map_or(1, |engine| engine.status().members);
        match (config.away, config.share) {
            (Away::Share, 0) => u32::try_from(members).unwrap_or(u32::MAX).max(1),
            (Away::Share, share) => share,
            (Away::Alone | Away::Stop, _) => 1,
        }
    }

    /// Brings the part of this proxy up to date with what is known of the engine. Returns it if it
    /// has changed.
    pub(super) fn update(&self, config: &Config, now: Tick) -> Option<Share> {
        let is_up = self.engine.get()?.status().is_up;
        let delay_factor = if is_up { 1 } else { self.delay_factor(config) };
        let mut share = self.share.lock();
        if share.delay_factor == delay_factor {
            return None;
        }
        let since = if share.delay_factor == 1 { now } else { share.since };
        *share = Share::away(delay_factor, since);
        Some(*share)
    }

    /// Whether paced requests are refused, because the engine is away and the settings say so.
    pub(super) fn refuses_while_away(&self, away: Away) -> bool {
        away == Away::Stop && self.engine.get().is_some_and(|engine| !engine.status().is_up)
    }
}
