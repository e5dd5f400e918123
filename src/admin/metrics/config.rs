//! The metrics of the settings and their reloads.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let reloads = &parts.reloads;
    let help = "Reloads that applied new settings";
    page.counter("courtesy_config_reloads", help, reloads.successes());
    let help = "Reloads that failed and kept the former settings";
    page.counter("courtesy_config_reload_failures", help, reloads.failures());
    let help = "Whether the last reload failed";
    page.gauge("courtesy_config_reload_failing", help, u64::from(reloads.failing().is_some()));
    let since = reloads.last_success().unwrap_or(parts.started);
    let help = "Time of the last successful reload, or of the start, in seconds since 1970";
    page.date("courtesy_config_last_reload_success_timestamp", help, since);
}
