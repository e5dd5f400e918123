//! The metrics of robots.txt files: fetches, changes, and what is cached in memory.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let stats = parts.store.stats();
    let help = "Completed fetches of a robots.txt, by result";
    page.counters("courtesy_robots_fetches", help, "result", parts.store.results());
    let help = "Fetches of a robots.txt in progress or queued";
    page.gauge("courtesy_robots_fetches_under_way", help, stats.flights as u64);
    let help = "Changes of robots.txt files of origins in use, by their meaning under the profile in force";
    let changes = parts.watch.counts().map(|(kind, count)| (kind.word(), count));
    page.counters("courtesy_robots_changes", help, "kind", changes);
    let help = "Such changes without a notice in the log of denials, because there were too many or it could not be \
                written";
    page.counter("courtesy_robots_changes_omitted", help, parts.watch.omitted());
    page.gauge("courtesy_cache_entries", "Origins cached in memory", stats.entries as u64);
    page.bytes("courtesy_cache", "Memory used by the cache", stats.bytes as u64);
    let help = "Distinct robots.txt files in memory";
    page.gauge("courtesy_cache_files", help, stats.parsed as u64);
    let help = "Lookups answered from memory";
    page.counter("courtesy_cache_hits", help, stats.hits);
    let help = "Lookups answered from disk or by a fetch";
    page.counter("courtesy_cache_misses", help, stats.misses);
    let help = "Requests waiting for a lookup of their origin";
    page.gauge("courtesy_cache_waiters", help, stats.waiters as u64);
}
