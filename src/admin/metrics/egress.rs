//! The metrics of connections to origins and of parent proxies.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;
use crate::egress::ParentStats;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let stats = parts.egress.stats();
    let help = "Connections to origins: idle, or in use or being established";
    let states = [("idle", stats.idle as u64), ("in_use", stats.in_use as u64)];
    page.gauges("courtesy_pool_connections", help, "state", states);
    parents(page, &parts.egress.parent_stats(), parts.egress.by_parent());
}

/// Nothing where connections are direct.
fn parents(page: &mut Exposition, parents: &[ParentStats], requests: u64) {
    if parents.is_empty() {
        return;
    }
    let up = parents.iter().map(|it| (it.parent.clone(), u64::from(it.is_up)));
    let help = "Whether the last connection by a parent proxy succeeded";
    page.gauges("courtesy_parent_up", help, "parent", up);
    let failures = parents.iter().map(|it| (it.parent.clone(), it.failures));
    let help = "Connections that failed because of a parent proxy";
    page.counters("courtesy_parent_failures", help, "parent", failures);
    let help = "Requests, fetches of robots.txt and tunnels that went by a parent proxy";
    page.counter("courtesy_parent_requests", help, requests);
}
