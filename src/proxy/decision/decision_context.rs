//! What one decision is made from: the request, its agent, the rules of the operator and the time.
//! The denial and its record are made from the same.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use http::{HeaderValue, Method};
use lru::LruCache;

use super::rules::{Agent, Rules};
use crate::audit::{
    self, AllowedEvent, AllowedReason, Event, FileEvent, Notice, Reason, Record, Robots,
    RobotsFile, RobotsStatus,
};
use crate::clients::Client;
use crate::egress::{self, Failure};
use crate::policy::access::{CompletedFetch, NetworkFailure, Snapshot};
use crate::policy::decision::{Decision, SelectedGroup};
use crate::policy::state::{Absence, Policy, RobotsState};
use crate::proxy::denial::{Denial, RobotsSummary, blobs};
use crate::proxy::destination::Target;
use crate::proxy::observe::access_log::AccessEntry;
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::store::{OriginRobots, Undecided, WeakOriginRobots};
use crate::types::origin::Origin;
use crate::types::problem::Problem;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;
use crate::watch::{DecidingRobots, FileKey, SiteKey, SiteRow, Watch};

/// What one decision is made from, and what its denial would record.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    pub subject: Subject<'a>,
    pub info: RequestInfo<'a>,
    pub agent: Agent<'a>,
    pub rules: &'a Rules,
    pub summaries: &'a RobotsSummaryCache,
    /// The time of the decision; `None` before there is one, so that the clock need not be read.
    pub at: Option<Timestamp>,
    pub clock: &'a dyn Clock,
    pub watch: &'a Watch,
    /// Where what is asked of the site is counted; `None` before it is known what decides.
    pub site: Option<&'a Arc<SiteRow>>,
}

impl DecisionContext<'_> {
    /// The time of the decision, or of the clock.
    pub fn now(&self) -> Timestamp {
        self.at.unwrap_or_else(|| self.clock.wall())
    }

    /// A denial with no more than its reason.
    pub fn denial(&self, reason: Reason, problem: Problem) -> Denial {
        Denial {
            record: self.record(Event::Denied, reason),
            problem,
            status: self.rules.status(
                &self.agent,
                matches!(problem, Problem::RobotsUnreachable | Problem::HostNotFound),
            ),
            proxy_error: "http_request_denied",
            cause: None,
            retry_after: None,
            robots: None,
            blobs: Vec::new(),
            site: self.site.map_or_else(|| self.site_of(None), Arc::clone),
        }
    }

    /// Where what the agent asks of the origin is counted, where that robots.txt decides.
    fn site_of(&self, robots: Option<DecidingRobots>) -> Arc<SiteRow> {
        let key = SiteKey { origin: self.subject.origin(), agent: self.agent.token, robots };
        self.watch.sites.row(key, || self.info.client.key())
    }

    /// The same, by what is `known`: the log names that once a day.
    pub fn site_by(&self, known: &OriginRobots) -> Arc<SiteRow> {
        let robots = DecidingRobots::of(known.state());
        let site = self.site_of(Some(robots));
        if site.lacks_file() && self.name_file(known, robots) {
            site.note_file_named();
        }
        site
    }

    #[cold]
    fn name_file(&self, known: &OriginRobots, robots: DecidingRobots) -> bool {
        let key = FileKey { origin: self.subject.origin(), robots };
        let blobs = blobs(known);
        let bytes = blobs.iter().map(|blob| blob.content.len()).sum();
        self.watch.note_today(
            &key,
            || self.info.client.key(),
            (bytes, known.at()),
            || {
                let policy = known.policy(known.at());
                let absence = match &policy {
                    Policy::Rules(_) => None,
                    Policy::AllowAll(absence) | Policy::DisallowAll(absence) => Some(absence),
                };
                let file = RobotsFile {
                    event: FileEvent::It,
                    node: None,
                    origin: self.subject.origin().to_string(),
                    prev: String::new(),
                    robots: self.summary(known, absence).record.clone(),
                    seq: 0,
                    time: known.at(),
                };
                (Notice::RobotsFile(file), blobs)
            },
        )
    }

    /// For a robots.txt of which it could not be decided what it says.
    pub fn undecided_denial(&self, why: &Undecided) -> Denial {
        Denial {
            cause: Some(why.to_string()),
            ..self.denial(Reason::Undecided, Problem::Undecided)
        }
    }

    /// For a destination that the operator prohibits.
    pub fn refused_origin_denial(&self, error: &egress::Error) -> Denial {
        Denial {
            proxy_error: error.failure.proxy_error(),
            cause: Some(error.detail.clone()),
            ..self.denial(Reason::OriginRefused, Problem::OriginRefused)
        }
    }

    /// For a CONNECT to a port that is not listed.
    pub fn closed_port_denial(&self) -> Denial {
        let port = self.subject.origin().port();
        let cause =
            format!("CONNECT to port {port} is not allowed: list it in egress.connect_ports");
        Denial { cause: Some(cause), ..self.denial(Reason::OriginRefused, Problem::PortNotAllowed) }
    }

    /// For a host of which some paths are disallowed, where the path is not seen.
    pub fn unseen_path_denial(&self, known: &OriginRobots, group: SelectedGroup<'_>) -> Denial {
        let mut denial = self.denial(Reason::PathNotSeen, Problem::PathNotSeen);
        denial.record.group = Some(audit::Group::of(&group));
        denial.set_evidence(known, self.summary(known, None));
        denial
    }

    /// For what `decision` disallows, by the robots.txt or by its absence.
    pub fn policy_denial(&self, known: &OriginRobots, decision: &Decision<'_>) -> Denial {
        let reason = Reason::of(&decision.basis);
        let absence = decision.basis.absence();
        let failure = absence.and_then(|absence| absence.cause.failure());
        let problem = match (reason, failure) {
            (Reason::RobotsUnreachable, Some(NetworkFailure::NameNotFound)) => {
                Problem::HostNotFound
            }
            _ => reason.problem(),
        };
        let mut denial = self.denial(reason, problem);
        denial.proxy_error = match failure {
            Some(NetworkFailure::NameNotFound) => Failure::NameNotFound.proxy_error_parameters(),
            Some(NetworkFailure::Dns) => Failure::Dns.proxy_error_parameters(),
            Some(NetworkFailure::DnsTimeout) => Failure::DnsTimeout.proxy_error_parameters(),
            Some(NetworkFailure::Parent) => Failure::Parent.proxy_error_parameters(),
            _ => denial.proxy_error,
        };
        denial.cause = absence.map(|absence| absence.cause.to_string());
        denial.retry_after = absence
            .filter(|absence| absence.defers())
            .map(|absence| self.now().until(absence.next_try));
        denial.record.group = decision.basis.group().map(audit::Group::of);
        denial.record.rule = decision.basis.rule().map(audit::Rule::of);
        denial.set_evidence(known, self.summary(known, absence));
        denial
    }

    /// The summary of what is `known`, or of its absence.
    pub fn summary(
        &self,
        known: &OriginRobots,
        absence: Option<&Absence<'_>>,
    ) -> Arc<RobotsSummary> {
        self.summaries.get_or_make(known, absence.is_some(), || self.robots(known, absence))
    }

    fn robots(&self, known: &OriginRobots, absence: Option<&Absence<'_>>) -> audit::Robots {
        let state = known.state();
        let copy = state.copy();
        let snapshot: Option<&Snapshot> = copy.map(|copy| &*copy.snapshot);
        let failed = known.failed();
        let outage = match state {
            RobotsState::Unreachable(outage) => Some(outage),
            _ => None,
        };
        audit::Robots {
            asked_as: known.only_agent().map(|identity| Record::text(identity.as_str().as_bytes())),
            capture: snapshot.map(|snapshot| sanitize::hex(&snapshot.capture.sha256)),
            cause: absence.map(|absence| Record::text(absence.cause.to_string().as_bytes())),
            confirmed_at: copy.map(|copy| copy.confirmed_at),
            cut: snapshot.is_some_and(|snapshot| snapshot.cut),
            failed_capture: failed.map(|failed| sanitize::hex(&failed.capture.sha256)),
            failures: outage.map(|outage| outage.failures),
            fetched_at: snapshot.map(|snapshot| snapshot.fetched_at),
            next_try: state.next_try(),
            result: Some(result(failed, snapshot).to_owned()),
            sha256: snapshot.map(|snapshot| sanitize::hex(&snapshot.sha256)),
            since: state.since(),
            site_up: outage.map(|outage| outage.site_up),
            state: status(state),
            status: absence
                .map_or(snapshot.map(|snapshot| snapshot.status), |absence| absence.cause.status()),
            tried: state.tried_at(),
            url: self.subject.origin().robots_url(),
            url_reached: snapshot.map(|snapshot| Record::url(snapshot.url.as_bytes())),
        }
    }

    /// The line of a request that `decision` allows.
    pub fn allowed(
        &self,
        known: &OriginRobots,
        decision: &Decision<'_>,
    ) -> Record<AllowedEvent, AllowedReason> {
        let summary = self.summary(known, decision.basis.absence());
        Record {
            group: decision.basis.group().map(audit::Group::of),
            rule: decision.basis.rule().map(audit::Rule::of),
            robots: Some(summary.record.clone()),
            ..self.record(AllowedEvent::It, AllowedReason::of(&decision.basis))
        }
    }

    fn record<E, R>(&self, event: E, reason: R) -> Record<E, R> {
        let now = self.now();
        let text = |value: &http::HeaderValue| Record::text(value.as_bytes());
        let origin = self.subject.origin().to_string();
        let url = match self.subject {
            // To format an address is expensive, so `origin` is formatted once.
            Subject::Resource(target) => [&origin, target.path_in_url()].concat(),
            // As in the target of a CONNECT.
            Subject::Host(origin) => format!("{}:{}", origin.host(), origin.port()),
        };
        let url_as_received = match self.subject {
            Subject::Resource(Target { path_as_received: Some(path), .. }) => {
                Some([&origin, &**path].concat())
            }
            _ => None,
        };
        Record {
            agent: self.agent.token.map(|token| Record::text(token.as_bytes())),
            agent_source: self.agent.source,
            client: audit::Client::at(
                self.info.client.address,
                self.info.client.name().map(str::to_owned),
            ),
            event,
            exemption: None,
            group: None,
            id: audit::new_id(now),
            method: Record::text(self.info.method.as_str().as_bytes()),
            node: None,
            origin,
            pace_seen: None,
            path_seen: matches!(self.subject, Subject::Resource(_)),
            prev: String::new(),
            profile: audit::Profile::of(self.rules.profile(&self.agent, self.subject.origin())),
            reason,
            robots: None,
            rule: None,
            seq: 0,
            setting: None,
            sni: None,
            time: now,
            trace_id: self.info.entry.trace_id.clone(),
            url: Record::url(url.as_bytes()),
            url_as_received,
            user_agent: self.agent.identification.map(text),
        }
    }
}

/// How the last fetch ended; of a page in place of a robots.txt, that.
fn result(failed: Option<&CompletedFetch>, snapshot: Option<&Snapshot>) -> &'static str {
    match (failed, snapshot) {
        (Some(failed), _) => failed.result.word(),
        (None, Some(snapshot)) if snapshot.is_page() => NetworkFailure::NotRobotsTxt.word(),
        (None, _) => "successful",
    }
}

const fn status(state: &RobotsState) -> RobotsStatus {
    match state {
        RobotsState::Successful { .. } => RobotsStatus::Rules,
        RobotsState::Unavailable { .. } => RobotsStatus::Unavailable,
        RobotsState::Unknown | RobotsState::Unreachable(_) => RobotsStatus::Unreachable,
    }
}

/// A request, as decisions and records see it.
#[derive(Clone, Copy, Debug)]
pub struct RequestInfo<'a> {
    pub client: &'a Client,
    pub method: &'a Method,
    pub user_agent: Option<&'a HeaderValue>,
    /// Where its decision is noted, and its trace.
    pub entry: &'a AccessEntry,
}

/// An owned [`RequestInfo`], for what is decided or recorded after the response: a tunnel, an
/// upgraded connection.
#[derive(Debug)]
pub struct OwnedRequestInfo {
    client: Client,
    method: Method,
    user_agent: Option<HeaderValue>,
    entry: AccessEntry,
}

impl OwnedRequestInfo {
    /// The same, borrowed.
    pub fn borrow(&self) -> RequestInfo<'_> {
        let Self { client, method, user_agent, entry } = self;
        RequestInfo { client, method, user_agent: user_agent.as_ref(), entry }
    }
}

impl From<RequestInfo<'_>> for OwnedRequestInfo {
    fn from(info: RequestInfo<'_>) -> Self {
        Self {
            client: info.client.clone(),
            method: info.method.clone(),
            user_agent: info.user_agent.cloned(),
            // The request's own line of the access log has been written by then.
            entry: info.entry.of_same_trace(),
        }
    }
}

/// What is decided on.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    Resource(&'a Target),
    /// A host as a whole, of which no path is seen.
    Host(&'a Origin),
}

impl<'a> Subject<'a> {
    /// The origin whose robots.txt decides.
    pub const fn origin(&self) -> &'a Origin {
        match self {
            Self::Resource(target) => &target.origin,
            Self::Host(origin) => origin,
        }
    }

    /// What is asked for, as records name it: of a host as in the target of a CONNECT.
    pub fn url(&self) -> String {
        match self {
            // To format an address is expensive, so only the origin is formatted.
            Self::Resource(target) => [&target.origin.to_string(), target.path_in_url()].concat(),
            Self::Host(origin) => format!("{}:{}", origin.host(), origin.port()),
        }
    }
}

// The summaries of robots.txt states that denials were given lately. To make one for each
// denial costs about as much as the rest of the denial.

/// States of robots.txt files whose summary is cached: about as many as are denied again and again.
/// One takes 2 KiB, or up to 60 where URLs are long.
const SUMMARIES_MAX: NonZeroUsize = NonZeroUsize::new(512).expect("not zero");

/// Least recently used summaries go first.
pub struct RobotsSummaryCache(Lock<Summaries>);

type Summaries = LruCache<Key, (WeakOriginRobots, Arc<RobotsSummary>)>;

/// The state's address in memory, which is not reused while its [`WeakOriginRobots`] is cached, and
/// whether the summary is of the absence of a file.
type Key = (usize, bool);

impl RobotsSummaryCache {
    /// The cached summary of `known`, or the one `make` builds.
    pub fn get_or_make(
        &self,
        known: &OriginRobots,
        of_absence: bool,
        make: impl FnOnce() -> Robots,
    ) -> Arc<RobotsSummary> {
        let key = (std::ptr::from_ref(known.state()).addr(), of_absence);
        if let Some((robots, summary)) = self.0.lock().get(&key)
            && robots.is_of(known)
        {
            return Arc::clone(summary);
        }
        // The lock is not held here, so that denials of other origins need not wait. Two threads
        // may build the same summary; the later one is kept.
        let summary = Arc::new(RobotsSummary::new(make()));
        self.0.lock().put(key, (known.downgrade(), Arc::clone(&summary)));
        summary
    }
}

impl Default for RobotsSummaryCache {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(SUMMARIES_MAX)))
    }
}

impl fmt::Debug for RobotsSummaryCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsSummaryCache").finish_non_exhaustive()
    }
}
