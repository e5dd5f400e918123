//! Runs work on large files on the blocking pool, a few at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many large files are parsed at a time; each takes some megabytes meanwhile.
const PARSED_MAX: usize = 4;

/// Bounds the concurrent work.
#[derive(Clone, Debug)]
pub(super) struct Background(Arc<Semaphore>);

impl Background {
    /// Runs `work` when a permit is free. `None` if the runtime shuts down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        // The work continues after its caller has left, so the permit moves with it.
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

impl Default for Background {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PARSED_MAX)))
    }
}
