//! The right to one start at an origin. Only this floor makes one, and egress sends no request
//! without one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::sleep_until;

use super::cell::{Cell, Seat};
use super::exchanges::NoExchange;
use super::hold::{Hold, Outcome};
use super::lane::TurnId;
use super::limits::KEPT_HOLD_MIN;
use super::outcome::{concerns_pace, jitter, outcome};
use super::refused::Refused;
use super::shared_holds;
use super::tick::Tick;
use super::waited::Waited;
use crate::engine::SlotEnd;
use crate::policy::pace::RateLimit;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// So long before the slot of a turn its connection is made.
const CONNECT_LEAD: Duration = Duration::from_secs(1);

/// A shorter wait is not told.
const WAIT_NOTICEABLE: Duration = Duration::from_millis(1);

/// The right to one start. Dropped before its start, it has cost nothing; dropped after, the
/// request does not count any more.
#[derive(Debug)]
pub struct Turn(
    /// Boxed, because it is moved through many functions.
    Box<Granted>,
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
    /// The end of the slot that was reserved for it at the engine: it does not start later.
    slot_end: Option<Tick>,
    /// The end of that slot is in the metrics.
    is_slot_noted: bool,
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.note_slot(SlotEnd::Idle);
    }
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
    pub(super) fn granted(
        seat: Seat,
        role: Role,
        deadline: Tick,
        begins_visit: Option<ClientKey>,
        waited: Option<Waited>,
    ) -> Self {
        Self(Box::new(Granted {
            seat,
            role,
            deadline,
            begins_visit,
            waited,
            is_counted: false,
            slot_end: None,
            is_slot_noted: false,
        }))
    }

    /// Reserves a slot at the engine, where there is one, and waits until it is near.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(super) async fn reserve(&mut self) -> Result<(), Refused> {
        self.0.reserve().await
    }

    /// How long the request waited; `None`: not noticeably.
    pub fn waited(&self) -> Option<Waited> {
        self.0.waited.filter(|waited| waited.time >= WAIT_NOTICEABLE)
    }

    /// Whose request it is for.
    pub fn client(&self) -> &ClientKey {
        &self.0.seat.client
    }

    /// Where it may start.
    pub fn origin(&self) -> &Origin {
        &self.0.seat.cell.key
    }

    /// Whether the request has one of the origin's exchanges (`egress.max_per_origin`).
    pub fn has_exchange(&self) -> bool {
        self.0.seat.has_exchange
    }

    /// Waits for an exchange, at most for `limit`, if the request has none.
    ///
    /// # Errors
    ///
    /// There was none in time.
    pub async fn wait_for_exchange(&mut self, limit: Duration) -> Result<(), NoExchange> {
        if self.has_exchange() { Ok(()) } else { self.0.seat.wait_for_exchange(limit).await }
    }

    /// Waits until the request may start. To be called when it can be written at once.
    ///
    /// # Errors
    ///
    /// A hold has begun that is longer than the request may wait.
    pub async fn ready(&mut self) -> Result<(), Refused> {
        let granted = &mut *self.0;
        let Some(id) = granted.seat.id else { return Ok(()) };
        let now = granted.seat.cell.shared.ticks.now();
        let is_missed = granted.has_missed_slot(now);
        if is_missed || granted.seat.cell.state.lock().lane.start(id, now).is_err() {
            Box::pin(granted.wait(id)).await?;
        }
        granted.note_start();
        granted.note_slot(SlotEnd::Used);
        Ok(())
    }

    /// The head of the request has been written: the distance to the next start counts from now.
    pub fn written(&self) {
        if self.0.role == Role::Delayed
            && let Some((cell, id)) = self.in_lane()
        {
            let now = cell.shared.ticks.now();
            cell.update(now, |state| state.lane.begin(id, now));
        }
    }

    /// The request is to be sent a second time. To be followed by [`Self::ready`].
    pub fn again(&mut self) {
        if let Some((cell, id)) = self.in_lane() {
            cell.state.lock().lane.start_again(id);
        }
        // The slot has been used.
        self.0.slot_end = self.0.slot_end.map(|_| Tick::default());
    }

    /// Its lane, and its place there; `None`: the pace is off.
    fn in_lane(&self) -> Option<(&Arc<Cell>, TurnId)> {
        Some((&self.0.seat.cell, self.0.seat.id?))
    }

    /// The head of the response has come: what it says about the pace applies.
    pub fn answered(&self, status: StatusCode, headers: &HeaderMap) {
        let Some((cell, id)) = self.in_lane() else { return };
        let now = cell.shared.ticks.now();
        if !concerns_pace(status, headers) {
            let mut state = cell.state.lock();
            if !state.lane.follows_responses(now) {
                state.lane.note_head(id, now);
                return;
            }
        }
        let (config, date) = (cell.shared.config.load(), cell.shared.ticks.date());
        let is_robots_txt = self.0.role == Role::RobotsTxt;
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
        self.note(if is_timeout && self.0.role != Role::RobotsTxt {
            Outcome::Failure { status: 503 }
        } else {
            Outcome::NoResponse
        });
    }

    fn note(&self, outcome: Outcome) {
        let Some((cell, id)) = self.in_lane() else { return };
        let (now, jitter) = (cell.shared.ticks.now(), jitter(outcome));
        let (is_held, is_calm) = cell.update(now, |state| {
            let had_streak = state.lane.has_streak();
            let is_held = state.lane.note(id, outcome, now, jitter);
            if is_held {
                Cell::refuse_late(state, now);
                let hold = state.lane.hold_at(now);
                if hold.is_some_and(|hold| hold.until.since(now) >= KEPT_HOLD_MIN) {
                    cell.shared.has_new_holds.store(true, Ordering::Relaxed);
                }
            }
            (is_held, had_streak && !state.lane.has_streak())
        });
        if is_held {
            shared_holds::announce(cell, outcome, jitter);
        }
        if is_calm {
            shared_holds::calm(cell);
        }
    }
}

impl Granted {
    /// Waits until the turn may start, and starts it.
    async fn wait(&mut self, id: TurnId) -> Result<(), Refused> {
        let since = self.seat.cell.shared.ticks.now();
        loop {
            if self.has_missed_slot(self.seat.cell.shared.ticks.now()) {
                self.note_slot(SlotEnd::Missed);
                self.slot_end = self.seat.reserve(id, self.deadline).await?;
                self.is_slot_noted = false;
            }
            let cell = &self.seat.cell;
            let ticks = &cell.shared.ticks;
            let now = ticks.now();
            let (at, hold) = {
                let mut state = cell.state.lock();
                match state.lane.start(id, now) {
                    Ok(()) => break,
                    Err(at) => (at, state.lane.hold_of(id, now)),
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
        self.note_waited(since);
        Ok(())
    }

    async fn reserve(&mut self) -> Result<(), Refused> {
        let Some(id) = self.seat.id else { return Ok(()) };
        let since = self.seat.cell.shared.ticks.now();
        self.slot_end = self.seat.reserve(id, self.deadline).await?;
        if self.slot_end.is_some() {
            let Cell { shared, state, .. } = &*self.seat.cell;
            let near = state.lock().lane.starts_at(id).map(|start| start - CONNECT_LEAD);
            if let Some(near) = near.filter(|near| *near > shared.ticks.now()) {
                sleep_until(shared.ticks.instant(near)).await;
            }
            self.note_waited(since);
        }
        Ok(())
    }

    /// Whether its slot ends before it has started.
    fn has_missed_slot(&self, now: Tick) -> bool {
        self.slot_end.is_some_and(|end| end <= now)
    }

    /// Notes how its slot ended, if it has one that has not ended.
    fn note_slot(&mut self, end: SlotEnd) {
        if self.slot_end.is_some_and(|slot_end| slot_end > Tick::default())
            && !self.is_slot_noted
            && let Some(engine) = self.seat.cell.shared.cluster.engine()
        {
            self.is_slot_noted = true;
            engine.stats().note_slot(end);
        }
    }

    fn note_waited(&mut self, since: Tick) {
        let now = self.seat.cell.shared.ticks.now();
        if let Some(waited) = &mut self.waited {
            waited.time += now.since(since);
        }
    }

    /// Counts the wait, and begins the visit, of a turn that has started for the first time.
    fn note_start(&mut self) {
        let Cell { shared, key: origin, .. } = &*self.seat.cell;
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
