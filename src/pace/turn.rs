//! The right to one start at an origin. Only this layer makes one, and egress sends no request
//! without one.

mod at_address;
mod report;
mod reserve;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::conditions::{Role, TurnConditions};
use super::context::PaceContext;
use super::exchanges::NoExchange;
use super::hold::Hold;
use super::lane::TurnId;
use super::lane_cell::{LaneCell, TurnGuard};
use super::no_turn::NoTurn;
use super::slot::Slot;
use super::tick::Tick;
use super::waited::Waited;
use crate::engine::SlotOutcome;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// A turn at an address is kept for at most so long while its request waits for something else.
const ADDRESS_KEPT_MAX: Duration = Duration::from_secs(1);

/// A shorter wait is not reported.
const WAIT_NOTICEABLE: Duration = Duration::from_millis(1);

/// The right to one start. Dropped before its start, it has cost nothing; dropped after, the
/// request does not count any more.
#[derive(Debug)]
pub struct Turn(
    /// Boxed, because it is moved through many functions.
    Box<Inner>,
);

/// What the start of a turn is in a visit.
#[derive(Debug, Default)]
pub(super) enum VisitRole {
    #[default]
    None,
    /// The start of a document, with whose response a visit may begin.
    Document,
    /// The first of a visit at its origin.
    First(Box<VisitStart>),
}

/// The first request of a visit at an origin; if it is dropped before its start, another one is
/// the first.
#[derive(Debug)]
pub(super) struct VisitStart {
    pub context: Arc<PaceContext>,
    pub client: ClientKey,
    pub visit: u64,
    pub origin: Origin,
    pub has_started: bool,
}

impl VisitStart {
    fn open(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            let now = self.context.clock.now();
            self.context.visits.open(&self.client, self.visit, &self.origin, Some(now));
        }
    }
}

impl Drop for VisitStart {
    fn drop(&mut self) {
        if !self.has_started {
            self.context.visits.open(&self.client, self.visit, &self.origin, None);
        }
    }
}

#[derive(Debug)]
struct Inner {
    /// Where its request goes: a lane is that of both schemes of a host.
    origin: Origin,
    guard: TurnGuard,
    /// At the address that the connection of the request leads to, where addresses have limits.
    address: Option<TurnGuard<IpAddr>>,
    conditions: TurnConditions,
    visit: VisitRole,
    waited: Option<Waited>,
    /// The lane has counted it as started when it was granted, and nothing has been waited for
    /// since.
    counted_as_started: bool,
    /// The wait is in the metrics.
    is_wait_noted: bool,
    /// The slot that was reserved for it at the engine: it does not start later.
    slot: Option<Slot>,
    /// The end of that slot is in the metrics.
    is_slot_noted: bool,
    /// It is a fetch of robots.txt for one agent: a rest that the response asks for is of that agent.
    is_for_one_agent: bool,
}

impl Turn {
    pub(super) fn granted(
        origin: &Origin,
        guard: TurnGuard,
        conditions: TurnConditions,
        visit: VisitRole,
        waited: Option<Waited>,
    ) -> Self {
        Self(Box::new(Inner {
            origin: origin.clone(),
            guard,
            address: None,
            conditions,
            visit,
            waited,
            counted_as_started: false,
            is_wait_noted: false,
            slot: None,
            is_slot_noted: false,
            is_for_one_agent: false,
        }))
    }

    /// The same for a request that need not wait.
    pub(super) fn granted_immediately(
        origin: &Origin,
        guard: TurnGuard,
        conditions: TurnConditions,
        visit: VisitRole,
    ) -> Self {
        let mut turn = Self::granted(origin, guard, conditions, visit, None);
        turn.0.counted_as_started = !conditions.is_observed && turn.0.guard.id.is_some();
        turn
    }

    /// Adds a wait for another request of its visit, before the turn was taken.
    pub(super) fn add_wait(&mut self, waited: Waited) {
        let time = self.0.waited.map_or(Duration::ZERO, |own| own.time);
        self.0.waited = Some(Waited { time: waited.time + time, ..waited });
    }

    /// How long the request waited; `None`: not noticeably.
    pub fn waited(&self) -> Option<Waited> {
        self.0.waited.filter(|waited| waited.time >= WAIT_NOTICEABLE)
    }

    /// Whose request it is for.
    pub fn client(&self) -> &ClientKey {
        &self.0.guard.client
    }

    /// Whether it is a fetch of robots.txt.
    pub fn is_for_robots_txt(&self) -> bool {
        self.0.conditions.role == Role::RobotsTxt
    }

    /// The same turn, of a fetch of robots.txt for one agent alone.
    pub fn for_one_agent(mut self) -> Self {
        self.0.is_for_one_agent = true;
        self
    }

    /// Whether others wait for its start: it was queued itself.
    pub fn is_queued(&self) -> bool {
        self.0.conditions.role == Role::PageQueued
    }

    /// Where it may start.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Whether the request has one of the origin's exchanges (`egress.max_per_origin`).
    pub fn has_exchange(&self) -> bool {
        self.0.guard.has_exchange
    }

    /// Waits for an exchange, at most for `limit`, if the request has none.
    ///
    /// # Errors
    ///
    /// There was none in time.
    pub async fn wait_for_exchange(&mut self, limit: Duration) -> Result<(), NoExchange> {
        if self.has_exchange() { Ok(()) } else { self.0.guard.wait_for_exchange(limit).await }
    }

    /// Starts a request that has waited for nothing since its turn was taken: no hold can have
    /// begun. Returns whether it has started. Saves 400 instructions of
    /// [`Self::try_start_at_origin`].
    pub(super) fn try_start_immediately(&mut self) -> bool {
        let is_fresh = std::mem::take(&mut self.0.counted_as_started);
        if is_fresh {
            self.0.note_start();
        }
        is_fresh
    }

    /// Starts the request, if its time at the origin has come. One that its lane has counted as
    /// started, when it had its turn at once, did not start then: it has waited for a connection
    /// meanwhile, and a hold may have begun.
    pub(super) fn try_start_at_origin(&mut self) -> bool {
        let counted_as_started = std::mem::take(&mut self.0.counted_as_started);
        let Some((cell, id)) = self.in_lane() else { return true };
        let now = cell.context.clock.now();
        let has_started = !self.0.needs_slot(now) && {
            let mut state = cell.state.lock();
            if counted_as_started {
                state.lane.rearm(id);
            }
            state.lane.start(id, now).is_ok()
        };
        if has_started {
            self.0.note_start();
            self.0.note_slot(SlotOutcome::Used);
        }
        has_started
    }

    /// Waits until the request may start at its origin. The turn at its address is given back if
    /// that is not soon: the other origins there must not wait for this one.
    ///
    /// # Errors
    ///
    /// A hold has begun that is longer than the request may wait.
    pub(super) async fn wait_for_origin_start(&mut self) -> Result<(), NoTurn> {
        let since = self.now();
        while let Some((at, hold)) = self.origin_starts_at() {
            let wait = at.since(self.now());
            if wait > ADDRESS_KEPT_MAX {
                self.leave_address();
            }
            if at > self.0.conditions.deadline
                && let Some(Hold { status, cause, .. }) = hold
            {
                return Err(NoTurn::Held { wait, status, cause });
            }
            sleep_until(self.0.guard.cell.context.clock.instant(at)).await;
        }
        self.0.note_waited(since);
        Ok(())
    }

    /// When the request may start at its origin, if that is later than now, and the hold meanwhile.
    fn origin_starts_at(&self) -> Option<(Tick, Option<Hold>)> {
        let (cell, id) = self.in_lane()?;
        let now = cell.context.clock.now();
        let state = cell.state.lock();
        let at = state.lane.starts_at(id).filter(|at| *at > now)?;
        Some((at, state.lane.hold_of(id, now)))
    }

    fn now(&self) -> Tick {
        self.0.guard.cell.context.clock.now()
    }

    /// The request is to be sent a second time: it starts again.
    pub fn rearm(&mut self) {
        if self.0.conditions.is_observed {
            return;
        }
        if let Some((cell, id)) = self.in_lane() {
            cell.state.lock().lane.rearm(id);
        }
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, _| lane.rearm(id));
        }
        // Its slot has been used: the second sending needs another.
        self.0.slot = self.0.slot.map(|_| Slot::TO_RESERVE);
    }

    /// Its lane, and its number there; `None`: the pace is off.
    fn in_lane(&self) -> Option<(&Arc<LaneCell>, TurnId)> {
        Some((&self.0.guard.cell, self.0.guard.id?))
    }
}

impl Inner {
    /// Adds the wait since that moment.
    fn note_waited(&mut self, since: Tick) {
        let now = self.guard.cell.context.clock.now();
        if let Some(waited) = &mut self.waited {
            waited.time += now.since(since);
        }
    }

    /// Counts the wait, and opens the origin to its visit, of a turn that has started for the first time.
    fn note_start(&mut self) {
        let context = &self.guard.cell.context;
        let waited = self.waited.filter(|waited| waited.time >= WAIT_NOTICEABLE);
        if let Some(waited) = waited.filter(|_| !self.is_wait_noted) {
            context.stats.note_wait(&self.origin, waited);
        }
        self.is_wait_noted = true;
        if let VisitRole::First(visit) = &mut self.visit {
            visit.open();
        }
    }
}
