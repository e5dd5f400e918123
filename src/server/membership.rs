//! Keeps how many proxies share the engine, over a restart: one that starts while the engine is
//! away takes its share of the pace.

use std::sync::Arc;

use crate::engine::Engine;
use crate::store::Store;

/// The engine, and the store that keeps the number of its members.
#[derive(Debug)]
pub(super) struct Membership {
    engine: Arc<dyn Engine>,
    store: Arc<Store>,
    /// What is on the disk.
    kept: usize,
}

impl Membership {
    /// Of a process that has begun with what the store has.
    pub(super) fn new(engine: Arc<dyn Engine>, store: Arc<Store>) -> Self {
        let kept = engine.status().members;
        Self { engine, store, kept }
    }

    /// Writes the largest count of the last ten minutes of contact, where that has changed.
    pub(super) fn keep(&mut self) {
        let (status, disk) = (self.engine.status(), self.store.disk());
        let Some(disk) = disk.filter(|_| status.was_reached && status.members != self.kept) else {
            return;
        };
        disk.keep_members(status.members);
        self.kept = status.members;
    }
}
