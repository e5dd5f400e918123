//! The gate and egress: destinations that the operator prohibits, and what responses of origins say
//! about outages.

use std::pin::Pin;

use http::StatusCode;

use super::{Gate, Permit};
use crate::egress::{self, Egress, Failure};
use crate::proxy::decision::request_info::{RequestInfo, Subject};
use crate::proxy::outcome::refusal::GateError;
use crate::runtime::box_future;
use crate::types::origin::Origin;

impl Gate {
    /// Checks that the name and the addresses of `origin` may be connected to at all. A name that
    /// cannot be resolved is no error here: the requests inside the CONNECT fail by themselves.
    pub async fn check_address(
        &self,
        origin: &Origin,
        info: RequestInfo<'_>,
        egress: &Egress,
    ) -> Result<(), GateError> {
        match egress.check_permitted(origin, &info.client.key()).await {
            Err(error) if error.failure.is_prohibition() || error.failure == Failure::Loop => {
                Err(self.on_egress_error(Subject::Host(origin), info, error).await)
            }
            _ => Ok(()),
        }
    }

    /// Counts an error of egress. Where the operator prohibits the destination, it is a denial,
    /// with its record; boxed, because it is rare: inline, it would enlarge the future of
    /// every request.
    pub fn on_egress_error(
        &self,
        subject: Subject<'_>,
        info: RequestInfo<'_>,
        error: egress::Error,
    ) -> Pin<Box<impl Future<Output = GateError>>> {
        box_future(move || async move {
            self.metrics.count_failure(error.failure);
            if error.failure.is_prohibition() {
                let denial = self.context(subject, info).refused_origin_denial(&error);
                self.enforcer().deny(denial).await
            } else {
                GateError::Egress(error)
            }
        })
    }

    /// Notes how the origin answered a permitted request: in a long outage of its robots.txt, a
    /// profile may depend on whether the site is up at all. A failure of the client or of this
    /// machine, or a loop over proxies, says nothing about the site.
    pub fn note_response(&self, permit: &Permit, response: Result<StatusCode, Failure>) {
        let says_nothing = |failure: Failure| {
            failure.is_clients() || failure.is_ours() || failure == Failure::Loop
        };
        if !permit.in_outage || response.is_err_and(says_nothing) {
            return;
        }
        let is_up = response.is_ok_and(|status| !status.is_server_error());
        self.store.note_site(&permit.target().origin, is_up);
    }
}
