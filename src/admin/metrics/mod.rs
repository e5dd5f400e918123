//! The numbers, in the text format of Prometheus or of OpenMetrics, named as Prometheus asks: base
//! units, `_total` on what only grows. No label names an origin, an agent or a path: there is no end
//! of them. `docs/reference/metrics.md` has them all.

mod exposition;
mod process;

use http::StatusCode;
use http::header::{ACCEPT, HeaderMap};

use super::response::{AdminRequest, AdminResponse, respond};
use super::{Watched, panics};
use crate::audit::Reason;
use exposition::{Exposition, Format};

pub(super) fn answer(watched: &Watched, request: &AdminRequest<'_>) -> AdminResponse {
    let mut page = Exposition::default();
    process(&mut page, watched);
    settings(&mut page, watched);
    clients(&mut page, watched);
    requests(&mut page, watched);
    decisions(&mut page, watched);
    robots(&mut page, watched);
    egress(&mut page, watched);
    store(&mut page, watched);
    audit(&mut page, watched);
    certificates(&mut page, watched);
    let format = format(request.headers);
    respond(StatusCode::OK, format.content_type(), page.text(format))
}

/// OpenMetrics for those who name it; everybody else reads the older format.
fn format(fields: &HeaderMap) -> Format {
    let accepted = fields.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}

fn process(page: &mut Exposition, watched: &Watched) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    page.gauges("courtesy_build_info", "The version that runs", "version", version);
    // The name that every Prometheus client gives it.
    let help = "When the process began, in seconds since 1970";
    page.date("process_start_time", help, watched.started);
    process::tell(page);
    let help = "Panics; each has cost a connection, or less";
    page.counter("courtesy_panics", help, panics::count());
}

fn settings(page: &mut Exposition, watched: &Watched) {
    let reloads = &watched.reloads;
    let help = "Times that other settings were taken up";
    page.counter("courtesy_config_reloads", help, reloads.successes());
    let help = "Times that settings could not be taken up, and the former ones stayed";
    page.counter("courtesy_config_reload_failures", help, reloads.failures());
    let help = "Whether the last attempt to take up other settings failed";
    page.gauge("courtesy_config_reload_failing", help, u64::from(reloads.failing().is_some()));
    let since = reloads.last_success().unwrap_or(watched.started);
    let help = "Since when the settings in effect are, in seconds since 1970";
    page.date("courtesy_config_last_reload_success_timestamp", help, since);
}

fn clients(page: &mut Exposition, watched: &Watched) {
    page.gauge(
        "courtesy_connections",
        "Connections of clients that are open",
        watched.door.inside() as u64,
    );
    let help = "Connections and requests that were not served because of whose they are, or of how many there were";
    let turned_away = watched.door.counts().by_reason();
    page.counters("courtesy_clients_turned_away", help, "reason", turned_away);
    let memory = watched.door.memory();
    let (held, limit) = memory.counts();
    page.bytes("courtesy_body_memory", "Memory that requests under way hold", held as u64);
    let help = "Memory that requests under way may hold (limits.body_memory)";
    page.bytes("courtesy_body_memory_limit", help, limit as u64);
    let help = "Times that a request was refused, or went on with small reads, because there was no memory for it";
    page.counter("courtesy_body_memory_waits", help, memory.waits());
    let inside = &watched.tally.inside;
    let help = "TLS handshakes inside CONNECT that came to nothing, by the alert of the client";
    page.counters("courtesy_tls_client_failures", help, "alert", inside.failures());
    let help = "TLS connections inside CONNECT that the client ended after the handshake, without a request";
    page.counter("courtesy_tls_client_unused", help, inside.unused());
    let help =
        "Clients and hosts that the log has named because the client does not seem to trust the CA";
    page.counter("courtesy_tls_clients_distrusting", help, inside.distrusting());
    let help = "What clients spoke inside a CONNECT that was intercepted";
    page.counters("courtesy_tunnel_protocol", help, "kind", inside.speeches());
}

fn requests(page: &mut Exposition, watched: &Watched) {
    let counts = watched.tally.counts();
    let denied_for =
        |reason| counts.denied.iter().find(|(it, _)| *it == reason).map_or(0, |(_, count)| *count);
    page.counters(
        "courtesy_requests",
        "Requests by how they ended: forwarded, answered from the copy of robots.txt, denied, or failed",
        "outcome",
        [
            ("forwarded", counts.forwarded),
            ("copy", counts.copies),
            ("denied", counts.denied_in_all()),
            ("failed", counts.failed),
        ],
    );
    page.gauge("courtesy_requests_under_way", "Requests that have not ended", counts.under_way());
    let reasons = Reason::ALL.map(|reason| (reason.word(), denied_for(reason)));
    page.counters(
        "courtesy_denials",
        "Denied requests, by the reason in their record",
        "reason",
        reasons,
    );
    let egress = watched.egress.stats();
    let phases = vec![
        ("robots", watched.store.stats().waits),
        ("wait", egress.waits),
        ("connect", egress.connect),
        ("upstream", watched.tally.upstream()),
        ("total", watched.tally.lengths()),
    ];
    let help = "How long requests took to the head of their answer, and what of it they waited for";
    page.latencies("courtesy_request_duration", help, "phase", phases);
    let help = "Requests that wait for a turn with their origin (egress.max_per_origin)";
    page.gauge("courtesy_queue_depth", help, egress.waiting as u64);
    let help = "Requests whose turn with their origin did not come in time";
    page.counter("courtesy_queue_rejected", help, egress.rejected);
}

fn decisions(page: &mut Exposition, watched: &Watched) {
    let by_basis = watched.decisions.by_basis().map(|(decision, basis, count)| {
        (vec![("decision", decision.to_owned()), ("basis", basis.to_owned())], count)
    });
    let help = "Decisions, by what became of the request and what that rests on";
    page.counters_by("courtesy_decisions", help, by_basis);
    let help = "Requests refused because the operator closed the way, by its address, host or port, or \
                because it leads to this proxy";
    page.counters("courtesy_egress_refusals", help, "kind", watched.decisions.refusals());
    let help = "Requests that failed on the way to their origin, by the error type of RFC 9209";
    page.counters("courtesy_egress_failures", help, "error", watched.decisions.failures());
}

fn robots(page: &mut Exposition, watched: &Watched) {
    let stats = watched.store.stats();
    let help = "Fetches of a robots.txt that have ended, by their result";
    page.counters("courtesy_robots_fetches", help, "result", watched.store.results());
    let help = "Fetches of a robots.txt under way, or waiting for their turn";
    page.gauge("courtesy_robots_fetches_under_way", help, stats.flights as u64);
    let help =
        "Changes of robots.txt files of origins in use, by what they mean to the profile in force";
    let changes = watched.watch.counts().map(|(kind, count)| (kind.word(), count));
    page.counters("courtesy_robots_changes", help, "kind", changes);
    let help = "Such changes without a notice in the log of denials, because there were too many or it could not be \
                written";
    page.counter("courtesy_robots_changes_omitted", help, watched.watch.omitted());
    page.gauge("courtesy_cache_entries", "Origins known in memory", stats.entries as u64);
    let help = "Origins in memory that are packed, those that were not asked about for longest";
    page.gauge("courtesy_cache_packed_entries", help, stats.packed as u64);
    page.bytes("courtesy_cache", "Memory for what is known of origins", stats.bytes as u64);
    let help = "Distinct robots.txt files in memory that are not packed";
    page.gauge("courtesy_cache_files", help, stats.parsed as u64);
    let help = "Questions about an origin that memory answered at once";
    page.counter("courtesy_cache_hits", help, stats.hits);
    let help =
        "Questions about an origin that was packed, or that the disk or a fetch had to answer";
    page.counter("courtesy_cache_misses", help, stats.misses);
    let help = "Origins that were unpacked, because they were asked about";
    page.counter("courtesy_cache_unpacked", help, stats.unpacked);
    let help = "Requests that wait until something is known of their origin";
    page.gauge("courtesy_cache_waiters", help, stats.waiters as u64);
}

fn egress(page: &mut Exposition, watched: &Watched) {
    let stats = watched.egress.stats();
    let help = "Connections to origins: kept for the next request, or in use or being made";
    let states = [("idle", stats.idle as u64), ("in_use", stats.in_use as u64)];
    page.gauges("courtesy_pool_connections", help, "state", states);
}

/// Nothing where nothing is kept on the disk.
fn store(page: &mut Exposition, watched: &Watched) {
    let health = watched.store.health();
    if !health.enabled {
        return;
    }
    let degraded = u64::from(health.failing.is_some());
    page.gauge("courtesy_store_degraded", "Whether the store on the disk cannot be used", degraded);
    page.gauge("courtesy_store_entries", "Origins in the store", health.entries);
    page.bytes("courtesy_store_content", "What the store keeps", health.bytes);
    page.bytes("courtesy_store_file", "The file of the store", health.file_bytes);
    page.counter(
        "courtesy_store_writes",
        "Origins written to the store, or removed",
        health.writes,
    );
    page.gauge("courtesy_store_pending", "Origins that wait to be written", health.pending);
    let help = "Origins that could not wait to be written, because there was no room";
    page.counter("courtesy_store_dropped", help, health.dropped);
    let help = "Origins that left the store, because it may not become larger";
    page.counter("courtesy_store_evicted", help, health.evicted);
    let help = "Origins of which what was kept did not hold";
    page.counter("courtesy_store_broken", help, health.broken);
    page.counter("courtesy_store_errors", "Times that the file of the store failed", health.errors);
    page.counter("courtesy_store_loads", "Origins looked for in the store", health.loads);
    page.counter("courtesy_store_load_hits", "Origins found there", health.load_hits);
}

fn audit(page: &mut Exposition, watched: &Watched) {
    let health = watched.audit.health();
    page.counter("courtesy_audit_records", "Records written", health.written);
    page.counter("courtesy_audit_lost", "Records that could not be written", health.lost);
    let help = "Attempts to write to the log, or to bring it to the disk, that failed";
    page.counter("courtesy_audit_errors", help, health.errors);
    let help = "Attempts to keep a piece of evidence that failed";
    page.counter("courtesy_audit_evidence_errors", help, health.evidence_errors);
    let help = "Whether records, or their evidence, cannot be kept now";
    page.gauge("courtesy_audit_failing", help, u64::from(health.failing.is_some()));
    let help = "Whether nothing is served until records can be written (audit.on_failure)";
    page.gauge("courtesy_audit_stopped", help, u64::from(watched.audit.is_stopped()));
    page.gauge(
        "courtesy_audit_head_seq",
        "The number of the last line of the log",
        health.head.seq,
    );
    let help = "Files of the log that were closed";
    page.counter("courtesy_audit_segments_closed", help, health.segments_closed);
    page.bytes_counter("courtesy_audit_written", "Lines of the log written", health.bytes);
}

fn certificates(page: &mut Exposition, watched: &Watched) {
    let stats = watched.leaves.stats();
    page.gauge(
        "courtesy_leaf_cache_entries",
        "Certificates of hosts in memory",
        stats.entries as u64,
    );
    let help = "Handshakes whose certificate was in memory, or being made";
    page.counter("courtesy_leaf_cache_hits", help, stats.hits);
    let help = "Certificates taken out of memory for others";
    page.counter("courtesy_leaf_cache_evicted", help, stats.evicted);
    page.counter("courtesy_leaf_certificates_minted", "Certificates made for hosts", stats.minted);
    let help = "When the certificate of the CA that signs ends, in seconds since 1970";
    let end = watched.leaves.authority().certificate().not_after();
    page.date("courtesy_ca_expiry_timestamp", help, end);
    let help = "Whether the CA is valid now; while it is not, nothing is intercepted";
    page.gauge("courtesy_ca_valid", help, u64::from(watched.leaves.invalidity().is_none()));
}
