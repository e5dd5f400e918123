//! What outlives the answer to its request, a tunnel or an upgraded connection, is permitted for as long as
//! what is known of its origin permits it. With each change of that the gate decides again, by the rules that
//! the request began with; what is permitted no more is recorded as a denial, and ends.

use std::sync::Arc;

use super::asker::Asker;
use super::connect::Mixed;
use super::draft::{Draft, Subject};
use super::gate::{Ask, Finding, Gate};
use super::target::Target;
use crate::policy::decision::{HostDecision, Verdict, decide, decide_host};
use crate::runtime::box_future::box_future;
use crate::store::Known;
use crate::types::origin::Origin;

/// What was permitted, to whom, and by which gate.
#[derive(Debug)]
pub struct Lasting {
    gate: Arc<Gate>,
    asker: Asker,
    what: What,
}

#[derive(Debug)]
enum What {
    /// An upgraded connection: judged by the path of its request.
    Resource(Target),
    /// A tunnel: judged by the host as a whole.
    Host(Origin, Mixed),
}

impl Lasting {
    pub fn resource(gate: &Arc<Gate>, ask: Ask<'_>, target: Target) -> Self {
        Self { gate: Arc::clone(gate), asker: ask.into(), what: What::Resource(target) }
    }

    pub fn host(gate: &Arc<Gate>, ask: Ask<'_>, origin: Origin, mixed: Mixed) -> Self {
        Self { gate: Arc::clone(gate), asker: ask.into(), what: What::Host(origin, mixed) }
    }

    pub const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub const fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Does `work` until it ends, or is permitted no more. `None`: it has been ended, and recorded.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            ended = work => Some(ended),
            () = box_future(|| self.until_disallowed()) => None,
        }
    }

    /// Returns when the gate has said no, and has recorded it.
    async fn until_disallowed(&self) {
        let (subject, mixed) = match &self.what {
            What::Resource(target) => (Subject::Resource(target), Mixed::Refuse),
            What::Host(origin, mixed) => (Subject::Host(origin), *mixed),
        };
        let draft = self.gate.draft(subject, self.asker.ask());
        let profile = self.gate.rules.profile(&draft.agent, subject.origin());
        let changes = self.gate.store.changes(subject.origin());
        // What goes although it is disallowed has its record from when that began.
        let mut was_disallowed = true;
        loop {
            let known = changes.next(profile, draft.agent.token, draft.ask.client).await;
            let draft = Draft { at: Some(known.at()), ..draft };
            let finding = finding(&draft, &known);
            let is_disallowed = finding.is_some();
            if let Some(finding) = finding
                && !(was_disallowed && self.goes_although(&draft, &finding, mixed))
                && self.gate.object(&draft, finding, mixed).await.is_err()
            {
                return;
            }
            was_disallowed = is_disallowed;
        }
    }

    /// Whether settings let it go although it is disallowed.
    fn goes_although(&self, draft: &Draft<'_>, finding: &Finding, mixed: Mixed) -> bool {
        matches!((finding, mixed), (Finding::Unseen(_), Mixed::Tunnel))
            || self.gate.is_waived(draft)
    }
}

/// What is disallowed of the subject of `draft` by what is `known`; `None`: nothing.
fn finding(draft: &Draft<'_>, known: &Known) -> Option<Finding> {
    let (policy, token) = (known.policy(draft.now()), draft.agent.token);
    let decision = match draft.subject {
        Subject::Resource(target) => decide(&policy, token, target.judged_path().as_bytes()),
        Subject::Host(_) => match decide_host(&policy, token) {
            HostDecision::Whole(decision) => decision,
            HostDecision::Mixed(group) => {
                return Some(Finding::Unseen(draft.path_not_seen(known, group)));
            }
        },
    };
    (decision.verdict == Verdict::Disallow)
        .then(|| Finding::Disallowed(draft.by_policy(known, &decision)))
}
