//! The metrics of the audit log.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
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
    page.bytes_counter("courtesy_audit_written", "Bytes written to the log", health.bytes);
}
