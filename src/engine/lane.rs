//! Next starts and holds of one origin. `scripts/reserve_slots.lua`, `set_hold.lua` and
//! `reset_backoff.lua` compute the same.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::cells::{CellTimes, MissingRanks};
use crate::engine::clock::{Micros, micros};
use crate::engine::{
    GivenSlot, Hold, HoldCause, HoldLength, HoldRequest, SLOTS_MAX, SlotsRequest, bounded_micros,
};

/// A next start is forgotten so long after it has passed.
pub(super) const REST: Micros = 60 * 1_000_000;
/// Groups are swept when there are twice as many as after the last sweep, and this many.
const GROUPS_MIN: usize = 64;
/// The longest delay of another proxy that is not damage, or this proxy's own if that is longer.
const DELAY_MAX: Micros = 2 * 24 * 60 * 60 * 1_000_000;
/// More failures in a row double no more: the longest back-off is reached before.
const STREAK_MAX: u32 = 32;

/// All starts at one origin.
#[derive(Debug)]
pub(super) struct Lane {
    /// The next start by the lane's own delay.
    pub own: Option<Reservation>,
    /// The next start by the delay of each group.
    pub groups: BTreeMap<String, Reservation>,
    /// Groups that are over are removed when there are so many.
    pub sweep_at: usize,
    pub hold: Option<StoredHold>,
    /// Back-offs in a row.
    pub streak: u32,
    /// Then nothing of it matters any more.
    pub expires: Micros,
}

/// Nothing starts before `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub next: Micros,
    /// How far ahead `next` can be: horizon, delay and slack as they were when it was reserved. If
    /// it is further, the clock has gone back since.
    pub reach: Micros,
}

/// Until then nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredHold {
    pub until: Micros,
    /// The HTTP status that clients get meanwhile.
    pub status: u16,
    pub cause: HoldCause,
}

/// A [`SlotsRequest`](crate::engine::SlotsRequest) in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotsRequestMicros<'a> {
    pub group: &'a str,
    pub own: Micros,
    pub asked: Micros,
    pub slack: Micros,
    pub horizon: Micros,
    pub left: Micros,
    /// The slots that are requested; 0: nothing starts before what is left.
    pub count: u8,
    /// The length of a cell.
    pub cell: Micros,
    /// Where there is no reservation, a start may have been as late as this.
    pub known_since: Micros,
    /// The slot that this request has missed, if it is to be given again.
    pub missed: Option<GivenSlot>,
}

/// Slots, and the next one beyond the horizon, from now.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub slots: Vec<Micros>,
    pub beyond: Option<Micros>,
    /// When the last one begins.
    pub last: Option<Micros>,
}

impl<'a> SlotsRequestMicros<'a> {
    /// Of a request for slots of `group`, as it is stored.
    pub(super) fn of(request: &SlotsRequest<'_>, group: &'a str, known_since: Micros) -> Self {
        Self {
            group,
            own: bounded_micros(request.lane_delay),
            asked: bounded_micros(request.site_delay),
            slack: bounded_micros(request.slack),
            horizon: bounded_micros(request.horizon),
            left: bounded_micros(request.left),
            count: request.count.min(SLOTS_MAX),
            cell: CellTimes::of(request.cell_delay).length(),
            known_since,
            missed: request.missed,
        }
    }

    /// Whether nothing was reserved behind a slot, by the next starts of the lane and of the group.
    fn is_last(&self, slot: &GivenSlot, own: Micros, group: Micros) -> bool {
        let is_next = |delay: Micros, next: Micros| {
            delay == 0 || next == slot.at.saturating_add(delay).saturating_add(micros(slot.slack))
        };
        is_next(self.own, own) && is_next(self.asked, group)
    }
}

impl Lane {
    /// Reserves slots; those of cells, where proxies are missing, whose cells are left free.
    pub(super) fn reserve_slots(
        &mut self,
        ask: &SlotsRequestMicros<'_>,
        missing: Option<&MissingRanks>,
        now: Micros,
        hold_max: Micros,
    ) -> Slots {
        let known_since = ask.known_since.min(now);
        let reach_max = ask.horizon + ask.own.max(ask.asked).max(DELAY_MAX) + ask.slack;
        let known = |reservation: Option<&Reservation>, delay: Micros| match reservation {
            Some(reservation) if reservation.reach <= reach_max => reservation.at(now, ask.horizon),
            _ if known_since > 0 && delay > 0 => known_since + delay,
            _ => 0,
        };
        let mut own = known(self.own.as_ref(), ask.own);
        let mut group = known(self.groups.get(ask.group), ask.asked);
        // Nothing starts before `missed.at` by what was reserved before it.
        if let Some(missed) = ask.missed.filter(|missed| ask.is_last(missed, own, group)) {
            (own, group) = (missed.at, missed.at);
        }
        let held_until = self.hold_at(now, hold_max).map_or(now, |hold| now + micros_left(hold));
        let earliest = held_until.max(now + ask.left);
        let mut slots = Slots::default();
        for _ in 0..ask.count {
            let slot = earliest.max(own).max(group);
            let slot = missing.map_or(Some(slot), |missing| missing.next_free(ask.cell, slot));
            let slot = slot.unwrap_or(now + ask.horizon + 1);
            if slot > now + ask.horizon {
                slots.beyond = Some(slot - now);
                break;
            }
            slots.slots.push(slot - now);
            slots.last = Some(slot);
            own = if ask.own > 0 { slot + ask.own + ask.slack } else { own };
            group = if ask.asked > 0 { slot + ask.asked + ask.slack } else { group };
        }
        if ask.count == 0 {
            (own, group) = (own.max(earliest), group.max(earliest));
        }
        if ask.count == 0 || !slots.slots.is_empty() {
            self.reserve(ask, own, group, now);
        }
        slots
    }

    fn reserve(&mut self, ask: &SlotsRequestMicros<'_>, own: Micros, group: Micros, now: Micros) {
        if ask.own > 0 {
            self.own = Some(Reservation { next: own, reach: ask.horizon + ask.own + ask.slack });
            self.expires = self.expires.max(own + REST);
        }
        if ask.asked > 0 {
            let reach = ask.horizon + ask.asked + ask.slack;
            self.groups.insert(ask.group.to_owned(), Reservation { next: group, reach });
            self.expires = self.expires.max(group + REST);
            if self.groups.len() >= self.sweep_at {
                self.groups.retain(|_, reservation| reservation.next + REST >= now);
                self.sweep_at = GROUPS_MIN.max(2 * self.groups.len());
            }
        }
    }

    /// The hold at `now`. A later end than `hold_max` from now can only be damage.
    pub(super) fn hold_at(&self, now: Micros, hold_max: Micros) -> Option<Hold> {
        let hold = self.hold.filter(|hold| hold.until > now)?;
        let left = Duration::from_micros((hold.until - now).min(hold_max));
        Some(Hold { left, status: hold.status, cause: hold.cause })
    }

    /// Holds as a site has asked for, or has failed, at `begun`; the hold that applies at `now`.
    pub(super) fn set_hold(
        &mut self,
        request: &HoldRequest<'_>,
        begun: Micros,
        now: Micros,
        hold_max: Micros,
    ) -> Hold {
        let HoldRequest { length, status, cause, .. } = *request;
        match length {
            HoldLength::For(length) => {
                let until = begun + bounded_micros(length);
                self.hold_for(StoredHold { until, status, cause }, now, hold_max);
            }
            HoldLength::BackOff { first, max, jitter } => {
                let length = (bounded_micros(first), bounded_micros(max), jitter);
                self.back_off(length, (status, cause), begun, hold_max);
            }
        }
        let none = Hold { left: Duration::ZERO, status, cause };
        self.hold_at(now, hold_max).unwrap_or(none)
    }

    /// Holds for `length`, unless a longer hold applies.
    pub(super) fn hold_for(&mut self, hold: StoredHold, now: Micros, hold_max: Micros) {
        let present = self.hold_at(now, hold_max).map_or(0, |hold| now + micros_left(hold));
        let until = hold.until.min(now + hold_max);
        if until > present {
            self.hold = Some(StoredHold { until, ..hold });
            self.expires = self.expires.max(until + REST);
        }
    }

    /// Holds after a failure; `jitter` is in parts of a thousand.
    fn back_off(
        &mut self,
        (first, max, jitter): (Micros, Micros, u16),
        (status, cause): (u16, HoldCause),
        now: Micros,
        hold_max: Micros,
    ) {
        if self.hold_at(now, hold_max).is_some() {
            return;
        }
        let last = self.hold.map_or(0, |hold| hold.until);
        let streak = if now <= last + max { self.streak } else { 0 };
        let wait = first.saturating_mul(1 << streak.min(STREAK_MAX)).min(max);
        let more = wait * u64::from(jitter.min(1000)) / 10_000;
        let until = now + (wait + more).min(hold_max);
        self.hold = Some(StoredHold { until, status, cause });
        self.streak = (streak + 1).min(STREAK_MAX);
        self.expires = self.expires.max(until + max + REST);
    }

    /// Whether there were failures in a row, which are over now.
    pub(super) fn reset_backoff(&mut self, now: Micros) -> bool {
        if self.hold.is_some_and(|hold| hold.until > now) {
            return false;
        }
        std::mem::take(&mut self.streak) > 0
    }

    pub(super) fn end_hold(&mut self, now: Micros) -> bool {
        let was_held = self.hold.take().is_some_and(|hold| hold.until > now);
        self.streak = 0;
        was_held
    }
}

impl Reservation {
    /// The next start. One further ahead than it can have been is left by a clock that has gone
    /// back.
    const fn at(&self, now: Micros, horizon: Micros) -> Micros {
        if self.next > now + self.reach { now + horizon } else { self.next }
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            own: None,
            groups: BTreeMap::new(),
            sweep_at: GROUPS_MIN,
            hold: None,
            streak: 0,
            expires: 0,
        }
    }
}

fn micros_left(hold: Hold) -> Micros {
    micros(hold.left)
}
