//! Whether a request may go: what is known of the origin, what follows from it for this agent and
//! path, and the record of it where the answer is no. Only here is a [`Permit`] made, and a
//! [`Denial`] leaves only after its record has been written. Undecided is denied.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};

use super::account::Account;
use super::asker::Asker;
use super::connect::Mixed;
use super::decisions::Decisions;
pub use super::denial::Denial;
use super::draft::Draft;
pub(super) use super::draft::Subject;
use super::problem::Problem;
use super::rules::Rules;
use super::statements::Statements;
use super::target::Target;
use crate::audit::{Reason, Record, Writer};
use crate::clients::Client;
use crate::egress::{self, Egress, Failure};
use crate::policy::access::Snapshot;
use crate::policy::decision::{Basis, Decision, HostDecision, Verdict, decide, decide_host};
use crate::policy::state::{Policy, RobotsState};
use crate::runtime::box_future::box_future;
use crate::runtime::clock::Clock;
use crate::store::{Known, Store, Undecided};
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;
use crate::watch::Watch;

/// The right to send one request. It owns the target it was granted for, and nothing but the gate
/// can make one: what was checked is what is sent.
#[derive(Debug)]
pub struct Permit {
    target: Target,
    /// The origin's robots.txt cannot be had, and whether its pages can is worth knowing.
    in_outage: bool,
}

impl Permit {
    pub const fn target(&self) -> &Target {
        &self.target
    }
}

/// The right to a tunnel, by what is known of the host as a whole. Nothing but the gate makes one.
#[derive(Debug)]
pub struct HostPermit {
    origin: Origin,
}

impl HostPermit {
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// What the gate grants.
#[derive(Debug)]
pub enum Admission {
    Permit(Permit),
    /// The client asks for the robots.txt itself, and there is a copy that decides.
    RobotsTxt {
        snapshot: Arc<Snapshot>,
        age: Duration,
    },
}

/// What it answers otherwise.
#[derive(Debug)]
pub enum No {
    Denial(Box<Denial>),
    /// The robots.txt was not even asked for, as the destination is this proxy; or a permitted request
    /// failed on its way. No finding and no denial, but nothing goes on either.
    Failed(egress::Error),
    /// Records cannot be written, and the setting says to serve nothing then.
    Unrecorded,
}

/// What is disallowed of what is asked for.
#[derive(Debug)]
pub(super) enum Finding {
    /// All of it.
    Disallowed(Denial),
    /// Some paths of a host of which none is seen.
    Unseen(Denial),
}

/// Who wants what.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub client: &'a Client,
    pub method: &'a Method,
    pub user_agent: Option<&'a HeaderValue>,
    pub account: &'a Account,
}

/// Everything a decision needs.
#[derive(Debug)]
pub struct Gate {
    pub rules: Rules,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub clock: Arc<dyn Clock>,
    pub decisions: Arc<Decisions>,
    pub statements: Statements,
    /// Samples what is allowed.
    pub watch: Arc<Watch>,
}

impl Gate {
    /// Decides on `target`, and records the decision where it is worth a record. What is rare is on the
    /// heap here and elsewhere on a request's way: else every request would have room for it made.
    pub async fn admit(&self, target: Target, ask: Ask<'_>) -> Result<Admission, No> {
        self.check_audit()?;
        let draft = self.draft(Subject::Resource(&target), ask);
        let known = self.known(&draft).await?;
        // The fetch may have taken its time: what follows is judged by the time it ended.
        let now = known.at();
        let draft = Draft { at: Some(now), ..draft };
        let policy = known.policy(now);
        let decision = decide(&policy, draft.agent.token, target.judged_path().as_bytes());
        match decision.verdict {
            Verdict::Allow => {
                self.decisions.allowed(&decision.basis, true);
                ask.account.allowed(&decision, &known, now);
                if decision.basis != Basis::RobotsTxtItself {
                    let (path, token) = (target.judged_path(), draft.agent.token);
                    self.watch
                        .allowed(&target.origin, path, token, known.profile(), || ask.client.key());
                }
            }
            Verdict::Disallow => {
                box_future(|| self.disallowed(&draft, draft.by_policy(&known, &decision))).await?;
            }
        }
        if let Some(answer) = self.robots_txt(&decision, &policy, ask.method, now) {
            return Ok(answer);
        }
        let in_outage = matches!(known.state(), RobotsState::Unreachable(_));
        Ok(Admission::Permit(Permit { target, in_outage }))
    }

    /// Decides on a tunnel to `origin`, of which no path will be seen.
    pub async fn admit_host(
        &self,
        origin: Origin,
        ask: Ask<'_>,
        mixed: Mixed,
    ) -> Result<HostPermit, No> {
        self.check_audit()?;
        let draft = self.draft(Subject::Host(&origin), ask);
        let known = self.known(&draft).await?;
        let now = known.at();
        let draft = Draft { at: Some(now), ..draft };
        match decide_host(&known.policy(now), draft.agent.token) {
            HostDecision::Whole(decision) if decision.verdict == Verdict::Allow => {
                self.decisions.allowed(&decision.basis, false);
                ask.account.allowed(&decision, &known, now);
            }
            HostDecision::Whole(decision) => {
                let finding = Finding::Disallowed(draft.by_policy(&known, &decision));
                self.object(&draft, finding, mixed).await?;
            }
            HostDecision::Mixed(group) => {
                let finding = Finding::Unseen(draft.path_not_seen(&known, group));
                self.object(&draft, finding, mixed).await?;
            }
        }
        Ok(HostPermit { origin })
    }

    /// Refuses a CONNECT to a port that is not listed.
    pub async fn refuse_port(&self, origin: &Origin, ask: Ask<'_>) -> No {
        self.decisions.port_closed();
        self.deny(self.draft(Subject::Host(origin), ask).port_not_allowed()).await
    }

    /// Whether `origin` may be contacted at all, by its name and addresses. A name that cannot be
    /// resolved is left to whoever asks for something there.
    pub async fn admit_address(
        &self,
        origin: &Origin,
        ask: Ask<'_>,
        egress: &Egress,
    ) -> Result<(), No> {
        match egress.permits(origin, &ask.client.key()).await {
            Err(error) if error.failure.is_prohibition() || error.failure == Failure::Loop => {
                Err(self.no_way_out(Subject::Host(origin), ask, error).await)
            }
            _ => Ok(()),
        }
    }

    /// What it means that the way out failed: where the operator closed it, that is a denial,
    /// with its record, whoever found it out.
    pub(super) async fn no_way_out(
        &self,
        subject: Subject<'_>,
        ask: Ask<'_>,
        error: egress::Error,
    ) -> No {
        self.decisions.failed(error.failure);
        if error.failure.is_prohibition() {
            self.deny(self.draft(subject, ask).origin_refused(&error)).await
        } else {
            No::Failed(error)
        }
    }

    /// Records that what a client sent inside its CONNECT to `origin` went nowhere, for `reason`; `sni` is the
    /// name in its TLS, where that is the reason.
    pub async fn record_inside(
        &self,
        origin: &Origin,
        asker: &Asker,
        reason: Reason,
        sni: Option<&str>,
    ) {
        let mut denial =
            self.draft(Subject::Host(origin), asker.ask()).denial(reason, Problem::NotServed);
        denial.record.sni = sni.map(|name| Record::text(name.as_bytes()));
        self.count_denied(&denial);
        self.record(&mut denial).await;
    }

    pub(super) fn draft<'a>(&'a self, subject: Subject<'a>, ask: Ask<'a>) -> Draft<'a> {
        let agent = self.rules.agent(ask.user_agent, ask.client.user.as_deref());
        Draft {
            subject,
            ask,
            agent,
            rules: &self.rules,
            statements: &self.statements,
            at: None,
            clock: &*self.clock,
        }
    }

    /// What is known of the origin, under the profile that holds for the agent.
    async fn known(&self, draft: &Draft<'_>) -> Result<Known, No> {
        let Draft { agent, subject, rules, .. } = draft;
        if rules.agent_required && agent.identification.is_none() {
            let denial = draft.denial(Reason::AgentRequired, Problem::AgentRequired);
            return Err(box_future(|| self.deny(denial)).await);
        }
        let profile = rules.profile(agent, subject.origin());
        match self.store.known(subject.origin(), profile, agent.token, draft.ask.client).await {
            Ok(known) => Ok(known),
            Err(Undecided::Refused(error)) if !error.failure.is_ours() => {
                Err(box_future(|| self.no_way_out(*subject, draft.ask, error)).await)
            }
            Err(undecided) => {
                if let Undecided::Refused(error) = &undecided {
                    self.decisions.failed(error.failure);
                }
                Err(box_future(|| self.deny(draft.undecided(&undecided))).await)
            }
        }
    }

    /// Notes how the origin answered a permitted request: in a long outage of its robots.txt, a
    /// profile may ask whether the site is up at all. What failed for the client's reasons or ours says
    /// nothing of the site.
    pub fn note_answer(&self, permit: &Permit, answer: Result<StatusCode, Failure>) {
        if !permit.in_outage
            || answer.is_err_and(|failure| failure.is_clients() || failure.is_ours())
        {
            return;
        }
        let is_up = answer.is_ok_and(|status| !status.is_server_error());
        self.store.note_site(&permit.target.origin, is_up);
    }

    /// A thousand workers that ask for a robots.txt cost the origin one fetch.
    fn robots_txt(
        &self,
        decision: &Decision<'_>,
        policy: &Policy<'_>,
        method: &Method,
        now: Timestamp,
    ) -> Option<Admission> {
        let Policy::Rules(copy) = policy else { return None };
        let asked = decision.basis == Basis::RobotsTxtItself
            && self.rules.serves_robots_txt
            && matches!(*method, Method::GET | Method::HEAD);
        asked.then(|| Admission::RobotsTxt {
            snapshot: Arc::clone(&copy.snapshot),
            age: now.since(copy.confirmed_at),
        })
    }
}
