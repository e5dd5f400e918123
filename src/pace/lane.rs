//! All starts at one origin. A waiting request is granted a turn, connects, and starts at the
//! turn's time; a turn that ends before its start costs nothing.

mod group;

use std::time::Duration;

use super::hold::{Bounds, Hold, Holds, Outcome};
pub use super::queue::WaiterId;
use super::tick::Tick;
use crate::types::client_key::ClientKey;
use group::Group;

/// A turn is granted at most so long before its start: the time to connect.
const LEAD_MAX: Duration = Duration::from_secs(1);
/// The lead is at most this part of the delay.
const LEAD_PART: u32 = 2;

/// A client may have one more place while it has less than this many times the free ones: an eighth
/// is kept from each client.
const HELD_PER_FREE: usize = 7;

/// A granted turn, within its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnId(u64);

/// The settings of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two starts, whatever the site asks.
    pub delay: Duration,
    /// Requests under way that count.
    pub concurrency: usize,
    pub holds: Bounds,
}

/// A request that arrives.
#[derive(Clone, Debug)]
pub struct Arrival<'a> {
    pub client: &'a ClientKey,
    /// The group of the robots.txt that applies to it, and the delay that is asked of that.
    pub group: &'a str,
    pub delay: Duration,
    /// The longest that it waits.
    pub patience: Duration,
}

/// What becomes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It waits; [`Lane::grant`] says when it may start.
    Waits(WaiterId),
    /// It would wait for so long, which is longer than its patience.
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

/// The state of an origin.
#[derive(Debug)]
pub struct Lane {
    config: Config,
    /// The next start by the lane's own delay.
    next: Tick,
    groups: Vec<Group>,
    holds: Holds,
    turns: Vec<Turn>,
    /// Requests under way that may count at present: few after a hold.
    allowed: usize,
    ids: u64,
}

#[derive(Debug)]
struct Turn {
    id: TurnId,
    client: ClientKey,
    /// Its group, while it has not started.
    group: Option<Box<str>>,
    began: Tick,
}

impl Lane {
    /// A lane on which nothing has started.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            next: Tick::from_micros(0),
            groups: Vec::new(),
            holds: Holds::new(),
            turns: Vec::new(),
            allowed: config.concurrency,
            ids: 0,
        }
    }

    /// Queues a request, if its time is likely to come within its patience.
    pub fn arrive(&mut self, arrival: &Arrival<'_>, now: Tick) -> Admission {
        let wait = self.estimate(arrival, now);
        if wait > arrival.patience {
            return Admission::TooLong { wait, hold: self.holds.at(now) };
        }
        let waiter = WaiterId(self.id());
        self.forget_groups(now);
        let group = self.group(arrival.group);
        group.delay = arrival.delay;
        group.queue.push(arrival.client, waiter);
        Admission::Waits(waiter)
    }

    /// Removes a waiter whose client has left, or whose patience is over.
    pub fn leave(&mut self, client: &ClientKey, waiter: WaiterId) {
        self.groups.iter_mut().any(|group| group.queue.remove(client, waiter));
    }

    /// The next turn that may be granted at `now`. To be called until it returns `None`.
    pub fn grant(&mut self, now: Tick) -> Option<Grant> {
        let ready = self.ready_groups().filter(|(ready, _)| *ready <= now);
        // Of several, the one whose last turn was longest ago.
        let at = ready.map(|(_, at)| at).min_by_key(|at| self.groups[*at].granted)?;
        let held: Vec<_> = self.turns.iter().map(|turn| &turn.client).collect();
        let allowed = self.allowed;
        let group = &mut self.groups[at];
        let (client, waiter) = group.queue.pop(|client| may_hold(&held, client, allowed))?;
        let start_at = self.holds.until().max(self.next).max(group.next).max(now);
        group.granted = now;
        let (name, turn) = (group.name.clone(), TurnId(self.id()));
        self.turns.push(Turn { id: turn, client, group: Some(name), began: now });
        Some(Grant { waiter, turn, start_at })
    }

    /// When [`Self::grant`] may have something to return, as far as time alone decides.
    pub fn wakes_at(&self) -> Option<Tick> {
        self.ready_groups().map(|(ready, _)| ready).min()
    }

    /// The moment at which the turn may start: later than granted, if a hold has begun meanwhile.
    /// `None`: it has started or ended.
    pub fn starts_at(&self, turn: TurnId) -> Option<Tick> {
        let turn = self.turns.iter().find(|other| other.id == turn)?;
        let name = turn.group.as_deref()?;
        let next = self.groups.iter().find(|group| &*group.name == name).map(|group| group.next);
        Some(self.holds.until().max(self.next).max(next.unwrap_or_default()))
    }

    /// The hold at `now`, if there is one.
    pub fn hold_at(&self, now: Tick) -> Option<Hold> {
        self.holds.at(now)
    }

    /// The head of the turn's request was written at `start`: the next ones are a delay later.
    pub fn begin(&mut self, turn: TurnId, start: Tick) {
        let Some(turn) = self.turns.iter_mut().find(|other| other.id == turn) else { return };
        turn.began = start;
        let Some(name) = turn.group.take() else { return };
        self.next = self.next.max(start + self.config.delay);
        let group = self.group(&name);
        group.next = group.next.max(start + group.delay);
    }

    /// The turn's request is over, or does not count any more. One that has not begun has not
    /// happened.
    pub fn end(&mut self, turn: TurnId) {
        self.turns.retain(|other| other.id != turn);
    }

    /// Notes how the turn's request ended; [`Self::end`] is called apart. `jitter` is from 0 to 1.
    pub fn note(&mut self, turn: TurnId, outcome: Outcome, now: Tick, jitter: f64) {
        let Some(began) = self.turns.iter().find(|other| other.id == turn).map(|turn| turn.began)
        else {
            return;
        };
        if self.holds.note(outcome, (began, now), self.config.holds, jitter) {
            self.allowed = 1;
        } else if outcome == Outcome::Good && self.holds.at(now).is_none() {
            self.allowed = self.allowed.saturating_mul(2).min(self.config.concurrency).max(1);
        }
    }

    /// Holds until `hold.until`, as after a restart.
    pub fn set_hold(&mut self, hold: Hold, now: Tick) {
        self.holds.set(hold, now);
        self.allowed = 1;
    }

    /// Applies other settings; what has started counts on.
    pub fn change(&mut self, config: Config) {
        let is_full = self.allowed == self.config.concurrency;
        self.allowed = if is_full { config.concurrency } else { self.allowed };
        self.config = config;
    }

    /// Whether nothing need be remembered at `now`.
    pub fn is_idle(&self, now: Tick) -> bool {
        self.turns.is_empty()
            && self.next <= now
            && self.holds.is_over(now, self.config.holds)
            && self.groups.iter().all(|group| group.is_over(now))
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.groups.iter().map(|group| group.queue.len()).sum()
    }

    /// How long one more request would wait, as far as delays and holds decide: without a delay it
    /// is not known, and the patience of the waiting request decides.
    fn estimate(&self, arrival: &Arrival<'_>, now: Tick) -> Duration {
        let group = self.groups.iter().find(|group| &*group.name == arrival.group);
        let next = group.map_or(self.next, |group| self.next.max(group.next));
        let delay = arrival.delay.max(self.config.delay);
        let unstarted = self.turns.iter().filter(|turn| turn.is_unstarted()).count();
        let ahead = group.map_or(0, |group| group.queue.ahead_of(arrival.client)) + unstarted;
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        next.max(self.holds.until()).since(now).saturating_add(delay.saturating_mul(ahead))
    }

    /// The groups with a waiter that may have a place: the moment from which each may have a turn,
    /// and its index. Where there is a delay, a turn that has not started is the only one.
    fn ready_groups(&self) -> impl Iterator<Item = (Tick, usize)> {
        let held: Vec<_> = self.turns.iter().map(|turn| &turn.client).collect();
        let unstarted = |group: &Group| {
            self.turns.iter().any(|turn| turn.group.as_deref() == Some(&*group.name))
        };
        let is_taken = !self.config.delay.is_zero() && self.turns.iter().any(Turn::is_unstarted);
        self.groups.iter().enumerate().filter_map(move |(at, group)| {
            let is_taken = is_taken || !group.delay.is_zero() && unstarted(group);
            let may_go =
                !is_taken && group.queue.has(|client| may_hold(&held, client, self.allowed));
            may_go.then(|| (self.ready_at(group), at))
        })
    }

    /// The moment from which the group may have a turn: the lead before its start.
    fn ready_at(&self, group: &Group) -> Tick {
        let by_lane = self.next - lead(self.config.delay);
        let by_group = group.next - lead(group.delay);
        self.holds.until().max(by_lane).max(by_group)
    }

    /// Forgets the groups of which nothing need be remembered: a file may name very many.
    fn forget_groups(&mut self, now: Tick) {
        let turns = &self.turns;
        self.groups.retain(|group| {
            let is_unstarted = |turn: &Turn| turn.group.as_deref() == Some(&*group.name);
            !group.is_over(now) || turns.iter().any(is_unstarted)
        });
    }

    fn group(&mut self, name: &str) -> &mut Group {
        let at = self.groups.iter().position(|group| &*group.name == name);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group::new(name));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    const fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

impl Turn {
    const fn is_unstarted(&self) -> bool {
        self.group.is_some()
    }
}

/// Whether `client` may have one more of so many places, `held` being taken.
fn may_hold(held: &[&ClientKey], client: &ClientKey, places: usize) -> bool {
    let free = places.saturating_sub(held.len());
    let own = held.iter().filter(|key| **key == client).count();
    free > 0 && own < free.saturating_mul(HELD_PER_FREE).max(1)
}

fn lead(delay: Duration) -> Duration {
    (delay / LEAD_PART).min(LEAD_MAX)
}
