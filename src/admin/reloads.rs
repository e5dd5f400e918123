//! What became of reading the settings again, for whoever watches the proxy.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::moment::Moment;

/// Written by who reads the settings, read by everybody.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    successes: u64,
    failures: u64,
    last_success: Option<Moment>,
    failing: Option<String>,
}

impl Reloads {
    /// Other settings are in effect since `now`.
    pub fn succeeded(&self, now: Moment) {
        let mut state = self.state();
        state.successes += 1;
        state.last_success = Some(now);
        state.failing = None;
    }

    /// Other settings could not be taken up, and the former ones stay.
    pub fn failed(&self, why: String) {
        let mut state = self.state();
        state.failures += 1;
        state.failing = Some(why);
    }

    pub(super) fn successes(&self) -> u64 {
        self.state().successes
    }

    pub(super) fn failures(&self) -> u64 {
        self.state().failures
    }

    pub(super) fn last_success(&self) -> Option<Moment> {
        self.state().last_success
    }

    /// Why the last attempt failed, if it did.
    pub(super) fn failing(&self) -> Option<String> {
        self.state().failing.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
