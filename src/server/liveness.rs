//! Whether the worker threads respond, for a watchdog. Each is given a task, as it would be a
//! connection, so that a hanging thread is found.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

/// The runtimes of the worker threads, by name.
#[derive(Clone, Debug)]
pub struct Liveness(Vec<(String, Handle)>);

impl Liveness {
    pub(super) fn of(threads: impl IntoIterator<Item = (String, Handle)>) -> Self {
        Self(threads.into_iter().collect())
    }

    /// The name of a thread that has ended, or takes longer than `limit` to run a task. `None`:
    /// all respond.
    pub async fn silent(&self, limit: Duration) -> Option<&str> {
        // All are asked before the first is waited for: they share the time.
        let asked: Vec<_> =
            self.0.iter().map(|(name, handle)| (name, handle.spawn(async {}))).collect();
        for (name, task) in asked {
            if !matches!(timeout(limit, task).await, Ok(Ok(()))) {
                return Some(name);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const EVER: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_thread_that_hangs_is_silent_and_the_others_are_not() {
        let (release, held) = mpsc::channel::<()>();
        let runtimes =
            ["hangs", "runs"].map(|name| (name, Builder::new_current_thread().build().unwrap()));
        let liveness = |names: &[&str]| {
            let named = runtimes.iter().filter(|(name, _)| names.contains(name));
            Liveness::of(
                named.map(|(name, runtime)| ((*name).to_owned(), runtime.handle().clone())),
            )
        };
        let (both, one) = (liveness(&["hangs", "runs"]), liveness(&["runs"]));
        let [hangs, runs] = runtimes.map(|(_, runtime)| runtime);
        hangs.spawn(async move { held.recv() });
        let ends = [hangs, runs].map(|runtime| {
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            (end, std::thread::spawn(move || runtime.block_on(ended)))
        });
        assert_eq!(both.silent(SOON).await, Some("hangs"));
        assert_eq!(one.silent(EVER).await, None);
        drop(release);
        assert_eq!(both.silent(EVER).await, None);
        for (end, thread) in ends {
            drop(end);
            let _ = thread.join().unwrap();
        }
        assert_eq!(both.silent(EVER).await, Some("hangs"), "it has ended");
    }
}
