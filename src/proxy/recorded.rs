//! What becomes of a no at the gate: an exemption or a mode may let the request go all the same, and
//! whatever it comes to is recorded first.

use tracing::debug;

use super::connect::Mixed;
use super::denial::Denial;
use super::draft::{Draft, Subject};
use super::gate::{Ask, Finding, Gate, No};
use super::rules::Mode;
use crate::audit::{Event, Record};
use crate::policy::exemption::Exemption;

impl Gate {
    /// `Ok`: it goes all the same, as [`Self::disallowed`] says or by what holds for `mixed` hosts.
    pub(super) async fn object(
        &self,
        draft: &Draft<'_>,
        finding: Finding,
        mixed: Mixed,
    ) -> Result<(), No> {
        match (finding, mixed) {
            (Finding::Unseen(mut denial), Mixed::Tunnel) => {
                denial.record.event = Event::Tunnelled;
                self.record(&mut denial).await;
                self.check_audit()?;
                self.goes_all_the_same(draft.ask, &denial);
                Ok(())
            }
            (Finding::Disallowed(denial) | Finding::Unseen(denial), _) => {
                self.disallowed(draft, denial).await
            }
        }
    }

    /// The exemption that applies to the subject of `draft`.
    fn exemption(&self, draft: &Draft<'_>) -> Option<&Exemption> {
        let (origin, token) = (draft.subject.origin(), draft.agent.token);
        match draft.subject {
            Subject::Resource(target) => {
                let path = target.judged_path().as_bytes();
                self.rules.exemptions.find(origin, path, token, draft.now())
            }
            Subject::Host(_) => self.rules.exemptions.find_for_host(origin, token, draft.now()),
        }
    }

    fn is_observed(&self, draft: &Draft<'_>) -> bool {
        self.rules.mode(&draft.agent, draft.subject.origin()) == Mode::Observe
    }

    /// Whether [`Self::disallowed`] would let the subject of `draft` go.
    pub(super) fn is_waived(&self, draft: &Draft<'_>) -> bool {
        self.exemption(draft).is_some() || self.is_observed(draft)
    }

    /// `Ok`: it goes all the same, by exemption or because the mode only observes.
    pub(super) async fn disallowed(&self, draft: &Draft<'_>, mut denial: Denial) -> Result<(), No> {
        if let Some(exemption) = self.exemption(draft) {
            denial.record = exempted(denial.record, exemption);
            // An exemption holds on the condition that its use is recorded.
            if self.record(&mut denial).await {
                self.goes_all_the_same(draft.ask, &denial);
                return Ok(());
            }
            // It is denied, and the one record of this request is lost already.
            denial.record.event = Event::Denied;
            self.decisions.log.say(&denial.record);
            self.count_denied(&denial);
            return Err(self.refused(denial));
        } else if self.is_observed(draft) {
            denial.record.event = Event::WouldDeny;
            // Who observes wants nothing denied, and a lost record is counted by the writer.
            self.record(&mut denial).await;
            self.check_audit()?;
            self.goes_all_the_same(draft.ask, &denial);
            return Ok(());
        }
        Err(self.deny(denial).await)
    }

    /// Counts a request that goes although it was disallowed, and puts it on its account. One that is
    /// denied counts when it is recorded.
    pub(super) fn goes_all_the_same(&self, ask: Ask<'_>, denial: &Denial) {
        ask.account.recorded(denial);
        let Record { event, reason, path_seen, .. } = denial.record;
        self.decisions.recorded(event, reason, path_seen);
    }

    pub(super) async fn deny(&self, mut denial: Denial) -> No {
        self.count_denied(&denial);
        self.record(&mut denial).await;
        self.refused(denial)
    }

    /// The answer to a request whose record has been seen to.
    fn refused(&self, denial: Denial) -> No {
        match self.check_audit() {
            Err(no) if !denial.is_recorded => no,
            _ => No::Denial(Box::new(denial)),
        }
    }

    pub(super) fn count_denied(&self, denial: &Denial) {
        let Record { event, reason, path_seen, .. } = denial.record;
        self.decisions.recorded(event, reason, path_seen);
    }

    /// Whether anything may be decided while records cannot be written (`audit.on_failure`).
    pub(super) fn check_audit(&self) -> Result<(), No> {
        if self.audit.is_stopped() { Err(No::Unrecorded) } else { Ok(()) }
    }

    /// Whether the record was handed to the operating system. A denial stands without it; the writer
    /// says loudly that records are lost, and counts them.
    pub(super) async fn record(&self, denial: &mut Denial) -> bool {
        let record = &denial.record;
        self.decisions.log.say(record);
        let written = self.audit.write(record.clone(), denial.blobs.clone()).await;
        if let Err(error) = &written {
            debug!(record = record.id, "{error}");
        }
        denial.is_recorded = written.is_ok();
        denial.is_recorded
    }
}

fn exempted(record: Record, exemption: &Exemption) -> Record {
    let exemption = crate::audit::Exemption {
        by: exemption.by.clone(),
        reason: exemption.reason.clone(),
        ticket: exemption.ticket.clone(),
        until: exemption.until,
    };
    Record { event: Event::Exempted, exemption: Some(exemption), ..record }
}
