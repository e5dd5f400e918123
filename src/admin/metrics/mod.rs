//! The numbers, in the text format of Prometheus or of OpenMetrics, named as Prometheus asks: base
//! units, `_total` on what only grows. No label names an origin, an agent or a path: there is no end
//! of them. `docs/reference/metrics.md` has them all.

mod process;
mod sheet;

use http::StatusCode;
use http::header::{ACCEPT, HeaderMap};

use super::routes::{Answer, Asked, told};
use super::{Watched, panics};
use crate::audit::Reason;
use sheet::{Format, Sheet};

pub(super) fn answer(watched: &Watched, asked: &Asked<'_>) -> Answer {
    let mut sheet = Sheet::default();
    process(&mut sheet, watched);
    settings(&mut sheet, watched);
    clients(&mut sheet, watched);
    requests(&mut sheet, watched);
    decisions(&mut sheet, watched);
    robots(&mut sheet, watched);
    egress(&mut sheet, watched);
    store(&mut sheet, watched);
    audit(&mut sheet, watched);
    certificates(&mut sheet, watched);
    let format = format(asked.fields);
    told(StatusCode::OK, format.content_type(), sheet.text(format))
}

/// OpenMetrics for those who name it; everybody else reads the older format.
fn format(fields: &HeaderMap) -> Format {
    let accepted = fields.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}

fn process(sheet: &mut Sheet, watched: &Watched) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    sheet.gauges("courtesy_build_info", "The version that runs", "version", version);
    // The name that every Prometheus client gives it.
    let help = "When the process began, in seconds since 1970";
    sheet.date("process_start_time", help, watched.started);
    process::tell(sheet);
    let help = "Panics; each has cost a connection, or less";
    sheet.counter("courtesy_panics", help, panics::count());
}

fn settings(sheet: &mut Sheet, watched: &Watched) {
    let reloads = &watched.reloads;
    let help = "Times that other settings were taken up";
    sheet.counter("courtesy_config_reloads", help, reloads.successes());
    let help = "Times that settings could not be taken up, and the former ones stayed";
    sheet.counter("courtesy_config_reload_failures", help, reloads.failures());
    let help = "Whether the last attempt to take up other settings failed";
    sheet.gauge("courtesy_config_reload_failing", help, u64::from(reloads.failing().is_some()));
    let since = reloads.last_success().unwrap_or(watched.started);
    let help = "Since when the settings in effect are, in seconds since 1970";
    sheet.date("courtesy_config_last_reload_success_timestamp", help, since);
}

fn clients(sheet: &mut Sheet, watched: &Watched) {
    sheet.gauge(
        "courtesy_connections",
        "Connections of clients that are open",
        watched.door.inside() as u64,
    );
    let help = "Connections and requests that were not served because of whose they are, or of how many there were";
    let turned_away = watched.door.counts().by_reason();
    sheet.counters("courtesy_clients_turned_away", help, "reason", turned_away);
    let memory = watched.door.memory();
    let (held, limit) = memory.counts();
    sheet.bytes("courtesy_body_memory", "Memory that requests under way hold", held as u64);
    let help = "Memory that requests under way may hold (limits.body_memory)";
    sheet.bytes("courtesy_body_memory_limit", help, limit as u64);
    let help = "Times that a request was refused, or went on with small reads, because there was no memory for it";
    sheet.counter("courtesy_body_memory_waits", help, memory.waits());
    let inside = &watched.tally.inside;
    let help = "TLS handshakes inside CONNECT that came to nothing, by the alert of the client";
    sheet.counters("courtesy_tls_client_failures", help, "alert", inside.failures());
    let help = "TLS connections inside CONNECT that the client ended after the handshake, without a request";
    sheet.counter("courtesy_tls_client_unused", help, inside.unused());
    let help =
        "Clients and hosts that the log has named because the client does not seem to trust the CA";
    sheet.counter("courtesy_tls_clients_distrusting", help, inside.distrusting());
    let help = "What clients spoke inside a CONNECT that was intercepted";
    sheet.counters("courtesy_tunnel_protocol", help, "kind", inside.speeches());
}

fn requests(sheet: &mut Sheet, watched: &Watched) {
    let counts = watched.tally.counts();
    let denied_for =
        |reason| counts.denied.iter().find(|(it, _)| *it == reason).map_or(0, |(_, count)| *count);
    sheet.counters(
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
    sheet.gauge("courtesy_requests_under_way", "Requests that have not ended", counts.under_way());
    let reasons = Reason::ALL.map(|reason| (reason.word(), denied_for(reason)));
    sheet.counters(
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
    sheet.latencies("courtesy_request_duration", help, "phase", phases);
    let help = "Requests that wait for a turn with their origin (egress.max_per_origin)";
    sheet.gauge("courtesy_queue_depth", help, egress.waiting as u64);
    let help = "Requests whose turn with their origin did not come in time";
    sheet.counter("courtesy_queue_rejected", help, egress.rejected);
}

fn decisions(sheet: &mut Sheet, watched: &Watched) {
    let by_basis = watched.decisions.by_basis().map(|(decision, basis, count)| {
        (vec![("decision", decision.to_owned()), ("basis", basis.to_owned())], count)
    });
    let help = "Decisions, by what became of the request and what that rests on";
    sheet.counters_by("courtesy_decisions", help, by_basis);
    let help = "Requests refused because the operator closed the way, by its address, host or port, or \
                because it leads to this proxy";
    sheet.counters("courtesy_egress_refusals", help, "kind", watched.decisions.refusals());
    let help = "Requests that failed on the way to their origin, by the error type of RFC 9209";
    sheet.counters("courtesy_egress_failures", help, "error", watched.decisions.failures());
}

fn robots(sheet: &mut Sheet, watched: &Watched) {
    let stats = watched.store.stats();
    let help = "Fetches of a robots.txt that have ended, by their result";
    sheet.counters("courtesy_robots_fetches", help, "result", watched.store.results());
    let help = "Fetches of a robots.txt under way, or waiting for their turn";
    sheet.gauge("courtesy_robots_fetches_under_way", help, stats.flights as u64);
    let help =
        "Changes of robots.txt files of origins in use, by what they mean to the profile in force";
    let changes = watched.watch.counts().map(|(kind, count)| (kind.word(), count));
    sheet.counters("courtesy_robots_changes", help, "kind", changes);
    let help = "Such changes without a notice in the log of denials, because there were too many or it could not be \
                written";
    sheet.counter("courtesy_robots_changes_omitted", help, watched.watch.omitted());
    sheet.gauge("courtesy_cache_entries", "Origins known in memory", stats.entries as u64);
    let help = "Origins in memory that are packed, those that were not asked about for longest";
    sheet.gauge("courtesy_cache_packed_entries", help, stats.packed as u64);
    sheet.bytes("courtesy_cache", "Memory for what is known of origins", stats.bytes as u64);
    let help = "Distinct robots.txt files in memory that are not packed";
    sheet.gauge("courtesy_cache_files", help, stats.parsed as u64);
    let help = "Questions about an origin that memory answered at once";
    sheet.counter("courtesy_cache_hits", help, stats.hits);
    let help =
        "Questions about an origin that was packed, or that the disk or a fetch had to answer";
    sheet.counter("courtesy_cache_misses", help, stats.misses);
    let help = "Origins that were unpacked, because they were asked about";
    sheet.counter("courtesy_cache_unpacked", help, stats.unpacked);
    let help = "Requests that wait until something is known of their origin";
    sheet.gauge("courtesy_cache_waiters", help, stats.waiters as u64);
}

fn egress(sheet: &mut Sheet, watched: &Watched) {
    let stats = watched.egress.stats();
    let help = "Connections to origins: kept for the next request, or in use or being made";
    let states = [("idle", stats.idle as u64), ("in_use", stats.in_use as u64)];
    sheet.gauges("courtesy_pool_connections", help, "state", states);
}

/// Nothing where nothing is kept on the disk.
fn store(sheet: &mut Sheet, watched: &Watched) {
    let health = watched.store.health();
    if !health.enabled {
        return;
    }
    let degraded = u64::from(health.failing.is_some());
    sheet.gauge(
        "courtesy_store_degraded",
        "Whether the store on the disk cannot be used",
        degraded,
    );
    sheet.gauge("courtesy_store_entries", "Origins in the store", health.entries);
    sheet.bytes("courtesy_store_content", "What the store keeps", health.bytes);
    sheet.bytes("courtesy_store_file", "The file of the store", health.file_bytes);
    sheet.counter(
        "courtesy_store_writes",
        "Origins written to the store, or removed",
        health.writes,
    );
    sheet.gauge("courtesy_store_pending", "Origins that wait to be written", health.pending);
    let help = "Origins that could not wait to be written, because there was no room";
    sheet.counter("courtesy_store_dropped", help, health.dropped);
    let help = "Origins that left the store, because it may not become larger";
    sheet.counter("courtesy_store_evicted", help, health.evicted);
    let help = "Origins of which what was kept did not hold";
    sheet.counter("courtesy_store_broken", help, health.broken);
    sheet.counter(
        "courtesy_store_errors",
        "Times that the file of the store failed",
        health.errors,
    );
    sheet.counter("courtesy_store_loads", "Origins looked for in the store", health.loads);
    sheet.counter("courtesy_store_load_hits", "Origins found there", health.load_hits);
}

fn audit(sheet: &mut Sheet, watched: &Watched) {
    let health = watched.audit.health();
    sheet.counter("courtesy_audit_records", "Records written", health.written);
    sheet.counter("courtesy_audit_lost", "Records that could not be written", health.lost);
    let help = "Attempts to write to the log, or to bring it to the disk, that failed";
    sheet.counter("courtesy_audit_errors", help, health.errors);
    let help = "Attempts to keep a piece of evidence that failed";
    sheet.counter("courtesy_audit_evidence_errors", help, health.evidence_errors);
    let help = "Whether records, or their evidence, cannot be kept now";
    sheet.gauge("courtesy_audit_failing", help, u64::from(health.failing.is_some()));
    let help = "Whether nothing is served until records can be written (audit.on_failure)";
    sheet.gauge("courtesy_audit_stopped", help, u64::from(watched.audit.is_stopped()));
    sheet.gauge(
        "courtesy_audit_head_seq",
        "The number of the last line of the log",
        health.head.seq,
    );
    let help = "Files of the log that were closed";
    sheet.counter("courtesy_audit_segments_closed", help, health.segments_closed);
    sheet.bytes_counter("courtesy_audit_written", "Lines of the log written", health.bytes);
}

fn certificates(sheet: &mut Sheet, watched: &Watched) {
    let stats = watched.leaves.stats();
    sheet.gauge(
        "courtesy_leaf_cache_entries",
        "Certificates of hosts in memory",
        stats.entries as u64,
    );
    let help = "Handshakes whose certificate was in memory, or being made";
    sheet.counter("courtesy_leaf_cache_hits", help, stats.hits);
    let help = "Certificates taken out of memory for others";
    sheet.counter("courtesy_leaf_cache_evicted", help, stats.evicted);
    sheet.counter("courtesy_leaf_certificates_minted", "Certificates made for hosts", stats.minted);
    let help = "When the certificate of the CA that signs ends, in seconds since 1970";
    let end = watched.leaves.authority().certificate().not_after();
    sheet.date("courtesy_ca_expiry_timestamp", help, end);
    let help = "Whether the CA is valid now; while it is not, nothing is intercepted";
    sheet.gauge("courtesy_ca_valid", help, u64::from(watched.leaves.invalidity().is_none()));
}
