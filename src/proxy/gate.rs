//! Whether a request may go: what is known of the origin, what follows from it for this agent and
//! path, and the record of it where the answer is no. Only here is a [`Permit`] made, and a
//! [`Denial`] leaves only after its record has been written. Undecided is denied.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use tracing::{error, info};

pub use super::denial::Denial;
use super::problem::Problem;
use super::rules::{Agent, Mode, Rules};
use super::target::Target;
use crate::audit::{Event, Reason, Record, Writer};
use crate::clock::Clock;
use crate::egress::{self, Failure};
use crate::moment::Moment;
use crate::policy::access::Snapshot;
use crate::policy::decision::{Basis, Decision, Verdict, decide};
use crate::policy::exemption::Exemption;
use crate::policy::state::{Policy, RobotsState};
use crate::store::{Known, Store, Undecided};

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

/// What the gate answers.
#[derive(Debug)]
pub enum Admission {
    Permit(Permit),
    /// The client asks for the robots.txt itself, and there is a copy that decides.
    RobotsTxt {
        snapshot: Arc<Snapshot>,
        age: Duration,
    },
    Denial(Box<Denial>),
    /// The robots.txt was not even asked for: the destination is this proxy, or too much is under
    /// way. No finding and no denial, but nothing goes on either.
    Failed(egress::Error),
}

/// Who wants what.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub client: IpAddr,
    pub method: &'a Method,
    pub user_agent: Option<&'a HeaderValue>,
}

/// Everything a decision needs.
#[derive(Debug)]
pub struct Gate {
    pub rules: Rules,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub clock: Arc<dyn Clock>,
}

impl Gate {
    /// Decides on `target`, and records the decision where it is worth a record.
    pub async fn admit(&self, target: Target, ask: Ask<'_>) -> Admission {
        let agent = self.rules.agent(ask.user_agent);
        let draft = Draft { target: &target, ask, agent, rules: &self.rules, now: self.clock.wall() };
        if self.rules.agent_required && agent.identification.is_none() {
            return self.deny(draft.denial(Reason::AgentRequired, Problem::AgentRequired)).await;
        }
        let profile = self.rules.profile(&agent, &target.origin);
        let known = match self.store.known(&target.origin, profile, agent.identification).await {
            Ok(known) => known,
            Err(Undecided::Refused(error)) if error.failure != Failure::AddressProhibited => {
                return Admission::Failed(error);
            }
            Err(undecided) => return self.deny(draft.undecided(&undecided)).await,
        };
        // The fetch may have taken its time: what follows is judged by the time it ended.
        let draft = Draft { now: self.clock.wall(), ..draft };
        let policy = known.policy(draft.now);
        let decision = decide(&policy, agent.token, target.path.as_str().as_bytes());
        let in_outage = matches!(known.state(), RobotsState::Unreachable(_));
        match decision.verdict {
            Verdict::Allow => match self.robots_txt(&decision, &policy, ask.method, draft.now) {
                Some(answer) => answer,
                None => Admission::Permit(Permit { target, in_outage }),
            },
            Verdict::Disallow => match self.disallowed(&draft, &known, &decision).await {
                Some(denial) => Admission::Denial(denial),
                None => Admission::Permit(Permit { target, in_outage }),
            },
        }
    }

    /// Notes how the origin answered a permitted request: in a long outage of its robots.txt, a
    /// profile may ask whether the site is up at all.
    pub fn note_answer(&self, permit: &Permit, answer: Option<StatusCode>) {
        if permit.in_outage {
            let is_up = answer.is_some_and(|status| !status.is_server_error());
            self.store.note_site(&permit.target.origin, is_up);
        }
    }

    /// The way out was refused for a request that was permitted: that is a denial too.
    pub async fn refuse_origin(&self, target: &Target, ask: Ask<'_>, error: &egress::Error) -> Box<Denial> {
        let agent = self.rules.agent(ask.user_agent);
        let draft = Draft { target, ask, agent, rules: &self.rules, now: self.clock.wall() };
        let denial = draft.origin_refused(error);
        self.record(&denial.record).await;
        Box::new(denial)
    }

    /// A thousand workers that ask for a robots.txt cost the origin one fetch.
    fn robots_txt(
        &self,
        decision: &Decision<'_>,
        policy: &Policy<'_>,
        method: &Method,
        now: Moment,
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

    /// `None`: the request goes all the same, by exemption or because the mode only observes.
    async fn disallowed(
        &self,
        draft: &Draft<'_>,
        known: &Known,
        decision: &Decision<'_>,
    ) -> Option<Box<Denial>> {
        let mut denial = draft.by_policy(known, decision);
        let path = draft.target.path.as_str().as_bytes();
        let exemption = self.rules.exemptions.find(&draft.target.origin, path, draft.agent.token, draft.now);
        if let Some(exemption) = exemption {
            denial.record = exempted(denial.record, exemption);
            // An exemption holds on the condition that its use is recorded.
            if self.record(&denial.record).await {
                return None;
            }
            denial.record.event = Event::Denied;
        } else if self.rules.mode(&draft.agent, &draft.target.origin) == Mode::Observe {
            denial.record.event = Event::WouldDeny;
            // Who observes wants nothing denied, and the lost record is said by `record`.
            self.record(&denial.record).await;
            return None;
        }
        self.record(&denial.record).await;
        Some(Box::new(denial))
    }

    async fn deny(&self, denial: Denial) -> Admission {
        self.record(&denial.record).await;
        Admission::Denial(Box::new(denial))
    }

    /// Whether the record was handed to the operating system. A denial stands without it; the loss
    /// is said loudly.
    async fn record(&self, record: &Record) -> bool {
        info!(
            event = ?record.event, reason = ?record.reason, url = record.url, agent = record.agent,
            line = record.rule.as_ref().map(|rule| rule.line), record = record.id, "robots.txt decision"
        );
        match self.audit.write(record.clone()).await {
            Ok(_) => true,
            Err(error) => {
                error!(
                    record = record.id,
                    url = record.url,
                    "the audit record could not be written: {error}"
                );
                false
            }
        }
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

/// What every denial of one request has in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft<'a> {
    pub target: &'a Target,
    pub ask: Ask<'a>,
    pub agent: Agent<'a>,
    pub rules: &'a Rules,
    pub now: Moment,
}

impl Draft<'_> {
    fn undecided(&self, undecided: &Undecided) -> Denial {
        match undecided {
            Undecided::Refused(error) => self.origin_refused(error),
            Undecided::TimedOut | Undecided::Busy | Undecided::Aborted => {
                self.denial(Reason::Undecided, Problem::Undecided)
            }
        }
    }
}
