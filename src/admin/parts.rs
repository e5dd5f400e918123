//! The parts of the proxy that the admin listener reads: metrics, readiness and control.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tracing::error;

use super::token::Token;
use crate::audit::Writer;
use crate::ca::Leaves;
use crate::clients::ClientAdmission;
use crate::config::Effective;
use crate::egress;
use crate::engine::Engine;
use crate::proxy::{DecisionMetrics, RequestMetrics, Via};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::types::timestamp::Timestamp;
use crate::watch::Watch;

/// The parts of the proxy that the admin listener reports on.
#[derive(Debug)]
pub struct MonitoredParts {
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub request_metrics: Arc<RequestMetrics>,
    pub decision_metrics: Arc<DecisionMetrics>,
    pub watch: Arc<Watch>,
    pub egress: Arc<egress::EgressState>,
    pub leaves: Arc<Leaves>,
    pub reloads: Arc<Reloads>,
    pub admission: Arc<ClientAdmission>,
    /// What several proxies share, if there is an engine.
    pub engine: Option<Arc<dyn Engine>>,
    /// The proxy is not ready before the engine has been reached.
    pub is_engine_required: bool,
    /// Whether requests with a delay wait for its part of the pace while the engine is away.
    pub keeps_share: bool,
    /// The token that requests need.
    pub token: Arc<Token>,
    /// By which requests are recognised that this proxy has forwarded.
    pub via: Via,
    pub clock: Arc<dyn Clock>,
    /// When the process began.
    pub started: Timestamp,
    /// The proxy should be sent no more requests.
    pub draining: AtomicBool,
}

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

    /// When it was done last.
    pub fn last_success(&self) -> Option<Timestamp> {
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
    pub fn in_effect(&self) -> Vec<Effective> {
        self.state().in_effect.clone()
    }

    /// Why the last attempt failed, if it did.
    pub fn failing(&self) -> Option<String> {
        self.state().failing.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock leaves it half changed.
        self.0.lock()
    }
}

// Panics: counted for the metrics, and logged with their place. A runtime keeps one to the
// task it happens in, so that it costs one connection; the hook is the one place that sees them all.

/// Of the process, as the hook is.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// From now on, panics are counted and logged.
pub fn watch_panics() {
    set_hook(Box::new(note));
}

/// How many there have been.
pub fn panic_count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// A formatted message may contain bytes from a client, so only literal messages are logged.
fn note(panic: &PanicHookInfo<'_>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let said = panic.payload().downcast_ref::<&str>().copied().unwrap_or("its text is not shown");
    error!(
        place,
        thread = thread.name(),
        "a panic, which is a fault of courtesy: please report it ({said})"
    );
}

/// For a whole conversation with the admin listener, which is one request.
pub const ADMIN_DEADLINE: Duration = Duration::from_secs(10);

/// For the next line by the control socket, on either side: the store may have to be looked through.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted() {
        let before = panic_count();
        watch_panics();
        let panicked = std::panic::catch_unwind(|| panic!("on purpose"));
        drop(std::panic::take_hook());
        assert!(panicked.is_err() && panic_count() > before);
    }
}
