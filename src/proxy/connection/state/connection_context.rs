//! The connection of a request: its client, and the origins that its requests may name.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connection_state::ConnectionState;
use crate::clients::{Client, ClientPermit};
use crate::proxy::request::target::Scope;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;
use tokio_util::sync::CancellationToken;

/// A connection of a client: its own to the proxy, or what runs inside a CONNECT on it.
#[derive(Clone, Debug)]
pub struct ConnectionContext {
    /// The client at the other end. On a connection to the proxy, the credentials of each request
    /// name its user; a connection inside a CONNECT is of the user who made that.
    pub client: Client,
    /// The client's port.
    pub port: u16,
    /// The permit for a connection of the user whose request came last.
    pub user_permit: Arc<Lock<Option<ClientPermit>>>,
    /// The targets that requests may have.
    pub scope: Scope,
    /// Whether the client has connected to an origin, and came to the proxy by a rule of the
    /// network: it has no credentials for a proxy.
    pub is_transparent: bool,
    /// Shared with the connection's I/O and the bodies of its responses.
    pub state: Arc<ConnectionState>,
    /// Triggered when the request under way is to be the last.
    pub shutdown: CancellationToken,
}

impl ConnectionContext {
    /// A client's own connection to the proxy.
    pub fn of_client(client: SocketAddr, shutdown: CancellationToken) -> Self {
        Self {
            client: Client::at(client.ip().to_canonical()),
            port: client.port(),
            user_permit: Arc::default(),
            scope: Scope::AnyOrigin,
            is_transparent: false,
            state: Arc::default(),
            shutdown,
        }
    }

    /// The connection that follows a CONNECT of `client`. Its state is a new one: that of the
    /// CONNECT owns what follows, and the two would keep each other alive.
    pub fn after_connect(&self, client: &Client) -> Self {
        Self { client: client.clone(), state: Arc::default(), ..self.clone() }
    }

    /// The connection of a client that has not been set up for a proxy.
    pub fn of_transparent_client(client: SocketAddr, shutdown: CancellationToken) -> Self {
        Self { is_transparent: true, ..Self::of_client(client, shutdown) }
    }

    /// The same connection, for requests of `scope` only.
    pub fn scoped(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    /// The same connection, for requests to `origin` only.
    pub fn within(&self, origin: Origin) -> Self {
        self.scoped(Scope::Origin(origin))
    }
}
