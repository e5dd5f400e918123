//! Notifications to the service manager (sd_notify(3)): ready, reloading, stopping, and, with a
//! watchdog, that all serving threads still run. Without a service manager they do nothing.

use sd_notify::NotifyState::{self, Ready, Reloading, Status, Stopping, Watchdog};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::server::Liveness;

/// Clients are served, by the settings that were read last.
pub fn ready() {
    tell(&[Ready, Status("serving")]);
}

/// Clients are served by the settings before, because those that were read cannot be used.
pub fn ready_as_before(failure: &str) {
    // A state is one line.
    let failure = failure.replace('\n', " ");
    tell(&[Ready, Status(&format!("serving; the settings stay as they were: {failure}"))]);
}

/// The settings are about to be read again. From systemd 253 on, the time tells it which of several
/// reloads this is.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[Reloading, now]),
        Err(error) => {
            warn!("the service manager is not notified of this reload, for want of a time: {error}")
        }
    }
}

/// What is under way may end, and nothing more begins.
pub fn stopping() {
    tell(&[Stopping, Status("finishing the requests under way")]);
}

/// Gives a sign of life three times in the time after which the manager takes the proxy for dead, as
/// long as every thread that serves runs what it is given. It is this that must hang with them: a
/// thread of its own would go on beating for a proxy that serves no client.
pub async fn watchdog(liveness: Liveness) {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let interval = patience / 3;
    loop {
        sleep(interval).await;
        match liveness.silent(interval).await {
            None => tell(&[Watchdog]),
            Some(thread) => error!("{thread} hangs; without it the service manager ends the proxy"),
        }
    }
}

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager cannot be notified ($NOTIFY_SOCKET): {error}");
    }
}
