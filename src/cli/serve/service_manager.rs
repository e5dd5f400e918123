//! Notifications to the service manager (sd_notify(3)): ready, reloading, stopping, and, with a
//! watchdog, that all serving threads still run. Without a service manager they do nothing.

use sd_notify::NotifyState::{self, Ready, Reloading, Status, Stopping, Watchdog};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::server::Liveness;

/// Notifies that clients are served with the settings read last.
pub fn ready() {
    notify(&[Ready, Status("serving")]);
}

/// Notifies that the former settings stay in effect, because the new ones are invalid.
pub fn ready_as_before(failure: &str) {
    // A state is one line.
    let failure = failure.replace('\n', " ");
    notify(&[Ready, Status(&format!("serving; the settings stay as they were: {failure}"))]);
}

/// Notifies that a reload begins. Since systemd 253 the time identifies the reload.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[Reloading, now]),
        Err(error) => {
            warn!("the service manager is not notified of this reload, for want of a time: {error}")
        }
    }
}

/// Notifies that the proxy drains.
pub fn stopping() {
    notify(&[Stopping, Status("finishing the requests under way")]);
}

/// Notifies the watchdog three times in its interval, as long as every worker thread responds. It
/// must stop if they hang: a thread of its own would go on notifying for a proxy that serves no
/// client.
pub async fn watchdog(liveness: Liveness) {
    let Some(timeout) = sd_notify::watchdog_enabled() else { return };
    let interval = timeout / 3;
    loop {
        sleep(interval).await;
        match liveness.silent(interval).await {
            None => notify(&[Watchdog]),
            Some(thread) => error!("{thread} hangs; without it the service manager ends the proxy"),
        }
    }
}

fn notify(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager cannot be notified ($NOTIFY_SOCKET): {error}");
    }
}
