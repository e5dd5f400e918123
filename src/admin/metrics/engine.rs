//! The metrics of the shared engine; none without one.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;
use crate::engine::{ErrorKind, LookupKind, Operation, SlotOutcome};
use crate::types::timestamp::Timestamp;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let Some(engine) = &parts.engine else { return };
    let (status, counts) = (engine.status(), engine.stats().counts());
    let help = "Whether the shared engine can be reached";
    page.gauge("courtesy_engine_up", help, u64::from(status.is_up));
    let help = "Proxies that share the engine, the most of the last ten minutes";
    page.gauge("courtesy_engine_members", help, status.members as u64);
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
