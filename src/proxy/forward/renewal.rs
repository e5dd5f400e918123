//! The permit of a request that waits in egress: after a long wait the gate decides again.

use tokio_util::sync::CancellationToken;

use super::client_side::ClientSide;
use crate::egress::{self, Permission, Renewal};
use crate::proxy::decision::gate::Permit;
use crate::proxy::outcome::refusal::GateError;
use crate::runtime::box_future::box_future;

/// A permit, and what the gate needs to decide again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewable<'a> {
    pub permit: &'a Permit,
    pub client: ClientSide<'a>,
}

/// Why a permitted request has no response.
#[derive(Debug)]
pub enum ForwardError {
    /// It failed in egress.
    Failed(egress::Error),
    /// The gate has decided otherwise meanwhile.
    Withdrawn(GateError),
}

impl From<egress::Error> for ForwardError {
    fn from(error: egress::Error) -> Self {
        Self::Failed(error)
    }
}

impl Permission for Renewable<'_> {
    type Error = ForwardError;

    fn renew(&self) -> Renewal<'_, ForwardError> {
        let Self { permit, client } = *self;
        box_future(move || async move {
            let confirmed = client.gate.confirm(permit, client.info).await;
            confirmed.map_err(ForwardError::Withdrawn)
        })
    }

    fn shutdown(&self) -> &CancellationToken {
        self.client.shutdown
    }
}
