//! How a denial comes about: what is known of the request, the rules and the robots.txt, put into its record.

use std::sync::Arc;

use super::denial::Denial;
use super::gate::Ask;
use super::problem::Problem;
use super::rules::{Agent, Rules};
use super::statements::{Statement, Statements};
use super::target::Target;
use crate::audit::{self, Event, Reason, Record, RobotsStatus};
use crate::egress::{self, Failure};
use crate::policy::access::{NetworkFailure, Snapshot};
use crate::policy::decision::{Decision, Named};
use crate::policy::state::{Absence, RobotsState};
use crate::runtime::clock::Clock;
use crate::store::{Known, Undecided};
use crate::types::origin::Origin;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// What is decided on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Resource(&'a Target),
    /// A host as a whole: no path is seen.
    Host(&'a Origin),
}

impl<'a> Subject<'a> {
    pub const fn origin(&self) -> &'a Origin {
        match self {
            Self::Resource(target) => &target.origin,
            Self::Host(origin) => origin,
        }
    }
}

/// What every denial of one request has in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft<'a> {
    pub subject: Subject<'a>,
    pub ask: Ask<'a>,
    pub agent: Agent<'a>,
    pub rules: &'a Rules,
    pub statements: &'a Statements,
    /// The date that it is judged by, once it is; until then there is no need to read the clock.
    pub at: Option<Timestamp>,
    pub clock: &'a dyn Clock,
}

impl Draft<'_> {
    /// The date of whatever is said of it.
    pub(super) fn now(&self) -> Timestamp {
        self.at.unwrap_or_else(|| self.clock.wall())
    }

    /// A denial without more to say than its reason.
    pub(super) fn denial(&self, reason: Reason, problem: Problem) -> Denial {
        Denial {
            record: self.record(reason),
            is_recorded: false,
            problem,
            status: self.rules.status(
                &self.agent,
                matches!(problem, Problem::RobotsUnreachable | Problem::HostNotFound),
            ),
            proxy_error: "http_request_denied",
            cause: None,
            retry_after: None,
            statement: None,
            blobs: Vec::new(),
        }
    }

    /// It could not be found out what the robots.txt says.
    pub(super) fn undecided(&self, why: &Undecided) -> Denial {
        Denial {
            cause: Some(why.to_string()),
            ..self.denial(Reason::Undecided, Problem::Undecided)
        }
    }

    pub(super) fn origin_refused(&self, error: &egress::Error) -> Denial {
        Denial {
            proxy_error: error.failure.proxy_error(),
            cause: Some(error.detail.clone()),
            ..self.denial(Reason::OriginRefused, Problem::OriginRefused)
        }
    }

    pub(super) fn port_not_allowed(&self) -> Denial {
        let port = self.subject.origin().port();
        let cause =
            format!("CONNECT to port {port} is not allowed: list it in egress.connect_ports");
        Denial { cause: Some(cause), ..self.denial(Reason::OriginRefused, Problem::PortNotAllowed) }
    }

    /// Some paths are disallowed, and it cannot be told whether this is one of them.
    pub(super) fn path_not_seen(&self, known: &Known, group: Named<'_>) -> Denial {
        let mut denial = self.denial(Reason::PathNotSeen, Problem::PathNotSeen);
        denial.record.group = Some(audit::Group::of(&group));
        denial.rests_on(known, self.statement(known, None));
        denial
    }

    /// The denial that follows from the robots.txt, or from its absence.
    pub(super) fn by_policy(&self, known: &Known, decision: &Decision<'_>) -> Denial {
        let reason = Reason::of(&decision.basis);
        let absence = decision.basis.absence();
        let failure = absence.and_then(|absence| absence.cause.failure());
        let problem = match (reason, failure) {
            (Reason::RobotsUnreachable, Some(NetworkFailure::NameNotFound)) => {
                Problem::HostNotFound
            }
            _ => Problem::of(reason),
        };
        let mut denial = self.denial(reason, problem);
        denial.proxy_error = match failure {
            Some(NetworkFailure::NameNotFound) => Failure::NameNotFound.proxy_error_parameters(),
            Some(NetworkFailure::Dns) => Failure::Dns.proxy_error_parameters(),
            Some(NetworkFailure::DnsTimeout) => Failure::DnsTimeout.proxy_error_parameters(),
            _ => denial.proxy_error,
        };
        denial.cause = absence.map(|absence| absence.cause.to_string());
        denial.retry_after = absence
            .filter(|absence| absence.defers())
            .map(|absence| self.now().until(absence.next_try));
        denial.record.group = decision.basis.group().map(audit::Group::of);
        denial.record.rule = decision.basis.rule().map(audit::Rule::of);
        denial.rests_on(known, self.statement(known, absence));
        denial
    }

    fn statement(&self, known: &Known, absence: Option<&Absence<'_>>) -> Arc<Statement> {
        self.statements.of(known, absence.is_some(), || self.robots(known, absence))
    }

    fn robots(&self, known: &Known, absence: Option<&Absence<'_>>) -> audit::Robots {
        let state = known.state();
        let copy = state.copy();
        let snapshot: Option<&Snapshot> = copy.map(|copy| &*copy.snapshot);
        let failed = known.failed();
        let outage = match state {
            RobotsState::Unreachable(outage) => Some(outage),
            _ => None,
        };
        audit::Robots {
            asked_as: known.asked_as().map(|identity| Record::text(identity.as_str().as_bytes())),
            capture: snapshot.map(|snapshot| sanitize::hex(&snapshot.capture.sha256)),
            cause: absence.map(|absence| Record::text(absence.cause.to_string().as_bytes())),
            confirmed_at: copy.map(|copy| copy.confirmed_at),
            cut: snapshot.is_some_and(|snapshot| snapshot.cut),
            failed_capture: failed.map(|failed| sanitize::hex(&failed.capture.sha256)),
            failures: outage.map(|outage| outage.failures),
            fetched_at: snapshot.map(|snapshot| snapshot.fetched_at),
            next_try: state.next_try(),
            result: Some(failed.map_or("successful", |failed| failed.result.word()).to_owned()),
            sha256: snapshot.map(|snapshot| sanitize::hex(&snapshot.sha256)),
            since: state.since(),
            site_up: outage.map(|outage| outage.site_up),
            state: status(state),
            status: absence
                .map_or(snapshot.map(|snapshot| snapshot.status), |absence| absence.cause.status()),
            tried: state.learnt_at(),
            url: self.subject.origin().robots_url(),
            url_reached: snapshot.map(|snapshot| Record::url(snapshot.url.as_bytes())),
        }
    }

    fn record(&self, reason: Reason) -> Record {
        let now = self.now();
        let bytes =
            |value: Option<&http::HeaderValue>| value.map(|value| Record::text(value.as_bytes()));
        let origin = self.subject.origin().to_string();
        let url = match self.subject {
            // An address is dear to write, so it is written once.
            Subject::Resource(target) => [&origin, target.path_in_url()].concat(),
            // As a CONNECT names it.
            Subject::Host(origin) => format!("{}:{}", origin.host(), origin.port()),
        };
        let url_as_received = match self.subject {
            Subject::Resource(Target { received: Some(path), .. }) => {
                Some([&origin, &**path].concat())
            }
            _ => None,
        };
        Record {
            agent: self.agent.token.map(|token| Record::text(token.as_bytes())),
            agent_source: self.agent.source,
            client: audit::Client {
                address: self.ask.client.address,
                name: self.ask.client.name().map(str::to_owned),
            },
            event: Event::Denied,
            exemption: None,
            group: None,
            id: audit::new_id(now),
            method: Record::text(self.ask.method.as_str().as_bytes()),
            node: None,
            origin,
            path_seen: matches!(self.subject, Subject::Resource(_)),
            prev: String::new(),
            profile: audit::Profile::of(self.rules.profile(&self.agent, self.subject.origin())),
            reason,
            robots: None,
            rule: None,
            seq: 0,
            sni: None,
            time: now,
            trace_id: self.ask.account.trace_id.clone(),
            url: Record::url(url.as_bytes()),
            url_as_received,
            user_agent: bytes(self.agent.identification),
        }
    }
}

const fn status(state: &RobotsState) -> RobotsStatus {
    match state {
        RobotsState::Successful { .. } => RobotsStatus::Rules,
        RobotsState::Unavailable { .. } => RobotsStatus::Unavailable,
        RobotsState::Unknown | RobotsState::Unreachable(_) => RobotsStatus::Unreachable,
    }
}
