//! Enforcement: what happens to a request that is disallowed. An exemption or a mode may allow it
//! despite the denial; whatever happens is recorded first. Only here a [`Denial`] becomes a
//! [`Recorded`] one.

use std::pin::Pin;

use super::decision_context::{DecisionContext, Subject};
use super::rules::{MixedHosts, Mode, Rules};
use crate::audit::{Event, Record, Writer};
use crate::policy::exemption::Exemption;
use crate::proxy::denial::{Denial, Recorded};
use crate::proxy::observe::decision_metrics::DecisionMetrics;
use crate::proxy::rejection::GateError;
use crate::runtime::box_future;

/// A denial of a [`Subject`], by how much of it is disallowed.
#[derive(Debug)]
pub enum SubjectDenial {
    /// The resource, or every path of the host.
    Whole(Denial),
    /// Some paths of the host, of which none is seen: [`MixedHosts`] may allow a tunnel to it.
    MixedHost(Denial),
}

/// Records denials and applies exemptions and modes to them. Its futures are boxed, because they
/// are rare: inline, they would enlarge the future of every request.
#[derive(Clone, Copy, Debug)]
pub struct Enforcer<'a> {
    pub rules: &'a Rules,
    pub audit: &'a Writer,
    pub metrics: &'a DecisionMetrics,
}

impl<'a> Enforcer<'a> {
    /// Records `denial`, and denies the request, unless it is allowed all the same (`Ok`): as in
    /// [`Self::deny_unless_waived`], or because `mixed` hosts are tunnelled.
    ///
    /// # Errors
    /// The denial; or that nothing is served without records (`audit.on_failure`).
    pub fn enforce(
        self,
        context: &DecisionContext<'_>,
        denial: SubjectDenial,
        mixed: MixedHosts,
    ) -> Pin<Box<impl Future<Output = Result<(), GateError>>>> {
        box_future(move || async move {
            match (denial, mixed) {
                (SubjectDenial::MixedHost(mut denial), MixedHosts::Tunnel) => {
                    denial.record.event = Event::Tunnelled;
                    let denial = self.record(denial).await;
                    self.check_audit()?;
                    self.allow_despite_denial(context, &denial);
                    Ok(())
                }
                (SubjectDenial::Whole(denial) | SubjectDenial::MixedHost(denial), _) => {
                    self.deny_unless_waived(context, denial).await
                }
            }
        })
    }

    /// Whether settings allow the subject of `context` despite `denial`.
    pub fn waives(
        self,
        context: &DecisionContext<'_>,
        denial: &SubjectDenial,
        mixed: MixedHosts,
    ) -> bool {
        matches!((denial, mixed), (SubjectDenial::MixedHost(_), MixedHosts::Tunnel))
            || self.exemption(context).is_some()
            || self.is_observed(context)
    }

    /// Records `denial`, and denies the request, unless an exemption or the observe mode allows it
    /// all the same (`Ok`).
    pub fn deny_unless_waived(
        self,
        context: &DecisionContext<'_>,
        denial: Denial,
    ) -> Pin<Box<impl Future<Output = Result<(), GateError>>>> {
        box_future(move || async move {
            if let Some(exemption) = self.exemption(context) {
                return self.exempt(context, denial, exemption).await;
            }
            if self.is_observed(context) {
                return self.observe(context, denial).await;
            }
            Err(self.deny(denial).await)
        })
    }

    /// Records and counts `denial`.
    pub fn deny(self, denial: Denial) -> Pin<Box<impl Future<Output = GateError>>> {
        box_future(move || async move {
            self.count(&denial);
            self.denial_error(self.record(denial).await)
        })
    }

    /// Records a denial that has no response: the request it belongs to has been answered.
    pub async fn record_unanswered(self, denial: Denial) {
        self.count(&denial);
        self.record(denial).await;
    }

    /// An error if nothing may be decided now because records cannot be written
    /// (`audit.on_failure`).
    pub fn check_audit(self) -> Result<(), GateError> {
        if self.audit.is_stopped() { Err(GateError::Unrecorded) } else { Ok(()) }
    }

    /// An exemption holds on the condition that its use is recorded.
    async fn exempt(
        self,
        context: &DecisionContext<'_>,
        mut denial: Denial,
        exemption: &Exemption,
    ) -> Result<(), GateError> {
        denial.record = exempted(denial.record, exemption);
        let denial = self.record(denial).await;
        if denial.is_in_log() {
            self.allow_despite_denial(context, &denial);
            return Ok(());
        }
        let denial = denial.without_exemption();
        self.metrics.log.log(&denial.record, self.audit);
        self.count(&denial);
        Err(self.denial_error(denial))
    }

    /// In observe mode the request is allowed, even if its record is lost, which the writer counts;
    /// unless nothing is served without records (`audit.on_failure`).
    async fn observe(
        self,
        context: &DecisionContext<'_>,
        mut denial: Denial,
    ) -> Result<(), GateError> {
        denial.record.event = Event::WouldDeny;
        let setting = self.rules.mode_setting(&context.agent, context.subject.origin());
        denial.record.setting = Some(setting);
        let denial = self.record(denial).await;
        self.check_audit()?;
        self.allow_despite_denial(context, &denial);
        Ok(())
    }

    /// Counts a request that is allowed although it was disallowed, and notes it for the access
    /// log.
    fn allow_despite_denial(self, context: &DecisionContext<'_>, denial: &Recorded<Denial>) {
        context.info.entry.note_denial(denial);
        self.count(denial);
        if let Some(observer) = &self.metrics.observer {
            observer.note_waived(&denial.record, context.subject.origin());
        }
    }

    /// The exemption that applies to the subject of `context`.
    fn exemption(self, context: &DecisionContext<'_>) -> Option<&'a Exemption> {
        let exemptions = &self.rules.exemptions;
        let (origin, token) = (context.subject.origin(), context.agent.token);
        match context.subject {
            Subject::Resource(target) => {
                let path = target.path_for_rules().as_bytes();
                exemptions.find(origin, path, token, context.now())
            }
            Subject::Host(_) => exemptions.find_for_host(origin, token, context.now()),
        }
    }

    fn is_observed(self, context: &DecisionContext<'_>) -> bool {
        self.rules.mode(&context.agent, context.subject.origin()) == Mode::Observe
    }

    fn count(self, denial: &Denial) {
        let Record { event, reason, path_seen, .. } = denial.record;
        self.metrics.count_recorded(event, reason, path_seen);
        denial.site.add_recorded(event);
    }

    /// A denial stands without its record, unless nothing is served without records. One whose
    /// record may still come is not told: the record would contradict the response.
    fn denial_error(self, denial: Recorded<Denial>) -> GateError {
        match self.check_audit() {
            Err(error) if !denial.is_in_log() => error,
            _ if denial.may_be_late() => GateError::Unrecorded,
            _ => GateError::Denial(Box::new(denial)),
        }
    }

    async fn record(self, denial: Denial) -> Recorded<Denial> {
        self.metrics.log.log(&denial.record, self.audit);
        Recorded::write(denial, self.audit).await
    }
}

fn exempted(record: Record, exemption: &Exemption) -> Record {
    let exemption = crate::audit::Exemption::of(exemption);
    Record { event: Event::Exempted, exemption: Some(exemption), ..record }
}
