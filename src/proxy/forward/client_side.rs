//! The client's side of a forwarded request.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clients::ClientAdmission;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::decision::gate::Gate;
use crate::proxy::decision::request_info::RequestInfo;

/// The client's side of a forwarded request.
#[derive(Clone, Copy, Debug)]
pub struct ClientSide<'a> {
    pub info: RequestInfo<'a>,
    /// Decides again on what waits, and on what outlives the response.
    pub gate: &'a Arc<Gate>,
    pub state: &'a Arc<ConnectionState>,
    /// Triggered when the proxy stops.
    pub shutdown: &'a CancellationToken,
    /// Grants memory to the client.
    pub admission: &'a Arc<ClientAdmission>,
}
