//! The metrics of requests and of the decisions on them.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;
use crate::audit::Reason;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
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
    let help = "Requests waiting for their origin's limit (egress.max_per_origin)";
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
