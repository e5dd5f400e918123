//! The metrics of the pace: waits, refusals, and what is remembered of origins.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;
use crate::pace::{Counts, WaitReason};

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
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
