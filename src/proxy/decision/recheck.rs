//! The second decision on a request that has waited for its turn: what is known of the origin may
//! have changed meanwhile.

use super::decision_context::DecisionContext;
use super::gate::{Gate, HostPermit, Permit};
use super::request_info::{RequestInfo, Subject};
use super::revocation::subject_denial;
use super::rules::MixedHosts;
use crate::proxy::outcome::refusal::GateError;

impl Gate {
    /// Decides again on what `permit` is for.
    ///
    /// # Errors
    ///
    /// It is no longer permitted.
    pub async fn recheck(&self, permit: &Permit, info: RequestInfo<'_>) -> Result<(), GateError> {
        let subject = Subject::Resource(permit.target());
        self.recheck_subject(subject, info, (permit.is_waived(), MixedHosts::Refuse)).await
    }

    /// As [`Self::recheck`], for a tunnel.
    ///
    /// # Errors
    ///
    /// It is no longer permitted.
    pub async fn recheck_host(
        &self,
        permit: &HostPermit,
        info: RequestInfo<'_>,
        mixed: MixedHosts,
    ) -> Result<(), GateError> {
        let subject = Subject::Host(permit.origin());
        self.recheck_subject(subject, info, (permit.is_waived(), mixed)).await
    }

    /// What holds still has been counted and recorded.
    async fn recheck_subject(
        &self,
        subject: Subject<'_>,
        info: RequestInfo<'_>,
        (is_waived, mixed): (bool, MixedHosts),
    ) -> Result<(), GateError> {
        self.enforcer().check_audit()?;
        let context = self.context(subject, info);
        self.require_agent(&context).await?;
        let known = self.lookup(&context).await?;
        let context = DecisionContext { at: Some(known.at()), ..context };
        match subject_denial(&context, &known) {
            Some(denial) if !(is_waived && self.enforcer().waives(&context, &denial, mixed)) => {
                self.enforcer().enforce(&context, denial, mixed).await
            }
            _ => Ok(()),
        }
    }
}
