//! The second decision on what was permitted before, because what is known of its origin may have
//! changed meanwhile: on a request that has waited for its turn, and on an open tunnel or upgraded
//! connection, which ends when it is no longer permitted. The latter is decided on at each change, by
//! the rules that its request began with; the denial is recorded. What runs out is asked for again,
//! also where no request needs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::decision_context::{DecisionContext, OwnedRequestInfo, RequestInfo, Subject};
use super::enforce::SubjectDenial;
use super::gate::{Gate, HostPermit, Permit};
use super::rules::MixedHosts;
use crate::policy::decision::{HostDecision, Verdict, decide, decide_host};
use crate::policy::profile::Profile;
use crate::proxy::destination::Target;
use crate::proxy::rejection::GateError;
use crate::runtime::box_future;
use crate::runtime::clock::monotonic;
use crate::store::{OriginRobots, Undecided};
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// How often it is looked whether what is known has run out: the date may be set meanwhile.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long what lasts goes on undecided: a lack of permits for fetches, or of memory, passes.
const UNDECIDED_TIME_MAX: Duration = Duration::from_mins(1);

/// What was permitted, for which request, and by which gate.
#[derive(Debug)]
pub struct Revocation {
    gate: Arc<Gate>,
    info: OwnedRequestInfo,
    permitted: Permitted,
}

#[derive(Debug)]
enum Permitted {
    /// An upgraded connection, decided on by the path of its request.
    Resource(Target),
    /// A tunnel, decided on by the host as a whole.
    Host(Origin, MixedHosts),
}

impl Revocation {
    /// For an upgraded connection.
    pub fn resource(gate: &Arc<Gate>, info: RequestInfo<'_>, target: Target) -> Self {
        let permitted = Permitted::Resource(target);
        Self { gate: Arc::clone(gate), info: info.into(), permitted }
    }

    /// For a tunnel.
    pub fn host(
        gate: &Arc<Gate>,
        info: RequestInfo<'_>,
        origin: Origin,
        mixed: MixedHosts,
    ) -> Self {
        let permitted = Permitted::Host(origin, mixed);
        Self { gate: Arc::clone(gate), info: info.into(), permitted }
    }

    /// The gate that decides.
    pub const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The request that began it.
    pub const fn info(&self) -> &OwnedRequestInfo {
        &self.info
    }

    /// Runs `work` until it ends. `None`: it was stopped, because it is no longer permitted.
    pub async fn while_permitted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            ended = work => Some(ended),
            () = box_future(|| self.until_denied()) => None,
        }
    }

    /// Returns when the denial has been recorded.
    async fn until_denied(&self) {
        let (subject, mixed) = match &self.permitted {
            Permitted::Resource(target) => (Subject::Resource(target), MixedHosts::Refuse),
            Permitted::Host(origin, mixed) => (Subject::Host(origin), *mixed),
        };
        let context = self.gate.context(subject, self.info.borrow());
        let enforcer = self.gate.enforcer();
        let profile = self.gate.rules.profile(&context.agent, subject.origin());
        let changes = self.gate.store.changes(subject.origin());
        // What was allowed despite a denial has its record from when it began.
        let mut was_disallowed = true;
        let (mut expiry, mut undecided_since) = (None, None);
        loop {
            let token = context.agent.token;
            let looked_up = tokio::select! {
                biased;
                known = changes.next(profile, token, context.info.client) => Ok(known),
                looked_up = self.look_up_after(expiry, &context, profile) => looked_up,
            };
            let known = match looked_up {
                Ok(known) => known,
                Err(undecided) if has_lasted(&mut undecided_since) => {
                    // Undecided is denied.
                    enforcer.deny(context.undecided_denial(&undecided)).await;
                    return;
                }
                Err(_) => continue,
            };
            (expiry, undecided_since) = (known.state().next_try(), None);
            let site = context.site_by(&known);
            let context = DecisionContext { at: Some(known.at()), site: Some(&site), ..context };
            let denial = subject_denial(&context, &known);
            let is_disallowed = denial.is_some();
            if let Some(denial) = denial
                && !(was_disallowed && enforcer.waives(&context, &denial, mixed))
                && enforcer.enforce(&context, denial, mixed).await.is_err()
            {
                return;
            }
            was_disallowed = is_disallowed;
        }
    }

    /// What is known once that of before has run out, which is at `expiry`; `None`: nothing is known.
    async fn look_up_after(
        &self,
        expiry: Option<Timestamp>,
        context: &DecisionContext<'_>,
        profile: &Arc<Profile>,
    ) -> Result<OriginRobots, Undecided> {
        loop {
            sleep(EXPIRY_CHECK_INTERVAL).await;
            if expiry.is_none_or(|expiry| expiry <= context.now()) {
                break;
            }
        }
        let DecisionContext { agent, subject, info, .. } = context;
        self.gate.store.lookup(subject.origin(), profile, agent.token, info.client).await
    }
}

/// Whether what began at `since`, or begins now, has lasted for [`UNDECIDED_TIME_MAX`].
fn has_lasted(since: &mut Option<Instant>) -> bool {
    monotonic() - *since.get_or_insert_with(monotonic) >= UNDECIDED_TIME_MAX
}

/// What `known` disallows of the subject of `context`; `None`: nothing, which is noted for the
/// access log.
pub(super) fn subject_denial(
    context: &DecisionContext<'_>,
    known: &OriginRobots,
) -> Option<SubjectDenial> {
    let policy = known.policy(context.now());
    let token = context.agent.token;
    let decision = match context.subject {
        Subject::Resource(target) => decide(&policy, token, target.path_for_rules().as_bytes()),
        Subject::Host(_) => match decide_host(&policy, token) {
            HostDecision::Whole(decision) => decision,
            HostDecision::Mixed(group) => {
                return Some(SubjectDenial::MixedHost(context.unseen_path_denial(known, group)));
            }
        },
    };
    match decision.verdict {
        Verdict::Allow => {
            context.info.entry.note_allowed(&decision, known, context.now());
            None
        }
        Verdict::Disallow => Some(SubjectDenial::Whole(context.policy_denial(known, &decision))),
    }
}

impl Gate {
    /// Decides again on what `permit` is for, when it has waited for its turn.
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
        let site = context.site_by(&known);
        let context = DecisionContext { at: Some(known.at()), site: Some(&site), ..context };
        match subject_denial(&context, &known) {
            Some(denial) if !(is_waived && self.enforcer().waives(&context, &denial, mixed)) => {
                self.enforcer().enforce(&context, denial, mixed).await
            }
            _ => Ok(()),
        }
    }
}
