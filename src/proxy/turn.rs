//! Acquires the turn of a permitted request.

use http::HeaderMap;
use tokio_util::sync::CancellationToken;

use super::decision::gate::Permit;
use super::decision::request_info::RequestInfo;
use super::instance::Proxy;
use super::outcome::refusal::Refusal;
use crate::egress::PERMISSION_AGE_MAX;
use crate::pace::{PendingTurn, TryAcquire, Turn, TurnRequest};
use crate::runtime::box_future;

impl Proxy {
    /// Acquires the turn of a permitted request, at once or after a wait; `headers`: what they say
    /// of its pace, if they say anything.
    pub(super) async fn acquire_turn(
        &self,
        permit: &Permit,
        headers: Option<&HeaderMap>,
        info: RequestInfo<'_>,
        shutdown: &CancellationToken,
    ) -> Result<Turn, Refusal> {
        if let Some(no_turn) = permit.pace().rest() {
            return Err(permit.pace().rejection(no_turn).into());
        }
        let key = info.client.key();
        let origin = &permit.target().origin;
        let turn_request = permit.pace().turn_request(origin, &key, headers, shutdown);
        match self.forwarding.egress.lanes().try_acquire(&turn_request) {
            TryAcquire::Turn(turn) => Ok(turn),
            TryAcquire::Wait(wait) => {
                box_future(|| self.wait_for_turn(permit, info, (&turn_request, wait))).await
            }
        }
    }

    /// Waits for the turn of a permitted request. After a wait of more than [`PERMISSION_AGE_MAX`]
    /// the request is decided on again.
    async fn wait_for_turn(
        &self,
        permit: &Permit,
        info: RequestInfo<'_>,
        (request, wait): (&TurnRequest<'_>, PendingTurn<'_>),
    ) -> Result<Turn, Refusal> {
        let turn = self.forwarding.egress.lanes().wait_for_turn(request, wait).await;
        let turn = turn.map_err(|no_turn| permit.pace().rejection(&no_turn))?;
        let waited = turn.waited();
        waited.iter().for_each(|waited| info.entry.note_waited(waited));
        if waited.is_some_and(|waited| waited.time > PERMISSION_AGE_MAX) {
            self.gate.recheck(permit, info).await?;
        }
        Ok(turn)
    }
}
