//! The numbers, in the text format of Prometheus or of OpenMetrics, named as Prometheus asks: base
//! units, `_total` on what only grows. No label names an origin, an agent or a path: there is no end
//! of them. `docs/reference/metrics.md` has them all.

mod engine;
mod exposition;
mod process;

use http::StatusCode;
use http::header::{ACCEPT, HeaderMap};

use super::panics;
use super::response::{AdminRequest, AdminResponse, respond};
use super::watched::Watched;
use crate::audit::Reason;
use crate::egress::ParentStats;
use crate::pace::{Counts, WaitReason};
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
    pace(&mut page, watched);
    engine::engine(&mut page, watched);
    store(&mut page, watched);
    audit(&mut page, watched);
    certificates(&mut page, watched);
    let format = format(request.headers);
    respond(StatusCode::OK, format.content_type(), page.text(format))
}

/// OpenMetrics if `Accept` names it, else the older text format of Prometheus.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}

fn process(page: &mut Exposition, watched: &Watched) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    page.gauges("courtesy_build_info", "The running version", "version", version);
    // The name that every Prometheus client gives it.
    let help = "Start time of the process, in seconds since 1970";
    page.date("process_start_time", help, watched.started);
    process::add(page);
    let help = "Panics; each closed at most one connection";
    page.counter("courtesy_panics", help, panics::count());
}

fn settings(page: &mut Exposition, watched: &Watched) {
    let reloads = &watched.reloads;
    let help = "Reloads that applied new settings";
    page.counter("courtesy_config_reloads", help, reloads.successes());
    let help = "Reloads that failed and kept the former settings";
    page.counter("courtesy_config_reload_failures", help, reloads.failures());
    let help = "Whether the last reload failed";
    page.gauge("courtesy_config_reload_failing", help, u64::from(reloads.failing().is_some()));
    let since = reloads.last_success().unwrap_or(watched.started);
    let help = "Time of the last successful reload, or of the start, in seconds since 1970";
    page.date("courtesy_config_last_reload_success_timestamp", help, since);
}

fn clients(page: &mut Exposition, watched: &Watched) {
    page.gauge(
        "courtesy_connections",
        "Open client connections",
        watched.admission.inside() as u64,
    );
    let connections = &watched.request_metrics.connections;
    let help = "Client connections accepted, by the kind of the listener";
    page.counters("courtesy_connections_accepted", help, "listener", connections.accepted());
    let help = "Client connections by the protocol of their first bytes";
    page.counters("courtesy_client_protocol", help, "protocol", connections.protocols());
    let help = "Connections and requests rejected for their client or for a limit";
    let rejected = watched.admission.counts().by_reason();
    page.counters("courtesy_clients_turned_away", help, "reason", rejected);
    let memory = watched.admission.memory();
    let (held, limit) = memory.counts();
    page.bytes("courtesy_body_memory", "Memory held by requests in progress", held as u64);
    let help = "Limit of the memory held by requests in progress (limits.body_memory)";
    page.bytes("courtesy_body_memory_limit", help, limit as u64);
    let help = "Requests rejected, or continued with small reads, for lack of body memory";
    page.counter("courtesy_body_memory_waits", help, memory.waits());
    let inside = &watched.request_metrics.tls;
    let help = "Failed TLS handshakes inside CONNECT, by the client's alert";
    page.counters("courtesy_tls_client_failures", help, "alert", inside.failures());
    let help = "TLS connections inside CONNECT that the client closed after the handshake, without a request";
    page.counter("courtesy_tls_client_unused", help, inside.unused());
    let help = "Pairs of client and host logged because the client does not seem to trust the CA";
    page.counter("courtesy_tls_clients_distrusting", help, inside.distrusting());
    let help = "Protocols that clients used inside an intercepted CONNECT";
    page.counters("courtesy_tunnel_protocol", help, "kind", inside.protocols());
}

fn requests(page: &mut Exposition, watched: &Watched) {
    let counts = watched.request_metrics.counts();
    let denied_for =
        |reason| counts.denied.iter().find(|(it, _)| *it == reason).map_or(0, |(_, count)| *count);
    page.counters(
        "courtesy_requests",
        "Requests by outcome: forwarded, answered from the cached robots.txt, denied, or failed",
        "outcome",
        [
            ("forwarded", counts.forwarded),
            ("copy", counts.copies),
            ("denied", counts.denied_in_all()),
            ("failed", counts.failed),
        ],
    );
    page.gauge("courtesy_requests_under_way", "Requests in progress", counts.under_way());
    let reasons = Reason::ALL.into_iter().filter(|reason| reason.can_deny());
    let reasons = reasons.map(|reason| (reason.word(), denied_for(reason)));
    page.counters(
        "courtesy_denials",
        "Denied requests, by the reason in their record",
        "reason",
        reasons,
    );
    let (egress, pace) = (watched.egress.stats(), watched.egress.lanes().counts());
    let phases = vec![
        ("robots", watched.store.stats().waits),
        ("wait", pace.exchange_waits),
        ("connect", egress.connect),
        ("upstream", watched.request_metrics.upstream()),
        ("total", watched.request_metrics.durations()),
    ];
    let help = "Time from request to response header, in total and by phase";
    page.latencies("courtesy_request_duration", help, "phase", phases);
    let help = "Requests waiting for their origin's limit (egress.max_per_origin)";
    page.gauge("courtesy_queue_depth", help, pace.exchanges_waiting as u64);
    let help = "Requests that timed out waiting for their origin's limit";
    page.counter("courtesy_queue_rejected", help, pace.exchanges_rejected);
}

fn decisions(page: &mut Exposition, watched: &Watched) {
    let by_basis = watched.decision_metrics.by_basis().map(|(decision, basis, count)| {
        (vec![("decision", decision.to_owned()), ("basis", basis.to_owned())], count)
    });
    let help = "Decisions by outcome and basis";
    page.counters_by("courtesy_decisions", help, by_basis);
    let help = "Requests refused because the operator closed the way, by its address, host or port, or \
                because it leads to this proxy";
    page.counters("courtesy_egress_refusals", help, "kind", watched.decision_metrics.refusals());
    let help = "Requests that failed to reach their origin, by the error type of RFC 9209";
    page.counters("courtesy_egress_failures", help, "error", watched.decision_metrics.failures());
}

fn robots(page: &mut Exposition, watched: &Watched) {
    let stats = watched.store.stats();
    let help = "Completed fetches of a robots.txt, by result";
    page.counters("courtesy_robots_fetches", help, "result", watched.store.results());
    let help = "Fetches of a robots.txt in progress or queued";
    page.gauge("courtesy_robots_fetches_under_way", help, stats.flights as u64);
    let help = "Changes of robots.txt files of origins in use, by their meaning under the profile in force";
    let changes = watched.watch.counts().map(|(kind, count)| (kind.word(), count));
    page.counters("courtesy_robots_changes", help, "kind", changes);
    let help = "Such changes without a notice in the log of denials, because there were too many or it could not be \
                written";
    page.counter("courtesy_robots_changes_omitted", help, watched.watch.omitted());
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

fn pace(page: &mut Exposition, watched: &Watched) {
    let counts = watched.egress.lanes().counts();
    let waits = WaitReason::ALL.map(WaitReason::as_str).into_iter().zip(counts.waits);
    let help = "Waits of requests for their turn at an origin or its address, by the reason";
    page.latencies("courtesy_pace_waits", help, "by", waits.collect());
    let help = "Waits that there would have been, where pace.mode is observe";
    page.latencies("courtesy_pace_would_wait", help, "mode", vec![("observe", counts.would_wait)]);
    let refusals = Counts::REFUSALS.into_iter().zip(counts.refusals);
    let help = "Requests refused because they would have waited too long";
    page.counters("courtesy_pace_refusals", help, "reason", refusals);
    let help = "Requests whose robots.txt asks for a longer delay than pace.max_crawl_delay";
    page.counter("courtesy_pace_clamped", help, counts.clamped);
    let help = "Times that the pace of origins was written to the store";
    page.counter("courtesy_pace_store_writes", help, counts.writes);
    let help = "Origins whose pace is remembered";
    page.gauge("courtesy_pace_lanes", help, counts.lanes as u64);
    let help = "Origins at which nothing starts for now";
    page.gauge("courtesy_pace_holds", help, counts.holds as u64);
    let help = "Requests that wait for their turn at an origin or its address";
    page.gauge("courtesy_pace_waiting", help, counts.waiting as u64);
}

fn egress(page: &mut Exposition, watched: &Watched) {
    let stats = watched.egress.stats();
    let help = "Connections to origins: idle, or in use or being established";
    let states = [("idle", stats.idle as u64), ("in_use", stats.in_use as u64)];
    page.gauges("courtesy_pool_connections", help, "state", states);
    parents(page, &watched.egress.parent_stats(), watched.egress.by_parent());
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

/// Nothing where nothing is kept on the disk.
fn store(page: &mut Exposition, watched: &Watched) {
    let health = watched.store.health();
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

fn audit(page: &mut Exposition, watched: &Watched) {
    let health = watched.audit.health();
    page.counter("courtesy_audit_records", "Records written", health.written);
    page.counter("courtesy_audit_lost", "Records that could not be written", health.lost);
    let help = "Failed attempts to write or sync the log";
    page.counter("courtesy_audit_errors", help, health.errors);
    let help = "Failed attempts to write evidence";
    page.counter("courtesy_audit_evidence_errors", help, health.evidence_errors);
    let help = "Whether writing of records or evidence fails now";
    page.gauge("courtesy_audit_failing", help, u64::from(health.failing.is_some()));
    let help = "Whether requests are rejected until records can be written (audit.on_failure)";
    page.gauge("courtesy_audit_stopped", help, u64::from(watched.audit.is_stopped()));
    page.gauge(
        "courtesy_audit_head_seq",
        "Sequence number of the last line of the log",
        health.head.seq,
    );
    let help = "Closed files of the log";
    page.counter("courtesy_audit_segments_closed", help, health.segments_closed);
    page.bytes_counter("courtesy_audit_written", "Bytes written to the log", health.bytes);
}

fn certificates(page: &mut Exposition, watched: &Watched) {
    let stats = watched.leaves.stats();
    page.gauge("courtesy_leaf_cache_entries", "Host certificates in memory", stats.entries as u64);
    let help = "Handshakes whose certificate was cached or already being issued";
    page.counter("courtesy_leaf_cache_hits", help, stats.hits);
    let help = "Host certificates evicted from memory";
    page.counter("courtesy_leaf_cache_evicted", help, stats.evicted);
    page.counter("courtesy_leaf_certificates_minted", "Host certificates issued", stats.minted);
    let help = "Expiry of the signing CA's certificate, in seconds since 1970";
    let end = watched.leaves.authority().certificate().not_after();
    page.date("courtesy_ca_expiry_timestamp", help, end);
    let help = "Whether the CA is valid now; nothing is intercepted otherwise";
    page.gauge("courtesy_ca_valid", help, u64::from(watched.leaves.invalidity().is_none()));
}
