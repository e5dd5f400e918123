//! The metrics of the CA and of the certificates that it signs.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let stats = parts.leaves.stats();
    page.gauge("courtesy_leaf_cache_entries", "Host certificates in memory", stats.entries as u64);
    let help = "Handshakes whose certificate was cached or already being issued";
    page.counter("courtesy_leaf_cache_hits", help, stats.hits);
    let help = "Host certificates evicted from memory";
    page.counter("courtesy_leaf_cache_evicted", help, stats.evicted);
    page.counter("courtesy_leaf_certificates_minted", "Host certificates issued", stats.minted);
    let help = "Expiry of the signing CA's certificate, in seconds since 1970";
    let end = parts.leaves.authority().certificate().not_after();
    page.date("courtesy_ca_expiry_timestamp", help, end);
    let help = "Whether the CA is valid now; nothing is intercepted otherwise";
    page.gauge("courtesy_ca_valid", help, u64::from(parts.leaves.invalidity().is_none()));
}
