//! The numbers, in the text format of OpenMetrics, named as Prometheus asks: base units, `_total` on
//! what only grows. No label names an origin, an agent or a path: there is no end of them.

use std::fmt;

use http::StatusCode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::routes::{Answer, told};
use super::{Watched, panics};
use crate::audit::Reason;

pub(super) fn answer(watched: &Watched) -> Answer {
    let mut sheet = Sheet(Registry::default());
    process(&mut sheet, watched);
    settings(&mut sheet, watched);
    clients(&mut sheet, watched);
    requests(&mut sheet, watched);
    robots(&mut sheet, watched);
    store(&mut sheet, watched);
    audit(&mut sheet, watched);
    let mut lines = String::new();
    text::encode(&mut lines, &sheet.0).expect("a text takes what is written to it");
    told(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", lines)
}

fn process(sheet: &mut Sheet, watched: &Watched) {
    let version = vec![(env!("CARGO_PKG_VERSION").to_owned(), 1)];
    let build = Labelled { kind: MetricType::Gauge, label: "version", values: version };
    sheet.0.register("courtesy_build_info", "The version that runs", build);
    // The name that every Prometheus client gives it.
    let started = watched.started.millis() as f64 / 1000.0;
    let help = "When the process began, in seconds since 1970";
    sheet.0.register_with_unit("process_start_time", help, Unit::Seconds, ConstGauge::new(started));
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
    let since = reloads.last_success().unwrap_or(watched.started).millis() as f64 / 1000.0;
    let help = "Since when the settings in effect are, in seconds since 1970";
    let (name, unit) = ("courtesy_config_last_reload_success_timestamp", Unit::Seconds);
    sheet.0.register_with_unit(name, help, unit, ConstGauge::new(since));
}

fn clients(sheet: &mut Sheet, watched: &Watched) {
    sheet.gauge("courtesy_connections", "Connections of clients that are open", watched.door.inside() as u64);
    let turned_away = watched.door.counts().by_reason();
    sheet.counters(
        "courtesy_clients_turned_away",
        "Connections and requests that were not served because of whose they are, or of how many there were",
        "reason",
        turned_away.map(|(reason, count)| (reason.to_owned(), count)).collect(),
    );
}

fn requests(sheet: &mut Sheet, watched: &Watched) {
    let counts = watched.tally.counts();
    let denied_for =
        |reason| counts.denied.iter().find(|(it, _)| *it == reason).map_or(0, |(_, count)| *count);
    sheet.counters(
        "courtesy_requests",
        "Requests by how they ended: forwarded, answered from the copy of robots.txt, denied, or failed",
        "outcome",
        vec![
            ("forwarded".into(), counts.forwarded),
            ("copy".into(), counts.copies),
            ("denied".into(), counts.denied_in_all()),
            ("failed".into(), counts.failed),
        ],
    );
    sheet.gauge("courtesy_requests_under_way", "Requests that have not ended", counts.under_way());
    let reasons = Reason::ALL.map(|reason| (reason.word(), denied_for(reason)));
    sheet.counters(
        "courtesy_denials",
        "Denied requests, by the reason in their record",
        "reason",
        reasons.into(),
    );
}

fn robots(sheet: &mut Sheet, watched: &Watched) {
    let stats = watched.store.stats();
    sheet.counter("courtesy_robots_fetches", "Fetches of a robots.txt that were begun", stats.fetches);
    let help = "Fetches of a robots.txt under way, or waiting for their turn";
    sheet.gauge("courtesy_robots_fetches_under_way", help, stats.flights as u64);
    sheet.gauge("courtesy_cache_entries", "Origins known in memory", stats.entries as u64);
    sheet.bytes("courtesy_cache", "Memory for what is known of origins", stats.bytes as u64);
    sheet.gauge("courtesy_cache_files", "Distinct robots.txt files in memory", stats.parsed as u64);
    let help = "Questions about an origin that memory answered";
    sheet.counter("courtesy_cache_hits", help, stats.hits);
    let help = "Questions about an origin that the disk or a fetch had to answer";
    sheet.counter("courtesy_cache_misses", help, stats.misses);
    let help = "Requests that wait until something is known of their origin";
    sheet.gauge("courtesy_cache_waiters", help, stats.waiters as u64);
}

/// Nothing where nothing is kept on the disk.
fn store(sheet: &mut Sheet, watched: &Watched) {
    let health = watched.store.health();
    if !health.enabled {
        return;
    }
    let degraded = u64::from(health.failing.is_some());
    sheet.gauge("courtesy_store_degraded", "Whether the store on the disk cannot be used", degraded);
    sheet.gauge("courtesy_store_entries", "Origins in the store", health.entries);
    sheet.bytes("courtesy_store_content", "What the store keeps", health.bytes);
    sheet.bytes("courtesy_store_file", "The file of the store", health.file_bytes);
    sheet.counter("courtesy_store_writes", "Origins written to the store, or removed", health.writes);
    sheet.gauge("courtesy_store_pending", "Origins that wait to be written", health.pending);
    let help = "Origins that could not wait to be written, because there was no room";
    sheet.counter("courtesy_store_dropped", help, health.dropped);
    let help = "Origins that left the store, because it may not become larger";
    sheet.counter("courtesy_store_evicted", help, health.evicted);
    let help = "Origins of which what was kept did not hold";
    sheet.counter("courtesy_store_broken", help, health.broken);
    sheet.counter("courtesy_store_errors", "Times that the file of the store failed", health.errors);
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
    sheet.gauge("courtesy_audit_head_seq", "The number of the last line of the log", health.head.seq);
    let help = "Files of the log that were closed";
    sheet.counter("courtesy_audit_segments_closed", help, health.segments_closed);
    let lines = ConstCounter::new(health.bytes);
    sheet.0.register_with_unit("courtesy_audit_written", "Lines of the log written", Unit::Bytes, lines);
}

/// What is told in one answer, every number as it is now.
struct Sheet(Registry);

impl Sheet {
    /// Its name gets `_total` at the end.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    /// One counter for each value of a label, those that are zero too: an alert sees the first step.
    fn counters(&mut self, name: &str, help: &str, label: &'static str, values: Vec<(String, u64)>) {
        self.0.register(name, help, Labelled { kind: MetricType::Counter, label, values });
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    /// Its name gets `_bytes` at the end.
    fn bytes(&mut self, name: &str, help: &str, value: u64) {
        self.0.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(value));
    }
}

/// One number for each value of a label.
#[derive(Debug)]
struct Labelled {
    kind: MetricType,
    label: &'static str,
    values: Vec<(String, u64)>,
}

impl EncodeMetric for Labelled {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        self.values.iter().try_for_each(|(value, number)| {
            let labels = [(self.label, value.as_str())];
            let mut encoder = encoder.encode_family(&labels)?;
            match self.kind {
                MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(number, None),
                _ => encoder.encode_gauge(number),
            }
        })
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}
