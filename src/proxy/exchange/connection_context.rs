//! The connection by which a request came: from whom, and what requests on it may be for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::clients::{Client, ClientPermit};
use crate::proxy::Proxy;
use crate::proxy::exchange::connection_state::ConnectionState;
use crate::proxy::request::target::Scope;
use crate::runtime::shutdown::Shutdown;
use crate::types::origin::Origin;

/// A worker's proxy as it is now: each request takes the one that is there when it comes, so that
/// other settings hold from the next request on, and one under way ends under those it began with.
pub type Current = Arc<ArcSwap<Proxy>>;

#[derive(Clone, Debug)]
pub struct Channel {
    /// Whose it is. On a connection to the proxy, each request says by its credentials who asks; what
    /// runs inside a CONNECT is of the user who made it.
    pub client: Client,
    /// From which port it came.
    pub port: u16,
    /// The place among the connections of the user whose request was the last.
    pub seat: Arc<Mutex<Option<ClientPermit>>>,
    pub scope: Scope,
    pub state: Arc<ConnectionState>,
    /// Said when the request under way is to be the last.
    pub stop: Shutdown,
    /// Who answers.
    pub proxy: Current,
}

impl Channel {
    /// A client's own connection to the proxy.
    pub fn of_client(client: SocketAddr, stop: Shutdown, proxy: Current) -> Self {
        Self {
            client: Client::at(client.ip().to_canonical()),
            port: client.port(),
            seat: Arc::default(),
            scope: Scope::Proxy,
            state: Arc::default(),
            stop,
            proxy,
        }
    }

    /// For what follows a CONNECT of `client`. Its state is another: that of the CONNECT holds what
    /// follows, and the two would keep each other for ever where nothing comes to follow.
    pub fn of(&self, client: &Client) -> Self {
        Self { client: client.clone(), state: Arc::default(), ..self.clone() }
    }

    /// What runs inside a CONNECT, on the channel that was made for it.
    pub fn within(&self, origin: Origin) -> Self {
        Self { scope: Scope::Within(origin), ..self.clone() }
    }
}
