//! The permission of a request that waits in egress: after a long wait the gate decides again.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clients::ClientAdmission;
use crate::egress::{self, Permission, RecheckFuture};
use crate::proxy::connection::connection_state::ConnectionState;
use crate::proxy::decision::decision_context::RequestInfo;
use crate::proxy::decision::gate::{Gate, Permit};
use crate::proxy::rejection::GateError;
use crate::runtime::box_future;

/// A permit, and what the gate needs to decide again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardPermission<'a> {
    pub permit: &'a Permit,
    pub side: ClientSide<'a>,
}

/// Why a permitted request has no response.
#[derive(Debug)]
pub enum ForwardError {
    /// It failed in egress.
    Egress(egress::Error),
    /// The gate has decided otherwise meanwhile.
    Gate(GateError),
}

impl From<egress::Error> for ForwardError {
    fn from(error: egress::Error) -> Self {
        Self::Egress(error)
    }
}

/// The origin's response breaks the protocol, by `detail`.
pub(in crate::proxy) fn breach(detail: &str) -> egress::Error {
    egress::Error::new(egress::Failure::Protocol, detail)
}

impl Permission for ForwardPermission<'_> {
    type Error = ForwardError;

    fn recheck(&self) -> RecheckFuture<'_, ForwardError> {
        let Self { permit, side } = *self;
        box_future(move || async move {
            let rechecked = side.gate.recheck(permit, side.info).await;
            rechecked.map_err(ForwardError::Gate)
        })
    }

    fn look_at_client(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.side.state.look_at_client())
    }

    fn set_waiting(&self, is_waiting: bool) {
        self.side.info.entry.set_waiting(is_waiting);
    }

    fn shutdown(&self) -> &CancellationToken {
        self.side.shutdown
    }
}

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
