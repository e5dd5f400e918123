//! A request starts over its connection: when its time has come at the origin, and at the address
//! that the connection leads to.
//!
//! The lanes are entered in this order, and a turn at an address never waits for an origin: a
//! request that has to wait for its origin, or for an engine, gives the turn at the address back
//! within a second.

use std::net::IpAddr;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::lanes::Lanes;
use super::no_turn::NoTurn;
use super::turn::Turn;

impl Lanes {
    /// Whether starts at addresses have limits. Where they have none, no address need be given.
    pub fn has_address_limits(&self) -> bool {
        self.addresses.have_limits()
    }

    /// Starts the request of `turn`, if that need not wait and has waited for nothing since it was
    /// taken. It is to be written at once.
    pub fn try_start_immediately(&self, turn: &mut Turn) -> bool {
        !self.has_address_limits() && turn.try_start_immediately()
    }

    /// Starts the request of `turn` over a connection to `address`, unless it has to wait. It is to
    /// be written at once.
    pub fn try_start(&self, turn: &mut Turn, address: Option<IpAddr>) -> bool {
        if let Some(address) = self.limited(turn, address) {
            return turn.try_start_at_address(&self.addresses, address);
        }
        turn.leave_address();
        turn.try_start_at_origin()
    }

    /// Waits until [`Self::try_start`] is likely to start the request. Returns how long it took.
    ///
    /// # Errors
    ///
    /// The request would wait for longer than it may, or the proxy stops first.
    pub async fn wait_for_start_time(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<Duration, NoTurn> {
        let since = self.now();
        let waited = self.wait_for_both(turn, address, shutdown).await;
        waited.inspect_err(|no_turn| self.context.stats.note_no_turn(no_turn))?;
        Ok(self.now().since(since))
    }

    async fn wait_for_both(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        turn.wait_for_origin_start().await?;
        if let Some(address) = self.limited(turn, address) {
            turn.wait_at_address(&self.addresses, address, shutdown).await?;
        }
        turn.reserve_if_needed().await
    }

    /// Waits until the request has started.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_for_start_time`].
    pub async fn start(
        &self,
        turn: &mut Turn,
        address: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), NoTurn> {
        while !self.try_start(turn, address) {
            self.wait_for_start_time(turn, address, shutdown).await?;
        }
        Ok(())
    }

    /// The address at which the request takes a turn, if it has limits.
    fn limited(&self, turn: &Turn, address: Option<IpAddr>) -> Option<IpAddr> {
        if !self.has_address_limits() || !turn.counts_at_addresses() {
            return None;
        }
        self.addresses.limited(address?)
    }
}

#[cfg(test)]
mod tests;
