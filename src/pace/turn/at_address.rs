//! The turn of a request at the address that its connection leads to.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::{Turn, WAIT_NOTICEABLE};
use crate::pace::addresses::Addresses;
use crate::pace::conditions::Role;
use crate::pace::lane::{Arrival, Kind, LEAD_MAX, Lane, TurnId};
use crate::pace::lane_cell::TurnGuard;
use crate::pace::no_turn::{NoTurn, WaitReason};
use crate::pace::tick::Tick;
use crate::pace::waited::Waited;

impl Turn {
    /// Whether the request takes a turn at its address: it is paced, and no robots.txt.
    pub(in crate::pace) fn counts_at_addresses(&self) -> bool {
        self.0.guard.id.is_some() && self.0.conditions.role != Role::RobotsTxt
    }

    /// Ends the turn at the address.
    pub fn leave_address(&mut self) {
        self.0.address = None;
    }

    /// Starts the request at `address` and at its origin, if the time of both has come.
    pub(in crate::pace) fn try_start_at_address(
        &mut self,
        addresses: &Addresses,
        address: IpAddr,
    ) -> bool {
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
    pub(in crate::pace) async fn wait_at_address(
        &mut self,
        addresses: &Addresses,
        address: IpAddr,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        let since = self.now();
        if !self.is_at(address) {
            self.leave_address();
            self.0.address = addresses.acquire(address, &self.arrival(), shutdown).await?;
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
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Lane, TurnId, Tick) -> T) -> Option<T> {
        let (id, now) = (self.id?, self.cell.context.clock.now());
        Some(self.cell.update(now, |state| change(&mut state.lane, id, now)))
    }
}
