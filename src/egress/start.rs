//! The start of a request over its connection. A connection that waits with its request is idle: the
//! origin may close it meanwhile, and then another takes its place.

use std::net::IpAddr;
use std::time::Duration;

use super::Egress;
use super::connection::Connection;
use super::dial::DialOptions;
use super::error::Error;
use super::permission::{PERMISSION_AGE_MAX, Permission};
use crate::pace::Turn;
use crate::types::origin::Origin;

impl Egress {
    /// A connection to `origin`, idle or new.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        options: DialOptions<'_>,
        turn: &Turn,
    ) -> Result<Connection, Error> {
        let connected = self.dialer().kept_or_new(origin, options).await;
        connected.inspect_err(|error| turn.note_failure(error.failure.is_timeout()))
    }

    /// Starts the request of `turn` over `connection`, unless it has to wait.
    pub(super) fn start(&self, turn: &mut Turn, connection: &Connection) -> bool {
        self.lanes().try_start(turn, self.address(connection))
    }

    /// Waits until the request of `turn` has started; returns the connection that it has started
    /// over.
    ///
    /// # Errors
    ///
    /// It would wait for longer than it may, or is not permitted any more.
    pub(super) async fn start_later<P: Permission>(
        &self,
        mut connection: Connection,
        (origin, options): (&Origin, DialOptions<'_>),
        turn: &mut Turn,
        permission: &P,
    ) -> Result<Connection, P::Error> {
        let mut waited = Duration::ZERO;
        loop {
            let address = self.address(&connection);
            if let Err(error) = self.wait(address, turn, &mut waited, permission).await {
                connection.give_back(origin);
                return Err(error);
            }
            if !connection.link.is_open() {
                connection = self.connect(origin, options, turn).await?;
            }
            if self.start(turn, &connection) {
                return Ok(connection);
            }
        }
    }

    /// Waits until the request is likely to start over a connection to `address`. `waited` is the
    /// time since it was permitted.
    async fn wait<P: Permission>(
        &self,
        address: Option<IpAddr>,
        turn: &mut Turn,
        waited: &mut Duration,
        permission: &P,
    ) -> Result<(), P::Error> {
        let ready = self.lanes().wait_for_start_time(turn, address, permission.shutdown());
        *waited += ready.await.map_err(Error::no_turn)?;
        if *waited <= PERMISSION_AGE_MAX {
            return Ok(());
        }
        let mut recheck = permission.recheck();
        tokio::select! {
            biased;
            rechecked = &mut recheck => rechecked?,
            // A fetch of its robots.txt may be under way, which no other origin has to wait for.
            () = std::future::ready(()) => {
                turn.leave_address();
                recheck.await?;
            }
        }
        *waited = Duration::ZERO;
        Ok(())
    }

    /// The address that `connection` leads to, where addresses have limits.
    fn address(&self, connection: &Connection) -> Option<IpAddr> {
        if self.lanes().has_address_limits() { connection.link.peer() } else { None }
    }
}
