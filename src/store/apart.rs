//! Work on large files, on threads that serve no client.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many large files are parsed at a time: each takes some megabytes while it is.
const PARSED_MAX: usize = 4;

/// Where large files are parsed.
#[derive(Clone, Debug)]
pub(super) struct Apart(Arc<Semaphore>);

impl Apart {
    /// Does `work` when it is its turn. `None`: the runtime is going down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        // The turn goes with the work, which goes on when its caller has left.
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.ok()
    }
}

impl Default for Apart {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PARSED_MAX)))
    }
}
