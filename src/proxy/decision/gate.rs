//! The gate: decides whether a request is allowed, by the robots.txt of its origin and by the rules
//! of the operator. Only here a [`Permit`] is made, and a denial leaves the gate only as a recorded
//! one. What is undecided is denied.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use tracing::debug;

use super::decision_context::{
    DecisionContext, OwnedRequestInfo, RequestInfo, RobotsSummaryCache, Subject,
};
use super::enforce::{Enforcer, SubjectDenial};
use super::permit_pace::{self, PermitPace};
use super::rules::{MixedHosts, Rules};
use crate::audit::{Reason, Record, Writer};
use crate::egress::{self, Egress, Failure};
use crate::policy::access::Snapshot;
use crate::policy::decision::{Basis, Decision, HostDecision, Verdict, decide, decide_host};
use crate::policy::state::{Policy, RobotsState};
use crate::proxy::denial::blobs;
use crate::proxy::destination::Target;
use crate::proxy::observe::decision_metrics::DecisionMetrics;
use crate::proxy::rejection::GateError;
use crate::robots;
use crate::runtime::box_future;
use crate::runtime::clock::Clock;
use crate::store::{OriginRobots, Store, Undecided};
use crate::types::origin::Origin;
use crate::types::problem::Problem;
use crate::types::timestamp::Timestamp;
use crate::watch::{SiteRow, Watch};

/// Everything that a decision needs.
#[derive(Debug)]
pub struct Gate {
    pub rules: Rules,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<DecisionMetrics>,
    pub summaries: RobotsSummaryCache,
    /// Samples allowed requests.
    pub watch: Arc<Watch>,
}

impl Gate {
    /// Decides on `target`. A disallowed request is recorded, also if an exemption or the observe
    /// mode allows it all the same; an allowed one is only counted.
    pub async fn decide(&self, target: Target, info: RequestInfo<'_>) -> Result<Grant, GateError> {
        self.enforcer().check_audit()?;
        let context = self.context(Subject::Resource(&target), info);
        self.require_agent(&context).await?;
        let known = self.lookup(&context).await?;
        // A fetch may have taken its time: the decision is of the time when it ended.
        let now = known.at();
        let site = context.site_by(&known);
        let context = DecisionContext { at: Some(now), site: Some(&site), ..context };
        let policy = known.policy(now);
        let decision = decide(&policy, context.agent.token, target.path_for_rules().as_bytes());
        match decision.verdict {
            Verdict::Allow => {
                self.metrics.count_allowed(&decision.basis, true);
                site.add_allowed(true);
                info.entry.note_allowed(&decision, &known, now);
                if self.rules.allowed_lines.take() {
                    self.record_allowed(&context, &known, &decision).await?;
                }
                if decision.basis != Basis::Rules(robots::Basis::RobotsTxtItself) {
                    let (path, token) = (target.path_for_rules(), context.agent.token);
                    self.watch.sample_allowed(&target.origin, path, token, known.profile());
                }
            }
            Verdict::Disallow => {
                let denial = context.policy_denial(&known, &decision);
                self.enforcer().deny_unless_waived(&context, denial).await?;
            }
        }
        if let Some(copy) = self.robots_txt(&decision, &policy, info.method, now) {
            return Ok(copy);
        }
        let in_outage = matches!(known.state(), RobotsState::Unreachable(_));
        let is_waived = decision.verdict == Verdict::Disallow;
        let path = target.path_for_rules().as_bytes();
        let pace = PermitPace::of(&context, &known, &policy, path, &self.watch);
        Ok(Grant::Permit(Permit { target, in_outage, is_waived, pace, site }))
    }

    /// Decides on a tunnel to `origin`, of which no path will be seen.
    pub async fn decide_host(
        &self,
        origin: Origin,
        info: RequestInfo<'_>,
        mixed: MixedHosts,
    ) -> Result<HostPermit, GateError> {
        self.enforcer().check_audit()?;
        let context = self.context(Subject::Host(&origin), info);
        self.require_agent(&context).await?;
        let known = self.lookup(&context).await?;
        let now = known.at();
        let site = context.site_by(&known);
        let context = DecisionContext { at: Some(now), site: Some(&site), ..context };
        let policy = known.policy(now);
        let denial = match decide_host(&policy, context.agent.token) {
            HostDecision::Whole(decision) if decision.verdict == Verdict::Allow => {
                self.metrics.count_allowed(&decision.basis, false);
                site.add_allowed(false);
                info.entry.note_allowed(&decision, &known, now);
                if self.rules.allowed_lines.take() {
                    self.record_allowed(&context, &known, &decision).await?;
                }
                None
            }
            HostDecision::Whole(decision) => {
                Some(SubjectDenial::Whole(context.policy_denial(&known, &decision)))
            }
            HostDecision::Mixed(group) => {
                let mut denial = context.unseen_path_denial(&known, group);
                let is_tunnel = mixed == MixedHosts::Tunnel;
                let is_paced = is_tunnel && permit_pace::has_delay(&context, &known, &policy);
                denial.record.pace_seen = is_paced.then_some(false);
                Some(SubjectDenial::MixedHost(denial))
            }
        };
        let is_waived = denial.is_some();
        if let Some(denial) = denial {
            self.enforcer().enforce(&context, denial, mixed).await?;
        }
        let pace = PermitPace::of(&context, &known, &policy, b"/", &self.watch);
        Ok(HostPermit { origin, is_waived, pace, site })
    }

    /// Writes the line of an allowed request; boxed, because it is rare but in runs.
    ///
    /// # Errors
    ///
    /// It could not be written, and nothing is served without (`audit.on_failure`).
    fn record_allowed(
        &self,
        context: &DecisionContext<'_>,
        known: &OriginRobots,
        decision: &Decision<'_>,
    ) -> Pin<Box<impl Future<Output = Result<(), GateError>>>> {
        box_future(move || async move {
            let allowed = Box::new(context.allowed(known, decision));
            if let Err(error) = self.audit.write_allowed(allowed, blobs(known)).await {
                debug!("the line of an allowed request: {error}");
            }
            self.enforcer().check_audit()
        })
    }

    /// Denies a CONNECT to a port that is not listed.
    pub async fn deny_port(&self, origin: &Origin, info: RequestInfo<'_>) -> GateError {
        self.metrics.count_closed_port();
        let denial = self.context(Subject::Host(origin), info).closed_port_denial();
        self.enforcer().deny(denial).await
    }

    /// Records, for `reason`, that what a client sent inside its CONNECT to `origin` was not
    /// forwarded; `sni` is the name in its TLS, if that is the reason.
    pub async fn record_inside(
        &self,
        origin: &Origin,
        info: &OwnedRequestInfo,
        reason: Reason,
        sni: Option<&str>,
    ) {
        let context = self.context(Subject::Host(origin), info.borrow());
        let mut denial = context.denial(reason, Problem::NotServed);
        denial.record.sni = sni.map(|name| Record::text(name.as_bytes()));
        self.enforcer().record_unanswered(denial).await;
    }

    /// The context of one decision: its agent, rules and subject, and what a denial would record.
    pub(super) fn context<'a>(
        &'a self,
        subject: Subject<'a>,
        info: RequestInfo<'a>,
    ) -> DecisionContext<'a> {
        let agent = self.rules.agent(info.user_agent, info.client.user.as_deref());
        DecisionContext {
            subject,
            info,
            agent,
            rules: &self.rules,
            summaries: &self.summaries,
            at: None,
            clock: &*self.clock,
            watch: &self.watch,
            site: None,
        }
    }

    pub(super) fn enforcer(&self) -> Enforcer<'_> {
        Enforcer { rules: &self.rules, audit: &self.audit, metrics: &self.metrics }
    }

    /// Denies a request without an identification, where one is required (`agents.require`).
    pub(super) async fn require_agent(
        &self,
        context: &DecisionContext<'_>,
    ) -> Result<(), GateError> {
        if !context.rules.agent_required || context.agent.identification.is_some() {
            return Ok(());
        }
        let denial = context.denial(Reason::AgentRequired, Problem::AgentRequired);
        Err(self.enforcer().deny(denial).await)
    }

    /// What is known of the origin's robots.txt, under the profile that applies to the agent.
    pub(super) async fn lookup(
        &self,
        context: &DecisionContext<'_>,
    ) -> Result<OriginRobots, GateError> {
        let DecisionContext { agent, subject, rules, info, .. } = context;
        let profile = rules.profile(agent, subject.origin());
        let looked_up = self.store.lookup(subject.origin(), profile, agent.token, info.client);
        match looked_up.await {
            Ok(known) => Ok(known),
            // The robots.txt cannot be requested, and for the same reason the resource cannot.
            Err(Undecided::NotSent(error)) if !is_of_this_machine(error.failure) => {
                Err(self.on_egress_error(*subject, *info, error).await)
            }
            Err(undecided) => {
                if let Undecided::NotSent(error) = &undecided {
                    self.metrics.count_failure(error.failure);
                }
                Err(self.enforcer().deny(context.undecided_denial(&undecided)).await)
            }
        }
    }

    /// The copy that decides, for a request for the robots.txt itself: a thousand workers that
    /// request it cost the origin one fetch.
    fn robots_txt(
        &self,
        decision: &Decision<'_>,
        policy: &Policy<'_>,
        method: &Method,
        now: Timestamp,
    ) -> Option<Grant> {
        let Policy::Rules(copy) = policy else { return None };
        let is_served = decision.basis == Basis::Rules(robots::Basis::RobotsTxtItself)
            && matches!(*method, Method::GET | Method::HEAD);
        is_served.then(|| Grant::RobotsTxt {
            snapshot: Arc::clone(&copy.snapshot),
            age: now.since(copy.confirmed_at),
        })
    }
}

/// Whether `failure` is one of this machine, such as a lack of file descriptors: it says nothing of
/// the origin. The lack of a turn is one of the origin's pace.
fn is_of_this_machine(failure: Failure) -> bool {
    failure.is_ours() && failure != Failure::NoTurn
}

/// The right to send one request. It owns the target it was granted for, and only the gate can make
/// one: what was decided on is what is sent.
#[derive(Debug)]
pub struct Permit {
    target: Target,
    /// Whether the origin's robots.txt is unreachable: the store then notes whether its pages are,
    /// too.
    in_outage: bool,
    is_waived: bool,
    pace: PermitPace,
    site: Arc<SiteRow>,
}

impl Permit {
    /// What may be requested.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// What applies to the time of the request.
    pub const fn pace(&self) -> &PermitPace {
        &self.pace
    }

    /// Where what becomes of it is counted.
    pub const fn site(&self) -> &Arc<SiteRow> {
        &self.site
    }

    /// Whether it was permitted despite a denial, which is recorded.
    pub const fn is_waived(&self) -> bool {
        self.is_waived
    }
}

/// The right to a tunnel, by a decision on the host as a whole. Only the gate can make one.
#[derive(Debug)]
pub struct HostPermit {
    origin: Origin,
    is_waived: bool,
    pace: PermitPace,
    site: Arc<SiteRow>,
}

impl HostPermit {
    /// Where the tunnel may lead.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What applies to the time of the connection.
    pub const fn pace(&self) -> &PermitPace {
        &self.pace
    }

    /// Where what becomes of it is counted.
    pub const fn site(&self) -> &Arc<SiteRow> {
        &self.site
    }

    /// Whether it was permitted despite a denial, which is recorded.
    pub const fn is_waived(&self) -> bool {
        self.is_waived
    }
}

/// What the gate grants for a request that is not denied.
#[derive(Debug)]
pub enum Grant {
    /// The request may be forwarded.
    Permit(Permit),
    /// The request is for the robots.txt itself: the response is the copy that decides.
    RobotsTxt {
        snapshot: Arc<Snapshot>,
        /// Since the copy was last confirmed.
        age: Duration,
    },
}

// The gate and egress: destinations that the operator prohibits, and what responses of origins say
// about outages.

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
