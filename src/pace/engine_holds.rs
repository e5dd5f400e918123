//! Holds that all proxies keep, through the engine. Without one nothing here has an effect.

use std::sync::Arc;
use std::time::Duration;

use super::hold::{Bounds, Cause, Hold, Outcome};
use super::lane_cell::LaneCell;
use super::tick::Tick;
use crate::engine::{self, HoldCause, HoldLength, HoldRequest};

/// Holds the origin as the engine says.
pub(super) fn apply(cell: &Arc<LaneCell>, hold: Option<engine::Hold>, now: Tick) {
    let Some(engine::Hold { left, status, cause }) = hold else { return };
    let hold = Hold { until: now + left, status, cause: cause.into() };
    cell.update(now, |state| {
        if state.lane.hold_for_all(now).is_none_or(|own| own.until < hold.until) {
            state.lane.set_hold(hold, now);
            LaneCell::drop_late_waiters(state, now);
        }
    });
}

/// Reports the cause of a hold of all clients to the engine, and takes up the hold that applies to
/// all, in a task of its own: no request waits for it.
pub(super) fn report(cell: &Arc<LaneCell>, outcome: Outcome, jitter: f64) {
    let Some(engine) = cell.context.peers.engine().cloned() else { return };
    let bounds: Bounds = cell.context.config.load().lane.holds;
    let back_off = |first: Duration| HoldLength::BackOff {
        first,
        max: bounds.backoff_max,
        jitter: (jitter * 1000.0) as u16,
    };
    let (length, status, cause) = match outcome {
        Outcome::RetryLater { status, cause, after } => (HoldLength::For(after), status, cause),
        Outcome::Overload { status } | Outcome::Failure { status } => {
            (back_off(bounds.first(status)), status, Cause::BackOff)
        }
        Outcome::ConnectionLost => (back_off(bounds.first(503)), 503, Cause::BackOff),
        Outcome::Good | Outcome::Ignored => return,
    };
    let cause = match cause {
        Cause::RetryAfter => HoldCause::RetryAfter,
        Cause::RateLimit => HoldCause::RateLimit,
        Cause::BackOff => HoldCause::BackOff,
    };
    let cell = Arc::clone(cell);
    spawn(async move {
        let request = HoldRequest { origin: &cell.key, length, status, cause };
        if let Ok(hold) = engine.set_hold(request).await {
            apply(&cell, Some(hold), cell.context.clock.now());
        }
    });
}

/// Reports to the engine that the origin responds again.
pub(super) fn report_recovery(cell: &Arc<LaneCell>) {
    let Some(engine) = cell.context.peers.engine() else { return };
    let reset = engine.reset_backoff(&cell.key);
    spawn(async move {
        let _ = reset.await;
    });
}

/// Ends the hold for all.
pub(super) fn end_hold(cell: &Arc<LaneCell>) {
    let Some(engine) = cell.context.peers.engine() else { return };
    let end = engine.end_hold(&cell.key);
    spawn(async move {
        let _ = end.await;
    });
}

/// Outside of a runtime nothing is reported: the proxy ends.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
    }
}

impl From<HoldCause> for Cause {
    fn from(cause: HoldCause) -> Self {
        match cause {
            HoldCause::RetryAfter => Self::RetryAfter,
            HoldCause::RateLimit => Self::RateLimit,
            HoldCause::BackOff => Self::BackOff,
        }
    }
}
