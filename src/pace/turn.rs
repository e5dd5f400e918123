//! The right to one start at an origin. Only this layer makes one, and egress sends no request
//! without one.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::addresses::Addresses;
use super::config::KEPT_HOLD_MIN;
use super::context::PaceContext;
use super::exchange_limit::NoExchange;
use super::hold::{Hold, Outcome, RequestFailure, jitter, outcome};
use super::lane::{Arrival, HoldChange, Kind, LEAD_MAX, Lane, LaneLimit, TurnId};
use super::lane_cell::{self, LaneCell, TurnGuard};
use super::no_turn::{NoTurn, WaitReason, Waited};
use super::slot::{CONNECT_LEAD, Place, Role, Slot, StartRule, TurnConditions};
use super::tick::Tick;
use super::visits::is_document;
use crate::engine::SlotOutcome;
use crate::policy::pace::RateLimit;
pub(super) use crate::policy::pace::concerns_pace;
use crate::types::ClientKey;
use crate::types::origin::Origin;

/// A turn at an address is kept for at most so long while its request waits for something else.
const ADDRESS_KEPT_MAX: Duration = Duration::from_secs(1);

/// A shorter wait is not reported: that for its slot, at the file or the engine, is no wait for a site.
const WAIT_NOTICEABLE: Duration = Duration::from_millis(50);

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
    /// Its place at the engine, where there are more proxies than places.
    place: Option<Place>,
    /// It is a fetch of robots.txt for one agent: a hold that the response asks for is of that agent.
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
            place: None,
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

    pub(super) fn guard(&self) -> &TurnGuard {
        &self.0.guard
    }

    /// When its longest wait ends.
    pub(super) fn deadline(&self) -> Tick {
        self.0.conditions.deadline
    }

    pub(super) fn set_place(&mut self, place: Place) {
        self.0.place = Some(place);
    }

    /// Whether the request has one of the origin's exchanges.
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
        let slot = self.0.slot;
        let mut may_start = true;
        let has_started = !self.0.needs_slot(now) && {
            let mut state = cell.state.lock();
            if counted_as_started {
                state.lane.rearm(id);
            }
            may_start = slot.is_none_or(|slot| slot.try_start(cell.context.peers.engine()));
            may_start && state.lane.start(id, now).is_ok()
        };
        if !may_start {
            self.0.slot = Some(Slot::TO_RESERVE);
        }
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
            let expected = self.0.expected(wait, hold.is_some());
            let context = &self.0.guard.cell.context;
            let _told = context.tell_wait(&self.0.origin, expected);
            sleep_until(context.clock.instant(at)).await;
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

    /// When it is expected to start at its origin, as far as that is known when it is asked.
    pub(super) fn start_expected(&self) -> impl FnOnce() -> Tick + use<> {
        let (cell, id) = (Arc::clone(&self.0.guard.cell), self.0.guard.id);
        move || id.and_then(|id| cell.state.lock().lane.starts_at(id)).unwrap_or_default()
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
    /// A wait of that length, with what the start of this turn waits for.
    fn expected(&self, time: Duration, is_held: bool) -> Waited {
        let now = self.guard.cell.context.clock.now();
        let state = self.guard.cell.state.lock();
        let limit = self.guard.id.filter(|_| !is_held);
        let limit = limit.and_then(|id| state.lane.delaying_limit(id, now));
        let limit = limit.unwrap_or(if is_held { LaneLimit::Hold } else { LaneLimit::Delay });
        Waited::of(limit, self.conditions.site_pace, state.lane.lane_delay(now), time)
    }

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

impl Turn {
    /// Reserves a slot at the engine, where there is one, and waits until it is near.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(super) async fn reserve_slot(&mut self) -> Result<(), NoTurn> {
        self.0.reserve_slot().await
    }

    /// Leaves the reservation of a slot to [`Self::reserve_if_needed`], just before the start.
    pub(super) fn reserve_later(&mut self) {
        self.0.slot = Some(Slot::TO_RESERVE);
    }

    /// Reserves a slot, if the turn has none yet or has missed its own. The turn at the address is
    /// given back if that takes long.
    ///
    /// # Errors
    ///
    /// There is none in time.
    pub(super) async fn reserve_if_needed(&mut self) -> Result<(), NoTurn> {
        let since = self.now();
        let Some(id) = self.0.guard.id.filter(|_| self.0.needs_slot(since)) else {
            return Ok(());
        };
        self.0.note_slot(SlotOutcome::Missed);
        let rule = {
            let Inner { guard, address, conditions, slot, .. } = &mut *self.0;
            let mut reserved = pin!(guard.reserve_at_engine(id, conditions, *slot));
            tokio::select! {
                biased;
                end = &mut reserved => end?,
                () = sleep(ADDRESS_KEPT_MAX) => {
                    *address = None;
                    reserved.await?
                }
            }
        };
        self.0.apply(rule);
        self.0.note_waited(since);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.note_slot(SlotOutcome::Idle);
    }
}

impl Inner {
    async fn reserve_slot(&mut self) -> Result<(), NoTurn> {
        let Some(id) = self.guard.id else { return Ok(()) };
        let since = self.guard.cell.context.clock.now();
        let rule = self.guard.reserve_at_engine(id, &self.conditions, None).await?;
        self.apply(rule);
        if rule != StartRule::WithoutSlot {
            let LaneCell { context, state, .. } = &*self.guard.cell;
            let start = state.lock().lane.starts_at(id);
            let near = start.map(|start| start - CONNECT_LEAD);
            let now = context.clock.now();
            if let Some(near) = near.filter(|near| *near > now) {
                let wait = start.unwrap_or(near).since(now);
                let _told = context.tell_wait(&self.origin, self.expected(wait, false));
                sleep_until(context.clock.instant(near)).await;
            }
            self.note_waited(since);
        }
        Ok(())
    }

    /// Applies the rule for its start.
    fn apply(&mut self, rule: StartRule) {
        self.is_slot_noted = false;
        self.slot = match rule {
            StartRule::Slot(slot) => Some(slot),
            StartRule::WithoutSlot => None,
        };
        let is_cell = self.slot.is_some_and(|slot| slot.is_cell());
        if let Some(waited) = self.waited.as_mut().filter(|_| is_cell) {
            let (by, line, delay) = (WaitReason::Share, None, Duration::ZERO);
            *waited = Waited { by, line, delay, ..*waited };
        }
    }

    /// Counts how its slot ended, if it has one that is not counted.
    fn note_slot(&mut self, outcome: SlotOutcome) {
        if self.slot.is_some_and(|slot| slot.is_reserved())
            && !self.is_slot_noted
            && let Some(engine) = self.guard.cell.context.peers.engine()
        {
            self.is_slot_noted = true;
            engine.stats().note_slot(outcome);
        }
    }

    /// Whether it has to reserve a slot before it starts: it has missed its own, or has none yet.
    fn needs_slot(&self, now: Tick) -> bool {
        self.slot.is_some_and(|slot| slot.is_over(now, self.guard.cell.context.peers.engine()))
    }
}

impl Turn {
    /// Whether the request takes a turn at its address: it is paced, and no robots.txt.
    pub(super) fn counts_at_addresses(&self) -> bool {
        self.0.guard.id.is_some() && self.0.conditions.role != Role::RobotsTxt
    }

    /// Ends the turn at the address.
    pub fn leave_address(&mut self) {
        self.0.address = None;
    }

    /// Starts the request at `address` and at its origin, if the time of both has come.
    pub(super) fn try_start_at_address(&mut self, addresses: &Addresses, address: IpAddr) -> bool {
        if self.origin_starts_at().is_some() || self.0.needs_slot(self.now()) {
            return false;
        }
        self.try_acquire_at_address(addresses, address);
        let Some(guard) = &self.0.address else { return false };
        if !guard.try_start() {
            return false;
        }
        let has_started = self.try_start_at_origin();
        if !has_started {
            // A hold has begun meanwhile.
            self.leave_address();
        }
        has_started
    }

    /// Takes a turn at `address`, if the request need not wait for it.
    fn try_acquire_at_address(&mut self, addresses: &Addresses, address: IpAddr) {
        if self.is_at(address) {
            return;
        }
        self.leave_address();
        let arrival = self.arrival();
        self.0.address = if self.0.conditions.is_observed {
            let (guard, wait) = addresses.observe(address, &arrival);
            if !wait.is_zero() {
                self.0.guard.cell.context.stats.note_would_wait(wait);
            }
            Some(guard)
        } else {
            addresses.try_acquire(address, &arrival)
        };
    }

    /// Waits for the turn at `address`, and for the time of its start.
    ///
    /// # Errors
    ///
    /// It does not come within the longest wait of the request, or before the proxy stops.
    pub(super) async fn wait_at_address(
        &mut self,
        addresses: &Addresses,
        address: IpAddr,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        let since = self.now();
        if !self.is_at(address) {
            self.leave_address();
            let (time, delay) = (Duration::ZERO, addresses.delay());
            let expected = Waited { time, by: WaitReason::Address, line: None, delay };
            let told = self.0.guard.cell.context.tell_wait(&self.0.origin, expected);
            let acquired = addresses.acquire(address, &self.arrival(), shutdown).await;
            drop(told);
            self.0.address = acquired?;
        }
        if let Some(at) = self.0.address.as_ref().and_then(TurnGuard::starts_at) {
            // A turn is granted shortly before its start; that of a second sending may be far.
            let now = self.now();
            if at > self.0.conditions.deadline && at.since(now) > LEAD_MAX {
                return Err(addresses.too_long(at.since(now)));
            }
            sleep_until(self.0.guard.cell.context.clock.instant(at)).await;
        }
        self.note_wait_at_address(self.now().since(since), addresses.delay());
        Ok(())
    }

    fn is_at(&self, address: IpAddr) -> bool {
        self.0.address.as_ref().is_some_and(|guard| guard.cell.key == address)
    }

    /// The request as the lane of an address sees it: what sites ask for concerns their origins.
    fn arrival(&self) -> Arrival<'_> {
        let kind = match self.0.conditions.role {
            Role::Subresource => Kind::Subresource,
            _ => Kind::Page { group: "", delay: Duration::ZERO, not_before: None },
        };
        let max_wait = self.0.conditions.deadline.since(self.now());
        Arrival { client: self.client(), scheme: self.0.origin.scheme(), kind, max_wait }
    }

    /// Adds a wait at the address; the response names the reason of the longer one.
    fn note_wait_at_address(&mut self, time: Duration, delay: Duration) {
        if time < WAIT_NOTICEABLE {
            return;
        }
        let waited = self.0.waited.get_or_insert(Waited {
            time: Duration::ZERO,
            by: WaitReason::Address,
            line: None,
            delay,
        });
        if time > waited.time {
            (waited.by, waited.line, waited.delay) = (WaitReason::Address, None, delay);
        }
        waited.time += time;
    }
}

impl TurnGuard<IpAddr> {
    /// Starts the turn, if its time has come.
    fn try_start(&self) -> bool {
        self.update(|lane, id, now| lane.start(id, now).is_ok()).unwrap_or(true)
    }

    /// When the turn may start, if that is later than now.
    fn starts_at(&self) -> Option<Tick> {
        self.update(|lane, id, now| lane.starts_at(id).filter(|at| *at > now)).flatten()
    }

    /// Changes the lane at this moment, and grants what may be granted then.
    fn update<T>(&self, change: impl FnOnce(&mut Lane, TurnId, Tick) -> T) -> Option<T> {
        let (id, now) = (self.id?, self.cell.context.clock.now());
        Some(self.cell.update(now, |state| change(&mut state.lane, id, now)))
    }
}

impl Turn {
    /// The head of the request has been written: the distance to the next start counts from now.
    pub fn note_request_written(&self) {
        if self.0.conditions.role == Role::PageQueued
            && let Some((cell, id)) = self.in_lane()
        {
            let now = cell.context.clock.now();
            cell.update(now, |state| state.lane.record_start(id, now));
        }
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, now| lane.record_start(id, now));
        }
    }

    /// The head of the response has come: what it says about the pace applies.
    pub fn note_response(&self, status: StatusCode, headers: &HeaderMap) {
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, now| lane.note_response_head(id, now));
        }
        if matches!(self.0.visit, VisitRole::Document) && is_document(status, headers) {
            let context = &self.0.guard.cell.context;
            context.visits.begin(self.client(), self.origin(), context.clock.now());
        }
        let Some((cell, id)) = self.in_lane() else { return };
        let now = cell.context.clock.now();
        if !concerns_pace(status, headers) {
            let mut state = cell.state.lock();
            if !state.lane.follows_responses(now) {
                state.lane.note_response_head(id, now);
                return;
            }
        }
        let date = cell.context.clock.date();
        let is_robots_txt = self.0.conditions.role == Role::RobotsTxt;
        let (outcome, limit) = outcome((status, headers), is_robots_txt, date);
        // A response to one agent concerns no other: the hold is that of its robots.txt.
        let (outcome, limit) = match outcome {
            Outcome::RetryLater { .. } if self.0.is_for_one_agent => {
                (Outcome::Ignored, RateLimit::default())
            }
            _ if self.0.is_for_one_agent => (outcome, RateLimit::default()),
            _ => (outcome, limit),
        };
        if limit != RateLimit::default() {
            cell.update(now, |state| {
                if let Some((delay, time)) = limit.spread {
                    state.lane.spread(delay, now + time);
                }
                if let Some((concurrency, time)) = limit.concurrent {
                    let concurrency = usize::try_from(concurrency).unwrap_or(usize::MAX);
                    state.lane.limit_concurrency(concurrency, now + time);
                }
            });
        }
        self.note(outcome);
    }

    /// The client holds its request up, or does so no longer: meanwhile the request does not count
    /// as under way.
    pub fn note_client_stall(&self, is_stalled: bool) {
        if let Some((cell, id)) = self.in_lane() {
            let now = cell.context.clock.now();
            cell.update(now, |state| state.lane.set_stalled(id, is_stalled));
        }
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, _| lane.set_stalled(id, is_stalled));
        }
    }

    /// There was no response, or not all of one.
    pub fn note_failure(&self, failure: RequestFailure) {
        // The fetch of a robots.txt has a back-off of its own.
        let is_robots_txt = self.0.conditions.role == Role::RobotsTxt;
        self.note(match failure {
            _ if is_robots_txt => Outcome::Ignored,
            RequestFailure::Timeout => Outcome::Failure { status: 503 },
            RequestFailure::ConnectionLost => Outcome::ConnectionLost,
            RequestFailure::EnhanceYourCalm => Outcome::Overload { status: 429 },
            RequestFailure::Other => Outcome::Ignored,
        });
    }

    fn note(&self, outcome: Outcome) {
        let Some((cell, id)) = self.in_lane() else { return };
        let (now, jitter) = (cell.context.clock.now(), jitter(outcome));
        let (change, hold, has_recovered) = cell.update(now, |state| {
            let mut begun = None;
            let had_streak = state.lane.has_streak();
            let change = state.lane.note(id, outcome, now, jitter);
            if change != HoldChange::Nothing {
                cell.count_bytes(state);
                LaneCell::drop_late_waiters(state, now);
                let hold = state.lane.hold_at(now);
                begun = hold;
                if hold.is_some_and(|hold| hold.until.since(now) >= KEPT_HOLD_MIN) {
                    cell.context.has_new_holds.store(true, Ordering::Relaxed);
                }
            }
            (change, begun, had_streak && !state.lane.has_streak())
        });
        cell.context.tell_hold(&self.0.origin, hold, now);
        if change == HoldChange::OfAll {
            lane_cell::report_hold(cell, outcome, jitter);
        }
        if has_recovered {
            lane_cell::report_recovery(cell);
        }
    }
}
