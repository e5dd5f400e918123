//! Keeps how many proxies share the engine, over a restart: one that starts while the engine is
//! away takes its share of the pace.

use std::sync::Arc;

use crate::engine::Engine;
use crate::store::Store;
use crate::store::disk::Disk;

/// The engine, and the store that keeps the number of its members.
#[derive(Debug)]
pub(super) struct Membership {
    engine: Arc<dyn Engine>,
    store: Arc<Store>,
    /// What is on the disk.
    kept: usize,
}

impl Membership {
    /// Of a process that has begun with what the store has. The engine may have been reached since:
    /// its status says nothing of the disk.
    pub(super) fn new(engine: Arc<dyn Engine>, store: Arc<Store>) -> Self {
        let kept = store.disk().map_or(0, Disk::members);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::engine::{Config, ManualEngineClock, MemoryEngine};
    use crate::runtime::clock::SystemClock;

    #[tokio::test]
    async fn what_is_kept_is_compared_with_the_disk_and_not_with_the_engine() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: dir.path().to_owned(), ..Settings::default() };
        let ca = settings.ca(None);
        let components =
            crate::server::build(&settings, vec![], ca, Arc::new(SystemClock)).unwrap();
        let store = Arc::clone(&components.store);
        // It joins a cluster that is complete, and has reached it before this begins.
        let first =
            MemoryEngine::new(Config::named("a"), ManualEngineClock::starting_at(1_000_000));
        let third = first.beside(Config::named("c"));
        for engine in [&first, &first.beside(Config::named("b")), &third] {
            engine.heartbeat().await.unwrap();
        }
        assert_eq!(third.status().members, 3);
        let mut membership = Membership::new(Arc::new(third), Arc::clone(&store));
        membership.keep();
        assert_eq!(store.disk().unwrap().members(), 3);
    }
}
