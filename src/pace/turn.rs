//! The right to one start at an origin. Only this floor makes one, and egress sends no request
//! without one.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::sleep_until;

use super::cell::{Cell, Seat};
use super::hold::{Hold, Outcome};
use super::outcome::{jitter, outcome};
use super::refused::{Refused, WaitReason};
use super::tick::Tick;
use crate::policy::pace::RateLimit;
use crate::types::client_key::ClientKey;

/// The right to one start. Dropped before its start, it has cost nothing; dropped after, the
/// request does not count any more.
#[derive(Debug)]
pub struct Turn {
    /// `None`: the pace is off.
    seat: Option<Seat>,
    role: Role,
    /// When the patience of the request is over.
    deadline: Tick,
    /// The client whose visit begins with the start.
    begins_visit: Option<ClientKey>,
    waited: Option<Waited>,
}

/// What a start means for the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// They are a delay apart.
    Delayed,
    Undelayed,
    RobotsTxt,
}

/// How long a request waited for its turn, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub time: Duration,
    pub by: WaitReason,
    /// The line of the robots.txt, if a record of it is the reason.
    pub line: Option<u32>,
    /// The delay between two starts, if that is the reason.
    pub delay: Duration,
}

impl Turn {
    /// Where the pace is off.
    pub(super) const fn unpaced() -> Self {
        let deadline = Tick::from_micros(0);
        Self { seat: None, role: Role::Undelayed, deadline, begins_visit: None, waited: None }
    }

    pub(super) const fn granted(
        seat: Seat,
        role: Role,
        deadline: Tick,
        begins_visit: Option<ClientKey>,
    ) -> Self {
        Self { seat: Some(seat), role, deadline, begins_visit, waited: None }
    }

    pub(super) const fn after(mut self, waited: Option<Waited>) -> Self {
        self.waited = waited;
        self
    }

    /// How long the request waited; `None`: not at all.
    pub const fn waited(&self) -> Option<Waited> {
        self.waited
    }

    /// Waits until the request may start. To be called when it can be written at once.
    ///
    /// # Errors
    ///
    /// A hold has begun that is longer than the request may wait.
    pub async fn ready(&mut self) -> Result<(), Refused> {
        let Some(Seat { cell, id }) = &self.seat else { return Ok(()) };
        let (shared, mut slept) = (&cell.shared, Duration::ZERO);
        loop {
            let now = shared.ticks.now();
            let (at, hold) = {
                let mut state = cell.state.lock();
                match state.lane.start(*id, now) {
                    Ok(()) => break,
                    Err(at) => (at, state.lane.hold_at(now)),
                }
            };
            if at > self.deadline
                && let Some(Hold { until, status, cause }) = hold
            {
                let refused = Refused::Resting { wait: until.since(now), status, cause };
                shared.stats.note_refused(&refused);
                return Err(refused);
            }
            sleep_until(shared.ticks.instant(at)).await;
            slept += shared.ticks.now().since(now);
        }
        if let Some(client) = self.begins_visit.take() {
            shared.visits.begin(&client, shared.ticks.now());
        }
        if let Some(waited) = &mut self.waited {
            waited.time += slept;
        }
        Ok(())
    }

    /// The head of the request has been written: the distance to the next start counts from now.
    pub fn written(&self) {
        if let Some(Seat { cell, id }) = &self.seat
            && self.role == Role::Delayed
        {
            let now = cell.shared.ticks.now();
            cell.update(now, |state| state.lane.begin(*id, now));
        }
    }

    /// The request is to be sent a second time. To be followed by [`Self::ready`].
    pub fn again(&self) {
        if let Some(Seat { cell, id }) = &self.seat {
            cell.state.lock().lane.start_again(*id);
        }
    }

    /// The head of the response has come: what it says about the pace applies.
    pub fn answered(&self, status: StatusCode, headers: &HeaderMap) {
        let Some(Seat { cell, id }) = &self.seat else { return };
        let (now, date) = (cell.shared.ticks.now(), cell.shared.ticks.date());
        let is_robots_txt = self.role == Role::RobotsTxt;
        let config = cell.shared.config.load();
        let (outcome, limit) = outcome((status, headers), is_robots_txt, &config, date);
        if outcome == Outcome::Good && limit == RateLimit::default() {
            let mut state = cell.state.lock();
            if !state.lane.follows_responses(now) {
                state.lane.note_head(*id, now);
                return;
            }
        }
        cell.update(now, |state| {
            if let Some((delay, time)) = limit.spread {
                state.lane.spread(delay, now + time);
            }
            if let Some((places, time)) = limit.concurrent {
                let places = usize::try_from(places).unwrap_or(usize::MAX);
                state.lane.limit_places(places, now + time);
            }
        });
        self.note(outcome);
    }

    /// There was no response: after a timeout the origin may be overloaded.
    pub fn failed(&self, is_timeout: bool) {
        self.note(if is_timeout && self.role != Role::RobotsTxt {
            Outcome::Failure { status: 503 }
        } else {
            Outcome::NoResponse
        });
    }

    fn note(&self, outcome: Outcome) {
        let Some(Seat { cell, id }) = &self.seat else { return };
        let now = cell.shared.ticks.now();
        cell.update(now, |state| {
            if state.lane.note(*id, outcome, now, jitter(outcome)) {
                Cell::refuse_late(state, now);
            }
        });
    }
}
