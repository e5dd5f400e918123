//! The metrics page, in the text format of Prometheus or of OpenMetrics. Names follow Prometheus:
//! base units, `_total` on counters. No label names an origin, an agent or a path: their number has
//! no bound. `docs/reference/metrics.md` lists all metrics.

mod exposition;

use std::fs;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::parts::{self, MonitoredParts};
use super::response::{AdminRequest, AdminResponse, respond};
use crate::audit::Reason;
use crate::egress::ParentStats;
use crate::engine::{ErrorKind, LookupKind, Operation, SlotOutcome};
use crate::pace::{Counts, WaitReason};
use crate::types::timestamp::Timestamp;
use exposition::{Exposition, Format};

/// Responds to a request for the metrics.
pub(super) fn answer(parts: &MonitoredParts, request: &AdminRequest<'_>) -> AdminResponse {
    let mut page = Exposition::default();
    add_process(&mut page, parts);
    add_config(&mut page, parts);
    add_clients(&mut page, parts);
    add_proxy(&mut page, parts);
    add_robots(&mut page, parts);
    add_egress(&mut page, parts);
    add_pace(&mut page, parts);
    add_engine(&mut page, parts);
    add_store(&mut page, parts);
    add_audit(&mut page, parts);
    add_ca(&mut page, parts);
    let format = format(request.headers);
    respond(StatusCode::OK, format.content_type(), page.text(format))
}

/// OpenMetrics if `Accept` names it, else the older text format of Prometheus.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}

/// Adds these metrics to `page`.
fn add_audit(page: &mut Exposition, parts: &MonitoredParts) {
    let health = parts.audit.health();
    page.counter("courtesy_audit_records", "Records written", health.written);
    page.counter("courtesy_audit_lost", "Records that could not be written", health.lost);
    let help = "Failed attempts to write or sync the log";
    page.counter("courtesy_audit_errors", help, health.errors);
    let help = "Failed attempts to write evidence";
    page.counter("courtesy_audit_evidence_errors", help, health.evidence_errors);
    let help = "Whether writing of records or evidence fails now";
    page.gauge("courtesy_audit_failing", help, u64::from(health.failing.is_some()));
    let help = "Whether requests are rejected until records can be written (audit.on_failure)";
    page.gauge("courtesy_audit_stopped", help, u64::from(parts.audit.is_stopped()));
    page.gauge(
        "courtesy_audit_head_seq",
        "Sequence number of the last line of the log",
        health.head.seq,
    );
    let help = "Closed files of the log";
    page.counter("courtesy_audit_segments_closed", help, health.segments_closed);
    let help = "Checkpoints that the command of audit.publish has taken";
    page.counter("courtesy_audit_published", help, health.published);
    let help = "Failed attempts to publish a checkpoint";
    page.counter("courtesy_audit_publish_failures", help, health.publish_failures);
    page.bytes_counter("courtesy_audit_written", "Bytes written to the log", health.bytes);
}

/// Adds these metrics to `page`.
fn add_ca(page: &mut Exposition, parts: &MonitoredParts) {
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

/// Adds these metrics to `page`.
fn add_clients(page: &mut Exposition, parts: &MonitoredParts) {
    page.gauge(
        "courtesy_connections",
        "Open client connections",
        parts.admission.open_connections() as u64,
    );
    let connections = &parts.request_metrics.connections;
    let help = "Client connections accepted, by the kind of the listener";
    page.counters("courtesy_connections_accepted", help, "listener", connections.accepted());
    let help = "Client connections by the protocol of their first bytes";
    page.counters("courtesy_client_protocol", help, "protocol", connections.protocols());
    let help = "Connections and requests rejected for their client or for a limit";
    let rejected = parts.admission.counts().by_reason();
    page.counters("courtesy_clients_turned_away", help, "reason", rejected);
    let memory = parts.admission.memory();
    let (held, limit) = memory.counts();
    page.bytes("courtesy_body_memory", "Memory held by requests in progress", held as u64);
    let help = "Limit of the memory held by requests in progress (limits.body_memory)";
    page.bytes("courtesy_body_memory_limit", help, limit as u64);
    let help = "Requests rejected, or continued with small reads, for lack of body memory";
    page.counter("courtesy_body_memory_waits", help, memory.refusals());
    let inside = &parts.request_metrics.tls;
    let help = "Failed TLS handshakes inside CONNECT, by the client's alert";
    page.counters("courtesy_tls_client_failures", help, "alert", inside.failures());
    let help = "TLS connections inside CONNECT that the client closed after the handshake, without a request";
    page.counter("courtesy_tls_client_unused", help, inside.unused());
    let help = "Pairs of client and host logged because the client does not seem to trust the CA";
    page.counter("courtesy_tls_clients_distrusting", help, inside.distrusting());
    let help = "Protocols that clients used inside an intercepted CONNECT";
    page.counters("courtesy_tunnel_protocol", help, "kind", inside.protocols());
}

/// Adds these metrics to `page`.
fn add_config(page: &mut Exposition, parts: &MonitoredParts) {
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

/// Adds these metrics to `page`.
fn add_egress(page: &mut Exposition, parts: &MonitoredParts) {
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

/// Adds these metrics to `page`.
fn add_engine(page: &mut Exposition, parts: &MonitoredParts) {
    let Some(engine) = &parts.engine else { return };
    let (status, counts) = (engine.status(), engine.stats().counts());
    let help = "Whether the shared engine can be reached";
    page.gauge("courtesy_engine_up", help, u64::from(status.is_up));
    let help = "Proxies that share the engine, at the last heartbeat";
    page.gauge("courtesy_engine_members", help, status.members as u64);
    let help = "Parts of the pace that are left free, because their proxies are missing";
    page.gauge("courtesy_engine_missing", help, status.missing.0.into());
    let help = "Which part of the pace is this proxy's own without the engine, from 1; 0: none";
    page.gauge("courtesy_engine_part", help, status.rank.map_or(0, |it| u64::from(it.rank) + 1));
    let help = "Whether half of the proxies or more have other settings";
    page.gauge("courtesy_engine_settings_differ", help, u64::from(status.has_other_settings()));
    let help = "By how much the reading of the engine's clock may be off";
    let error = status.clock_error.unwrap_or_default().as_secs_f64();
    page.seconds("courtesy_engine_clock_error", help, error);
    let help = "When the data of the engine began, in seconds since 1970";
    let epoch = Timestamp::from_millis(status.epoch.unwrap_or_default() / 1000);
    page.date("courtesy_engine_epoch_timestamp", help, epoch);
    let help = "How far the engine's clock and this machine's differ";
    let offset = status.clock_offset.unwrap_or_default().unsigned_abs();
    page.seconds("courtesy_engine_clock_offset", help, offset as f64 / 1e6);
    let help = "Whether the engine may forget holds and outages (maxmemory-policy)";
    page.gauge("courtesy_engine_may_evict", help, u64::from(status.may_evict));
    let seconds = Operation::ALL.map(Operation::word).into_iter().zip(counts.seconds).collect();
    let help = "Time of operations of the engine";
    page.latencies("courtesy_engine_operation", help, "op", seconds);
    let errors = ErrorKind::ALL.map(ErrorKind::word).into_iter().zip(counts.errors);
    page.counters("courtesy_engine_errors", "Failed operations of the engine", "kind", errors);
    let help = "Times that no more operations were sent, because they failed";
    page.counter("courtesy_engine_broken", help, counts.broken);
    let help = "Time during which the engine was away";
    page.seconds_counter("courtesy_engine_away", help, counts.away.as_secs_f64());
    let slots = SlotOutcome::ALL.map(SlotOutcome::word).into_iter().zip(counts.slots);
    let help = "Slots for starts that were reserved, by their end";
    page.counters("courtesy_engine_slots", help, "end", slots);
    let lookups = LookupKind::ALL.map(LookupKind::word).into_iter().zip(counts.lookups);
    let help = "Questions about origins, by the response";
    page.counters("courtesy_engine_lookups", help, "result", lookups);
}

/// Adds these metrics to `page`.
fn add_pace(page: &mut Exposition, parts: &MonitoredParts) {
    let counts = parts.egress.lanes().counts();
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
    let help = "Origins whose pace was forgotten, because that of too many is remembered";
    page.counter("courtesy_pace_lanes_forgotten", help, counts.forgotten);
    let help = "Origins whose pace is remembered";
    page.gauge("courtesy_pace_lanes", help, counts.lanes as u64);
    let help = "Origins at which nothing starts for now";
    page.gauge("courtesy_pace_holds", help, counts.holds as u64);
    let help = "Requests that wait for their turn at an origin or its address";
    page.gauge("courtesy_pace_waiting", help, counts.waiting as u64);
}

// The metrics of the process: those that every Prometheus client has, under their usual names, and
// version and panics. A value that the system does not give is left out.

/// Adds these metrics to `page`.
fn add_process(page: &mut Exposition, parts: &MonitoredParts) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    page.gauges("courtesy_build_info", "The running version", "version", version);
    // The name that every Prometheus client gives it.
    let help = "Start time of the process, in seconds since 1970";
    page.date("process_start_time", help, parts.started);
    add_usual(page);
    let help = "Panics; each closed at most one connection";
    page.counter("courtesy_panics", help, parts::panic_count());
}

fn add_usual(page: &mut Exposition) {
    page.seconds_counter(
        "process_cpu",
        "Processor time in user and system mode, in seconds",
        cpu_time().as_secs_f64(),
    );
    if let Some([virtual_memory, resident]) = memory() {
        page.bytes("process_virtual_memory", "Virtual memory", virtual_memory);
        page.bytes("process_resident_memory", "Resident memory", resident);
    }
    if let Some(count) = open_files() {
        page.gauge("process_open_fds", "Open file descriptors", count);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        page.gauge("process_max_fds", "Open file descriptors that there may be", limit);
    }
    if let Some(count) = entries("/proc/self/task") {
        page.gauge("process_threads", "Threads of the process", count);
    }
}

/// Of all threads, those that have ended too.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Virtual and resident memory in bytes: proc_pid_statm(5) has them in pages, in that order.
fn memory() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map(|number| number.parse::<u64>().ok());
    let page = page_size() as u64;
    Some([pages.next()??.saturating_mul(page), pages.next()??.saturating_mul(page)])
}

/// From Linux 6.2 on the directory says how many there are (proc_pid_fd(5)); before, its entries
/// are counted.
fn open_files() -> Option<u64> {
    const FILES: &str = "/proc/self/fd";
    match fs::metadata(FILES).ok()?.len() {
        // The directory is open itself while it is read.
        0 => entries(FILES).map(|count| count.saturating_sub(1)),
        count => Some(count),
    }
}

fn entries(directory: &str) -> Option<u64> {
    fs::read_dir(directory).ok().map(|entries| entries.count() as u64)
}

/// Adds these metrics to `page`.
fn add_proxy(page: &mut Exposition, parts: &MonitoredParts) {
    requests(page, parts);
    decisions(page, parts);
}

fn requests(page: &mut Exposition, parts: &MonitoredParts) {
    let counts = parts.request_metrics.counts();
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
    let (egress, pace) = (parts.egress.stats(), parts.egress.lanes().counts());
    let phases = vec![
        ("robots", parts.store.stats().waits),
        ("wait", pace.exchange_waits),
        ("connect", egress.connect),
        ("upstream", parts.request_metrics.upstream()),
        ("total", parts.request_metrics.durations()),
    ];
    let help = "Time from request to response header, in total and by phase";
    page.latencies("courtesy_request_duration", help, "phase", phases);
    let help = "Requests waiting for one of their origin's 256 exchanges";
    page.gauge("courtesy_queue_depth", help, pace.exchanges_waiting as u64);
    let help = "Requests that timed out waiting for their origin's limit";
    page.counter("courtesy_queue_rejected", help, pace.exchanges_rejected);
}

fn decisions(page: &mut Exposition, parts: &MonitoredParts) {
    let by_basis = parts.decision_metrics.by_basis().map(|(decision, basis, count)| {
        (vec![("decision", decision.to_owned()), ("basis", basis.to_owned())], count)
    });
    let help = "Decisions by outcome and basis";
    page.counters_by("courtesy_decisions", help, by_basis);
    let help = "Requests refused because the operator closed the way, by its address, host or port, or \
                because it leads to this proxy";
    page.counters("courtesy_egress_refusals", help, "kind", parts.decision_metrics.refusals());
    let help = "Requests that failed to reach their origin, by the error type of RFC 9209";
    page.counters("courtesy_egress_failures", help, "error", parts.decision_metrics.failures());
}

/// Adds these metrics to `page`.
fn add_robots(page: &mut Exposition, parts: &MonitoredParts) {
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

/// Adds these metrics to `page`; nothing where nothing is kept on the disk.
fn add_store(page: &mut Exposition, parts: &MonitoredParts) {
    let health = parts.store.health();
    if !health.enabled {
        return;
    }
    let degraded = u64::from(health.failing.is_some());
    page.gauge("courtesy_store_degraded", "Whether the store on disk is unusable", degraded);
    page.bytes("courtesy_store_content", "Content of the store", health.bytes);
    page.bytes("courtesy_store_file", "Size of the store's file", health.file_bytes);
    page.counter("courtesy_store_writes", "Origins written to the store", health.writes);
    let help = "Origins not written because too many waited or the file could not be used";
    page.counter("courtesy_store_dropped", help, health.dropped);
    let help = "Origins evicted from the store to keep its size";
    page.counter("courtesy_store_evicted", help, health.evicted);
    let help = "Origins whose stored content was corrupt";
    page.counter("courtesy_store_broken", help, health.broken);
    page.counter(
        "courtesy_store_errors",
        "Operations on the store's file that failed",
        health.errors,
    );
    page.counter("courtesy_store_loads", "Lookups in the store", health.loads);
    page.counter(
        "courtesy_store_load_hits",
        "Lookups that found the origin in the store",
        health.load_hits,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_has_is_counted() {
        let [virtual_memory, resident] = memory().unwrap();
        assert!(virtual_memory > resident && resident > 1 << 20, "{virtual_memory} {resident}");
        let files: Vec<_> = (0..500).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_files().unwrap() >= 500);
        drop(files);
        let (threads, before) = (entries("/proc/self/task").unwrap(), cpu_time());
        assert!(threads >= 1);
        while cpu_time() < before + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
    }
}
