//! The permission of a request that waits in egress: after a long wait the gate decides again.

use tokio_util::sync::CancellationToken;

use super::client_side::ClientSide;
use crate::egress::{self, Permission, RecheckFuture};
use crate::proxy::decision::gate::Permit;
use crate::proxy::outcome::refusal::GateError;
use crate::runtime::box_future::box_future;

/// A permit, and what the gate needs to decide again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardPermission<'a> {
    pub permit: &'a Permit,
    pub client: ClientSide<'a>,
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

impl Permission for ForwardPermission<'_> {
    type Error = ForwardError;

    fn recheck(&self) -> RecheckFuture<'_, ForwardError> {
        let Self { permit, client } = *self;
        box_future(move || async move {
            let rechecked = client.gate.recheck(permit, client.info).await;
            rechecked.map_err(ForwardError::Gate)
        })
    }

    fn shutdown(&self) -> &CancellationToken {
        self.client.shutdown
    }
}
