//! The right to one start at an origin. Only this floor makes one, and egress sends no request
//! without one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::sleep_until;

use super::cell::{Cell, Seat};
use super::hold::{Hold, Outcome};
use super::limits::KEPT_HOLD_MIN;
use super::outcome::{concerns_pace, jitter, outcome};
use super::refused::Refused;
use super::tick::Tick;
use super::waited::Waited;
use crate::policy::pace::RateLimit;
use crate::types::client_key::ClientKey;

/// A shorter wait is not told.
const WAIT_NOTICEABLE: Duration = Duration::from_millis(1);

/// The right to one start. Dropped before its start, it has cost nothing; dropped after, the
/// request does not count any more.
#[derive(Debug)]
pub struct Turn(
    /// `None`: the pace is off. Boxed, because it is moved through many functions.
    Option<Box<Granted>>,
);

#[derive(Debug)]
struct Granted {
    seat: Seat,
    role: Role,
    /// When the patience of the request is over.
    deadline: Tick,
    /// The client whose visit begins with the start.
    begins_visit: Option<ClientKey>,
    waited: Option<Waited>,
    /// The wait is in the metrics.
    is_counted: bool,
}

/// What a start means for the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// They are a delay apart.
    Delayed,
    Undelayed,
    RobotsTxt,
}

impl Turn {
    /// Where the pace is off.
    pub(super) const fn unpaced() -> Self {
        Self(None)
    }

    pub(super) fn granted(
        seat: Seat,
        role: Role,
        deadline: Tick,
        begins_visit: Option<ClientKey>,
        waited: Option<Waited>,
    ) -> Self {
        let is_counted = false;
        Self(Some(Box::new(Granted { seat, role, deadline, begins_visit, waited, is_counted })))
    }

    /// How long the request waited; `None`: not noticeably.
    pub fn waited(&self) -> Option<Waited> {
        self.0.as_ref()?.waited.filter(|waited| waited.time >= WAIT_NOTICEABLE)
    }

    /// Waits until the request may start. To be called when it can be written at once.
    ///
    /// # Errors
    ///
    /// A hold has begun that is longer than the request may wait.
    pub async fn ready(&mut self) -> Result<(), Refused> {
        let Some(granted) = &mut self.0 else { return Ok(()) };
        let now = granted.seat.cell.shared.ticks.now();
        let started = granted.seat.cell.state.lock().lane.start(granted.seat.id, now);
        if started.is_err() {
            Box::pin(granted.wait()).await?;
        }
        granted.note_start();
        Ok(())
    }

    /// The head of the request has been written: the distance to the next start counts from now.
    pub fn written(&self) {
        if let Some(Granted { seat: Seat { cell, id }, role: Role::Delayed, .. }) =
            self.0.as_deref()
        {
            let now = cell.shared.ticks.now();
            cell.update(now, |state| state.lane.begin(*id, now));
        }
    }

    /// The request is to be sent a second time. To be followed by [`Self::ready`].
    pub fn again(&self) {
        if let Some(Granted { seat: Seat { cell, id }, .. }) = self.0.as_deref() {
            cell.state.lock().lane.start_again(*id);
        }
    }

    /// The head of the response has come: what it says about the pace applies.
    pub fn answered(&self, status: StatusCode, headers: &HeaderMap) {
        let Some(Granted { seat: Seat { cell, id }, role, .. }) = self.0.as_deref() else { return };
        let now = cell.shared.ticks.now();
        if !concerns_pace(status, headers) {
            let mut state = cell.state.lock();
            if !state.lane.follows_responses(now) {
                state.lane.note_head(*id, now);
                return;
            }
        }
        let (config, date) = (cell.shared.config.load(), cell.shared.ticks.date());
        let is_robots_txt = *role == Role::RobotsTxt;
        let (outcome, limit) = outcome((status, headers), is_robots_txt, &config, date);
        if limit != RateLimit::default() {
            cell.update(now, |state| {
                if let Some((delay, time)) = limit.spread {
                    state.lane.spread(delay, now + time);
                }
                if let Some((places, time)) = limit.concurrent {
                    let places = usize::try_from(places).unwrap_or(usize::MAX);
                    state.lane.limit_places(places, now + time);
                }
            });
        }
        self.note(outcome);
    }

    /// There was no response: after a timeout the origin may be overloaded.
    pub fn failed(&self, is_timeout: bool) {
        let is_robots_txt = self.0.as_ref().is_some_and(|granted| granted.role == Role::RobotsTxt);
        self.note(if is_timeout && !is_robots_txt {
            Outcome::Failure { status: 503 }
        } else {
            Outcome::NoResponse
        });
    }

    fn note(&self, outcome: Outcome) {
        let Some(Granted { seat: Seat { cell, id }, .. }) = self.0.as_deref() else { return };
        let now = cell.shared.ticks.now();
        cell.update(now, |state| {
            if state.lane.note(*id, outcome, now, jitter(outcome)) {
                Cell::refuse_late(state, now);
                let hold = state.lane.hold_at(now);
                if hold.is_some_and(|hold| hold.until.since(now) >= KEPT_HOLD_MIN) {
                    cell.shared.has_new_holds.store(true, Ordering::Relaxed);
                }
            }
        });
    }
}

impl Granted {
    /// Waits until the turn may start, and starts it.
    async fn wait(&mut self) -> Result<(), Refused> {
        let Seat { cell, id } = &self.seat;
        let (ticks, since) = (&cell.shared.ticks, cell.shared.ticks.now());
        loop {
            let now = ticks.now();
            let (at, hold) = {
                let mut state = cell.state.lock();
                match state.lane.start(*id, now) {
                    Ok(()) => break,
                    Err(at) => (at, state.lane.hold_of(*id, now)),
                }
            };
            if at > self.deadline
                && let Some(Hold { until, status, cause }) = hold
            {
                let refused = Refused::Resting { wait: until.since(now), status, cause };
                cell.shared.stats.note_refused(&refused);
                return Err(refused);
            }
            sleep_until(ticks.instant(at)).await;
        }
        if let Some(waited) = &mut self.waited {
            waited.time += ticks.now().since(since);
        }
        Ok(())
    }

    /// Counts the wait, and begins the visit, of a turn that has started for the first time.
    fn note_start(&mut self) {
        let Cell { shared, origin, .. } = &*self.seat.cell;
        let waited = self.waited.filter(|waited| waited.time >= WAIT_NOTICEABLE);
        if let Some(waited) = waited.filter(|_| !self.is_counted) {
            shared.stats.note_wait(origin, waited);
        }
        self.is_counted = true;
        if let Some(client) = self.begins_visit.take() {
            shared.visits.begin(&client, shared.ticks.now());
        }
    }
}
