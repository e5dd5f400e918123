//! What became of reloads: their counts, the last failure, and the settings in effect since.

use std::sync::MutexGuard;

use crate::config::Effective;
use crate::runtime::lock::Lock;
use crate::types::timestamp::Timestamp;

/// Written by each reload, read by the admin listener.
#[derive(Debug, Default)]
pub struct Reloads(Lock<State>);

#[derive(Debug, Default)]
struct State {
    successes: u64,
    failures: u64,
    last_success: Option<Timestamp>,
    failing: Option<String>,
    in_effect: Vec<Effective>,
}

impl Reloads {
    /// Other settings are in effect since `now`.
    pub fn succeeded(&self, now: Timestamp) {
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

    pub(super) fn last_success(&self) -> Option<Timestamp> {
        self.state().last_success
    }

    /// From now on these are in effect, but for `kept`, which stay what they are.
    pub fn hold(&self, mut settings: Vec<Effective>, kept: &[&str]) {
        let mut state = self.state();
        for former in &state.in_effect {
            let is_kept = kept.contains(&former.key.as_str());
            if is_kept && let Some(place) = settings.iter_mut().find(|it| it.key == former.key) {
                place.clone_from(former);
            }
        }
        state.in_effect = settings;
    }

    /// Every setting, and where it came from. None of them is a secret: where one is needed, a file
    /// is named.
    pub(super) fn in_effect(&self) -> Vec<Effective> {
        self.state().in_effect.clone()
    }

    /// Why the last attempt failed, if it did.
    pub(super) fn failing(&self) -> Option<String> {
        self.state().failing.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock leaves it half changed.
        self.0.lock()
    }
}
