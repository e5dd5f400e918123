//! All requests to one origin, or to one address. A waiting request is granted a turn, connects,
//! and starts at the turn's time; a turn that ends before its start costs nothing.

mod config;
mod estimate;
pub mod group;
pub mod kept;
mod lane_holds;
mod turns;

use std::time::Duration;

use super::hold::{Hold, Outcome};
use super::tick::Tick;
use crate::types::ClientKey;
use crate::types::origin::Scheme;
pub use config::{Config, Kind, LONG_TRANSFER, Share};
pub(super) use estimate::LEAD_MAX;
pub use estimate::{Awaited, LaneLimit, SlotRequest};
pub use group::WaiterId;
use group::{Group, GroupKey};
pub use kept::CompactLane;
pub use lane_holds::HoldChange;
use lane_holds::LaneHolds;
pub use turns::TurnId;
use turns::{LaneTurn, LaneTurns, Rate};

/// A request that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub client: &'a ClientKey,
    /// Of its URL: a lane is that of both.
    pub scheme: Scheme,
    pub kind: Kind<'a>,
    /// The longest that it waits.
    pub max_wait: Duration,
}

/// What becomes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits; [`Lane::grant`] says when it may start.
    Waits(WaiterId),
    /// It would wait for so long, which is longer than it may wait.
    TooLong { wait: Duration, hold: Option<Hold> },
}

/// A turn that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub waiter: WaiterId,
    pub turn: TurnId,
    /// It must not start before.
    pub start_at: Tick,
}

/// The state of an origin, or of an address.
#[derive(Debug)]
pub struct Lane {
    config: Config,
    /// The next start by the lane's own delay.
    next: Tick,
    groups: Vec<Group>,
    holds: LaneHolds,
    rate: Rate,
    turns: LaneTurns,
    /// Requests that may be under way at present: one after a hold, twice as many after each
    /// good response.
    concurrency_ramp: usize,
    ids: u64,
    /// This proxy's share.
    share: Share,
    /// The lane may have been in use before the clock's start, and nothing is known of it: no first
    /// start before a delay after that.
    history_lost: bool,
}

impl Lane {
    /// A lane on which nothing has started; `history_lost` if something may have, before the start
    /// of the clock.
    pub const fn new(config: Config, history_lost: bool) -> Self {
        let next =
            Tick::from_micros(if history_lost { config.delay.as_micros() as u64 } else { 0 });
        Self {
            config,
            next,
            groups: Vec::new(),
            holds: LaneHolds::new(),
            rate: Rate::new(),
            turns: LaneTurns::new(),
            concurrency_ramp: config.concurrency,
            ids: 0,
            share: Share::ALONE,
            history_lost,
        }
    }

    /// A turn that counts as started, for a request that need not wait: the common case. `None`: it
    /// has to queue.
    pub fn try_acquire(&mut self, arrival: &Arrival<'_>, now: Tick) -> Option<TurnId> {
        if !self.groups.is_empty() {
            self.forget_groups(now);
        }
        let delay = arrival.kind.delay().max(self.rate.delay(&self.config, now));
        let is_outside_visit_time = matches!(arrival.kind, Kind::Page { not_before: Some(_), .. });
        let key = GroupKey::of(arrival.kind);
        let is_held = self.holds.at(arrival.client, now).is_some();
        if !delay.is_zero() || is_outside_visit_time || !self.groups.is_empty() || is_held {
            return None;
        }
        self.turns.end_long_transfers(now);
        let may_count = || {
            self.places_of_all().is_none()
                && self.turns.has_free_concurrency(arrival.client, self.concurrency(now))
        };
        if key.counts() && !may_count() {
            return None;
        }
        let id = self.add_turn(arrival.client.clone(), key, Duration::ZERO, now);
        self.turns.get_mut(id)?.has_started = true;
        Some(id)
    }

    /// A turn for a request that does not wait for its time, where the mode is to observe.
    pub fn observe(&mut self, arrival: &Arrival<'_>, now: Tick) -> TurnId {
        let key = GroupKey::of(arrival.kind);
        let turn = self.add_turn(arrival.client.clone(), key, arrival.kind.delay(), now);
        self.record_start(turn, now);
        turn
    }

    /// Queues a request, if its time is likely to come within its longest wait.
    pub fn enqueue(&mut self, arrival: &Arrival<'_>, now: Tick) -> Enqueued {
        self.forget_groups(now);
        let wait = self.estimate(arrival, now);
        if wait > arrival.max_wait {
            return Enqueued::TooLong { wait, hold: self.holds.at(arrival.client, now) };
        }
        let waiter = WaiterId(self.next_id());
        let unknown_until = Tick::default() + arrival.kind.delay();
        let history_lost = self.history_lost;
        let group = self.group(GroupKey::of(arrival.kind));
        if let Kind::Page { delay, not_before, .. } = arrival.kind {
            group.ask(arrival.scheme, delay);
            let unknown_until = if history_lost { unknown_until } else { Tick::default() };
            group.next = group.next.max(not_before.unwrap_or_default()).max(unknown_until);
        }
        group.queue.push(arrival.client, waiter);
        Enqueued::Waits(waiter)
    }

    /// Removes a waiter whose client has left, or which has waited for as long as it may.
    pub fn leave(&mut self, client: &ClientKey, waiter: WaiterId) {
        self.groups.iter_mut().any(|group| group.queue.remove(client, &waiter));
    }

    /// The next turn that may be granted at `now`. To be called until it returns `None`.
    pub fn grant(&mut self, now: Tick) -> Option<Grant> {
        self.turns.end_long_transfers(now);
        let ready = self.ready_groups(now).filter(|(ready, _)| *ready <= now);
        // Of several, the one whose last turn was longest ago.
        let at = ready.map(|(_, at)| at).min_by_key(|at| self.groups[*at].granted)?;
        let limit = self.concurrency(now);
        let own = self.lane_delay(now);
        let (turns, holds, group) = (&self.turns, &self.holds, &mut self.groups[at]);
        let limit = limit.max(usize::from(group.key.is_page() && group.is_delayed(own)));
        let counts = group.key.counts();
        let may = |client: &ClientKey| {
            (!counts || turns.has_free_concurrency(client, limit)) && holds.until(client) <= now
        };
        let (client, waiter) = group.queue.pop(may, |_| false)?;
        group.granted = now;
        let (key, delay) = (group.key.clone(), group.delay());
        let turn = self.add_turn(client, key, delay, now);
        let start_at = self.starts_at(turn).unwrap_or(now).max(now);
        Some(Grant { waiter, turn, start_at })
    }

    /// When [`Self::grant`] may have something to return, as far as time alone decides.
    pub fn wakes_at(&self, now: Tick) -> Option<Tick> {
        if self.waiting() == 0 {
            return None;
        }
        let ready = self.ready_groups(now).map(|(ready, _)| ready).min();
        let transfer = self.turns.next_long_transfer_end();
        let concurrency = self.rate.concurrency_until().filter(|until| now < *until);
        [ready, transfer, concurrency].into_iter().flatten().min()
    }

    /// Starts the turn: its request is written next.
    ///
    /// # Errors
    ///
    /// The moment at which it may start, if that is later.
    pub fn start(&mut self, turn: TurnId, now: Tick) -> Result<(), Tick> {
        match self.starts_at(turn) {
            Some(at) if at > now => Err(at),
            Some(_) => {
                self.record_start(turn, now);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The turn is to start once more: its request is sent a second time.
    pub fn rearm(&mut self, turn: TurnId) {
        if let Some(turn) = self.turns.get_mut(turn) {
            (turn.has_started, turn.fixed_start) = (false, None);
        }
    }

    /// The turn's request is over, or does not count any more. One that has not started has not
    /// happened.
    pub fn end(&mut self, turn: TurnId) {
        self.turns.remove(turn);
    }

    /// Applies other settings; what has started counts on.
    pub fn change(&mut self, config: Config) {
        let is_full = self.concurrency_ramp >= self.config.concurrency;
        self.concurrency_ramp = if is_full { config.concurrency } else { self.concurrency_ramp };
        self.config = config;
    }

    /// Whether nothing need be remembered at `now`.
    pub fn is_idle(&self, now: Tick) -> bool {
        self.turns.0.is_empty()
            && self.next <= now
            && self.holds.is_over(now)
            && self.rate.is_over(now)
            && self.groups.iter().all(|group| self.is_over(group, now))
    }

    /// When nothing of it lies ahead any more; what is not in use is forgotten in this order.
    pub fn ends_at(&self) -> Tick {
        let groups = self.groups.iter().map(|group| group.next).max();
        let ends = [Some(self.next), groups, self.rate.ends_at()];
        ends.into_iter().flatten().fold(self.holds.ends_at(), Tick::max)
    }

    /// Whether no request waits or is under way.
    pub fn is_unused(&self) -> bool {
        self.turns.0.is_empty() && self.waiting() == 0
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.groups.iter().map(|group| group.queue.len()).sum()
    }

    /// Requests of `client` that wait.
    pub fn waiting_of(&self, client: &ClientKey) -> usize {
        self.groups.iter().map(|group| group.queue.len_of(client)).sum()
    }

    /// The requests that may be under way.
    fn concurrency(&self, now: Tick) -> usize {
        let ramp = self.concurrency_ramp.min(self.share.of(self.config.concurrency));
        self.rate.concurrency(ramp, now)
    }

    /// How many requests may be under way for all proxies, where these are more, or this one has no part:
    /// each request takes a place at the engine then.
    pub fn places_of_all(&self) -> Option<usize> {
        let (all, Share { proxies, rank }) = (self.config.concurrency, self.share);
        let is_crowded = match rank {
            Some(_) => self.share.of(all) == 0,
            None => proxies as usize > all,
        };
        is_crowded.then_some(all)
    }

    fn add_turn(&mut self, client: ClientKey, key: GroupKey, delay: Duration, now: Tick) -> TurnId {
        let id = TurnId(self.next_id());
        let has_started = false;
        let turn = LaneTurn {
            id,
            client,
            key,
            delay,
            has_started,
            fixed_start: None,
            granted_or_started: now,
            head: None,
            is_stalled: false,
        };
        self.turns.0.push(turn);
        id
    }

    const fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

// The groups of a lane: those with a request that may be granted a turn, and those that need not
// be remembered.

/// Groups of one robots.txt that a lane tells apart at a time; further ones keep one delay together.
const GROUPS_MAX: usize = 64;

impl Lane {
    /// The groups with a waiter that may be one more under way: the moment from which each may have
    /// a turn, and its index. Where there is a delay, a turn that has not started is the only one.
    fn ready_groups(&self, now: Tick) -> impl Iterator<Item = (Tick, usize)> {
        let own = self.lane_delay(now);
        let is_taken = !own.is_zero() && self.turns.unstarted(None) > 0;
        let limit = self.concurrency(now);
        self.groups.iter().enumerate().filter_map(move |(at, group)| {
            let is_taken = group.key.is_page()
                && (is_taken
                    || !group.delay().is_zero() && self.turns.unstarted(Some(&group.key)) > 0);
            let counts = group.key.counts();
            // A request with a delay waits for the cells of this proxy, where it has no part.
            let limit = limit.max(usize::from(group.key.is_page() && group.is_delayed(own)));
            let may =
                |client: &&ClientKey| !counts || self.turns.has_free_concurrency(client, limit);
            let clients = group.queue.clients().filter(|_| !is_taken).filter(may);
            let held_until = clients.map(|client| self.holds.until(client)).min()?;
            Some((self.ready_at(group, own).max(held_until), at))
        })
    }

    /// Forgets the groups of which nothing need be remembered: a file may name very many.
    fn forget_groups(&mut self, now: Tick) {
        let groups = std::mem::take(&mut self.groups);
        let is_needed =
            |group: &Group| !self.is_over(group, now) || self.turns.unstarted(Some(&group.key)) > 0;
        self.groups = groups.into_iter().filter(is_needed).collect();
    }

    /// Whether nothing need be remembered of a group at `now`.
    fn is_over(&self, group: &Group, now: Tick) -> bool {
        group.queue.is_empty() && group.next <= now
    }

    /// The group of requests of this kind, if it is remembered.
    fn group_of(&self, kind: Kind<'_>) -> Option<&Group> {
        let own = self.groups.iter().find(|group| group.key.is_of(kind));
        if own.is_some() || !kind.is_page() || self.groups.len() < GROUPS_MAX {
            return own;
        }
        let others = GroupKey::of_others();
        self.groups.iter().find(|group| group.key == others)
    }

    /// The group of `key`, made if need be.
    fn group(&mut self, mut key: GroupKey) -> &mut Group {
        let find = |key: &GroupKey| self.groups.iter().position(|group| group.key == *key);
        let mut at = find(&key);
        if at.is_none() && key.is_page() && self.groups.len() >= GROUPS_MAX {
            key = GroupKey::of_others();
            at = find(&key);
        }
        let at = at.unwrap_or_else(|| {
            // Most lanes have one group; a vector makes room for four at once.
            self.groups.reserve_exact(1);
            self.groups.push(Group::new(key));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// The memory that the lane takes beside itself, apart from that of its requests.
    pub fn heap_bytes(&self) -> usize {
        let names = self.groups.iter().map(|group| group.key.heap_bytes()).sum::<usize>();
        self.groups.capacity() * size_of::<Group>() + names + self.holds.heap_bytes()
    }
}

impl Lane {
    /// Notes how the turn's request ended, or how its response begins; [`Self::end`] is called
    /// apart. `jitter` is from 0 to 1.
    pub fn note(&mut self, turn: TurnId, outcome: Outcome, now: Tick, jitter: f64) -> HoldChange {
        let Some(turn) = self.turns.get_mut(turn) else { return HoldChange::Nothing };
        let (began, client) = (turn.granted_or_started, turn.client.clone());
        if outcome != Outcome::Ignored {
            turn.head = Some(now);
            self.rate.note_latency(now.since(began), outcome == Outcome::Good);
        }
        let backoff_min = self.config.backoff_min;
        let change = self.holds.note(&client, outcome, (began, now), backoff_min, jitter);
        let concerns_all = match change {
            HoldChange::Nothing => false,
            HoldChange::OfClient => self.is_only_client(&client),
            HoldChange::OfAll => true,
        };
        if concerns_all {
            self.concurrency_ramp = 1;
        } else if outcome == Outcome::Good && self.holds.at(&client, now).is_none() {
            self.concurrency_ramp =
                self.concurrency_ramp.saturating_mul(2).min(self.config.concurrency).max(1);
        }
        change
    }

    /// Whether no other client has requests here.
    fn is_only_client(&self, client: &ClientKey) -> bool {
        self.waiting_of(client) == self.waiting()
            && self.turns.0.iter().all(|turn| turn.client == *client)
    }

    /// Whether there were back-offs in a row.
    pub const fn has_streak(&self) -> bool {
        self.holds.has_streak()
    }

    /// Notes that the turn's response has begun, where that says nothing else.
    pub fn note_response_head(&mut self, turn: TurnId, now: Tick) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.head = Some(now);
        }
    }

    /// The client of the turn's request holds it up, or does so no longer.
    pub fn set_stalled(&mut self, turn: TurnId, is_stalled: bool) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.is_stalled = is_stalled;
        }
    }

    /// Spreads a low quota: starts are `delay` apart until `until`, those that follow the present
    /// ones, too.
    pub fn spread(&mut self, delay: Duration, until: Tick) {
        self.rate.spread(delay, until);
        if let Some(last) = self.turns.last_start() {
            self.next = self.next.max((last + delay).min(until));
        }
    }

    /// Limits the requests under way until `until`.
    pub const fn limit_concurrency(&mut self, concurrency: usize, until: Tick) {
        self.rate.limit_concurrency(concurrency, until);
    }

    /// Whether responses matter beyond their end: there were failures, or there is a delay.
    pub fn follows_responses(&self, now: Tick) -> bool {
        !self.holds.is_over(now)
            || self.concurrency_ramp < self.config.concurrency
            || !self.config.delay.is_zero()
            || self.groups.iter().any(|group| !group.delay().is_zero())
    }

    /// The longest hold at `now`, if there is one.
    pub fn hold_at(&self, now: Tick) -> Option<Hold> {
        self.holds.longest(now)
    }

    /// The hold for all clients at `now`, if there is one.
    pub fn hold_for_all(&self, now: Tick) -> Option<Hold> {
        self.holds.for_all(now)
    }

    /// The hold at `now` for requests of `client`, if there is one.
    pub fn hold_for(&self, client: &ClientKey, now: Tick) -> Option<Hold> {
        self.holds.at(client, now)
    }

    /// The hold at `now` for the request of `turn`, if there is one.
    pub fn hold_of(&self, turn: TurnId, now: Tick) -> Option<Hold> {
        self.holds.at(&self.turns.get(turn)?.client, now)
    }

    /// Holds until `hold.until`, as after a restart.
    pub fn set_hold(&mut self, hold: Hold, now: Tick) {
        self.holds.set(hold, now);
        self.concurrency_ramp = 1;
    }

    /// Ends a hold and forgets the failures behind it.
    pub fn end_hold(&mut self) {
        self.holds = LaneHolds::new();
        self.concurrency_ramp = self.config.concurrency;
    }
}
