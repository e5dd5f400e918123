//! The metrics of the store on disk.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`; nothing where nothing is kept on the disk.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let health = parts.store.health();
    if !health.enabled {
        return;
    }
    let degraded = u64::from(health.failing.is_some());
    page.gauge("courtesy_store_degraded", "Whether the store on disk is unusable", degraded);
    page.gauge("courtesy_store_entries", "Origins in the store", health.entries);
    page.bytes("courtesy_store_content", "Content of the store", health.bytes);
    page.bytes("courtesy_store_file", "Size of the store's file", health.file_bytes);
    page.counter(
        "courtesy_store_writes",
        "Origins written to the store or removed from it",
        health.writes,
    );
    page.gauge("courtesy_store_pending", "Origins waiting to be written", health.pending);
    let help = "Origins not written because the write queue was full";
    page.counter("courtesy_store_dropped", help, health.dropped);
    let help = "Origins evicted from the store to keep its size";
    page.counter("courtesy_store_evicted", help, health.evicted);
    let help = "Origins whose stored content was corrupt";
    page.counter("courtesy_store_broken", help, health.broken);
    page.counter("courtesy_store_errors", "Errors of the store's file", health.errors);
    page.counter("courtesy_store_loads", "Lookups in the store", health.loads);
    page.counter(
        "courtesy_store_load_hits",
        "Lookups that found the origin in the store",
        health.load_hits,
    );
}
