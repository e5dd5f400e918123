//! No more tests of load run at a time than the machine has cores, however many threads tests have
//! (`RUST_TEST_THREADS`): they compare times and memory.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::available_parallelism;

/// How many run now.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ONE_HAS_ENDED: Condvar = Condvar::new();

/// The right of one test to run, until it is dropped.
#[must_use = "the test runs as long as it is held"]
pub struct Turn(());

impl Turn {
    /// Waits for it.
    pub fn wait() -> Self {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let running = ONE_HAS_ENDED.wait_while(running, |running| *running >= cores);
        *running.unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ONE_HAS_ENDED.notify_one();
    }
}
