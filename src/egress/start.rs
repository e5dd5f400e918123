//! The start of a request over its connection: at once, or after a wait. A connection that waits
//! with its request is idle: the origin may close it meanwhile, and then another takes its place.

use std::net::IpAddr;
use std::time::Duration;

use super::Egress;
use super::checkout::DialOptions;
use super::connection::Connection;
use super::error::Error;
use super::permission::{PERMISSION_AGE_MAX, Permission};
use crate::pace::Turn;
use crate::runtime::box_future::box_future;
use crate::types::origin::Origin;

impl Egress {
    /// Checks out a connection to `origin`, and starts the request of `turn` over it. `idle` is a
    /// connection that has been taken from the pool for it already.
    ///
    /// # Errors
    ///
    /// No connection could be made; or the request would wait for longer than it may, or is not
    /// permitted any more.
    pub(super) async fn connect_and_start<P: Permission>(
        &self,
        idle: Option<Connection>,
        (origin, options): (&Origin, DialOptions<'_>),
        turn: &mut Turn,
        permission: &P,
    ) -> Result<Connection, P::Error> {
        let connection = match idle {
            Some(idle) => idle,
            None => self.checkout(origin, options, turn).await?,
        };
        if turn.is_queued() {
            permission.look_at_client().await;
        }
        if self.try_start(turn, &connection) {
            return Ok(connection);
        }
        box_future(|| self.wait_and_start(connection, (origin, options), turn, permission)).await
    }

    /// A connection to `origin`, idle, shared or new.
    async fn checkout(
        &self,
        origin: &Origin,
        options: DialOptions<'_>,
        turn: &Turn,
    ) -> Result<Connection, Error> {
        let connected = self.dialer().checkout(origin, options).await;
        connected.inspect_err(|error| turn.note_failure(error.failure.of_pace()))
    }

    /// Starts the request of `turn` over `connection` if it need not wait; whether it has started.
    pub(super) fn try_start(&self, turn: &mut Turn, connection: &Connection) -> bool {
        self.lanes().try_start(turn, self.limited_address(connection))
    }

    /// Waits until the request of `turn` has started; returns the connection that it has started
    /// over.
    ///
    /// # Errors
    ///
    /// It would wait for longer than it may, or is not permitted any more.
    pub(super) async fn wait_and_start<P: Permission>(
        &self,
        mut connection: Connection,
        (origin, options): (&Origin, DialOptions<'_>),
        turn: &mut Turn,
        permission: &P,
    ) -> Result<Connection, P::Error> {
        let mut permission_age = Duration::ZERO;
        loop {
            let address = self.limited_address(&connection);
            let waited = self.wait_until_ready(address, turn, &mut permission_age, permission);
            if let Err(error) = waited.await {
                connection.give_back(origin);
                return Err(error);
            }
            if !connection.transport.is_open() {
                connection = self.checkout(origin, options, turn).await?;
            }
            permission.look_at_client().await;
            if self.try_start(turn, &connection) {
                return Ok(connection);
            }
        }
    }

    /// Waits until the request is likely to start over a connection to `address`, and checks its
    /// permission again if that has become too old. `permission_age` is the time that the request
    /// has waited since it was permitted.
    async fn wait_until_ready<P: Permission>(
        &self,
        address: Option<IpAddr>,
        turn: &mut Turn,
        permission_age: &mut Duration,
        permission: &P,
    ) -> Result<(), P::Error> {
        let ready = self.lanes().wait_for_start_time(turn, address, permission.shutdown());
        *permission_age += ready.await.map_err(Error::no_turn)?;
        if *permission_age <= PERMISSION_AGE_MAX {
            return Ok(());
        }
        recheck(permission, turn).await?;
        *permission_age = Duration::ZERO;
        Ok(())
    }

    /// The address that `connection` leads to, where addresses have limits.
    fn limited_address(&self, connection: &Connection) -> Option<IpAddr> {
        if self.lanes().has_address_limits() { connection.transport.peer() } else { None }
    }
}

/// Checks the permission of a request again. If that takes time, the request gives its turn
/// at the address back: a fetch of its robots.txt may be under way, and must not make the other
/// origins of the address wait.
async fn recheck<P: Permission>(permission: &P, turn: &mut Turn) -> Result<(), P::Error> {
    let mut recheck = permission.recheck();
    tokio::select! {
        biased;
        rechecked = &mut recheck => rechecked,
        () = std::future::ready(()) => {
            turn.leave_address();
            recheck.await
        }
    }
}
