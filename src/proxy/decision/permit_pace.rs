//! What a permit says about the time of its request: what the site asks of the group that applies,
//! and what the operator sets for the agent.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tokio_util::sync::CancellationToken;

use super::decision_context::{DecisionContext, Subject};
use super::rules::AgentPace;
use crate::audit::evidence::Blob;
use crate::audit::{self, Notice, Paced, PacedEvent, Record};
use crate::pace::{self, GroupName, NoTurn, PaceMode, Visit, hold};
use crate::policy::RETRY_AFTER_MAX;
use crate::policy::access::{AccessResult, Cause};
use crate::policy::decision::SelectedGroup;
use crate::policy::exemption::Exemption;
use crate::policy::pace::{SitePace, outside_visit_time, site_pace};
use crate::policy::state::{Policy, RobotsCopy};
use crate::proxy::denial::blobs;
use crate::proxy::rejection::Rejection;
use crate::robots::{self, Group, OutsideVisitTime};
use crate::store::OriginRobots;
use crate::types::origin::Origin;
use crate::types::{ClientKey, http_time};
use crate::watch::{PacedKey, SiteRow, Watch};

/// What applies to the time of a permitted request.
#[derive(Debug)]
pub struct PermitPace {
    agent: AgentPace,
    site: Option<Box<RobotsPace>>,
    /// The agent is held: the fetch of its robots.txt was answered so.
    rest: Option<Box<NoTurn>>,
}

/// What the robots.txt asks.
#[derive(Debug)]
struct RobotsPace {
    group: GroupName,
    site_pace: Option<SitePace>,
    /// Who gave the exemption that sets the delay.
    exempted_by: Option<Box<str>>,
    outside_visit_time: Option<OutsideVisitTime>,
}

impl PermitPace {
    /// For the request of `context`, at the moment of its decision.
    pub(super) fn of(
        context: &DecisionContext<'_>,
        known: &OriginRobots,
        policy: &Policy<'_>,
        path: &[u8],
        watch: &Watch,
    ) -> Self {
        let agent = context.rules.pace(&context.agent);
        let rest = rest(context, known, &agent).map(Box::new);
        let Policy::Rules(copy) = policy else { return Self { agent, site: None, rest } };
        if !copy.rules.has_pace() {
            return Self { agent, site: None, rest };
        }
        let (token, now) = (context.agent.token, context.now());
        let group = copy.rules.group(token);
        let (robots, profile) = (&copy.rules, known.profile());
        let (site_pace, exempted) = site_pace_of(context, known, copy, (group.as_ref(), path));
        if let Some(site_pace) = site_pace {
            let mode = mode(context, &agent);
            let group = group.as_ref();
            PacedRequest { context, known, copy, group, site_pace, exempted, mode }.note(watch);
        }
        let exempted_by = exempted.map(|(exemption, _)| exemption.by.as_str().into());
        let site_pace = site_pace.and_then(|site_pace| kept(site_pace, exempted));
        let outside_visit_time = outside_visit_time(robots, group.as_ref(), profile, now);
        let group = GroupName::of(group.as_ref().map_or("", Group::name));
        let site = RobotsPace { group, site_pace, exempted_by, outside_visit_time };
        Self { agent, site: Some(Box::new(site)), rest }
    }

    /// The response to the request, if it does not get its turn, which counts in `row`.
    pub fn rejection(&self, no_turn: &NoTurn, row: &SiteRow) -> Rejection {
        let exempted_by = self.site.as_ref().and_then(|site| site.exempted_by.as_deref());
        let rejection = Rejection::no_turn(no_turn, self.agent.status, exempted_by);
        if rejection.is_delay() {
            row.add_resting();
        }
        rejection
    }

    /// Why a request of the agent has no turn, if the origin has asked this agent to rest, and no
    /// other.
    pub fn rest(&self) -> Option<&NoTurn> {
        self.rest.as_deref()
    }

    /// The call for the turn of a request with these headers; `None`: they say nothing about it.
    pub fn turn_request<'a>(
        &'a self,
        origin: &'a Origin,
        client: &'a ClientKey,
        headers: Option<&'a HeaderMap>,
        shutdown: &'a CancellationToken,
    ) -> pace::TurnRequest<'a> {
        let site = self.site.as_deref();
        let preferred = headers.and_then(preferred_wait);
        pace::TurnRequest {
            origin,
            client,
            mode: self.agent.mode,
            group: site.map_or("", |site| &site.group),
            site_pace: site.and_then(|site| site.site_pace),
            outside_visit_time: site.and_then(|site| site.outside_visit_time),
            visit: headers.map_or(Visit::None, |headers| Visit::of(headers, origin.scheme())),
            is_robots_txt: false,
            max_wait: [self.agent.max_wait, preferred].into_iter().flatten().min(),
            shutdown,
        }
    }
}

/// The rest that a 429 or 503 for the robots.txt of this agent alone asks for (RFC 9110 §10.2.3).
/// That of the common copy holds for all, and is one of the lane.
fn rest(context: &DecisionContext<'_>, known: &OriginRobots, agent: &AgentPace) -> Option<NoTurn> {
    known.only_agent()?;
    let failed = known.failed()?;
    let AccessResult::Without(Cause::Status { code, retry_after }) = failed.result else {
        return None;
    };
    let after = retry_after.filter(|_| matches!(code, 429 | 503))?.min(RETRY_AFTER_MAX);
    let wait = context.now().until(failed.at.plus(after));
    let is_enforced = !wait.is_zero() && mode(context, agent) == PaceMode::Enforce;
    is_enforced.then_some(NoTurn::Held { wait, status: code, cause: hold::Cause::RetryAfter })
}

/// Whether requests to the origin of `context` are a delay apart.
pub(super) fn has_delay(
    context: &DecisionContext<'_>,
    known: &OriginRobots,
    policy: &Policy<'_>,
) -> bool {
    if mode(context, &context.rules.pace(&context.agent)) != PaceMode::Enforce {
        return false;
    }
    let is_own = !context.rules.pace.delay(context.subject.origin()).is_zero();
    is_own
        || matches!(policy, Policy::Rules(copy) if {
            let group = copy.rules.group(context.agent.token);
            let (site_pace, exempted) = site_pace_of(context, known, copy, (group.as_ref(), b"/"));
            site_pace.is_some_and(|site_pace| kept(site_pace, exempted).is_some())
        })
}

/// The mode that applies to the agent at the origin.
fn mode(context: &DecisionContext<'_>, agent: &AgentPace) -> PaceMode {
    agent.mode.unwrap_or_else(|| context.rules.pace.mode(context.subject.origin()))
}

/// What the robots.txt asks of `group`, and the exemption with a delay of its own.
fn site_pace_of<'a>(
    context: &DecisionContext<'a>,
    known: &OriginRobots,
    copy: &RobotsCopy,
    (group, path): (Option<&Group<'_>>, &[u8]),
) -> (Option<SitePace>, Option<(&'a Exemption, Duration)>) {
    let DecisionContext { rules, subject, agent, .. } = *context;
    let (token, now) = (agent.token, context.now());
    let delay_max = rules.pace.max_crawl_delay;
    (
        site_pace(&copy.rules, group, known.profile(), delay_max, now),
        rules.exemptions.crawl_delay(subject.origin(), path, token, now),
    )
}

/// The delay that is kept; `None`: none, by an exemption.
fn kept(site_pace: SitePace, exempted: Option<(&Exemption, Duration)>) -> Option<SitePace> {
    match exempted {
        Some((_, delay)) if delay.is_zero() => None,
        Some((_, delay)) => Some(SitePace { delay, is_exempted: true, ..site_pace }),
        None => Some(site_pace),
    }
}

/// What applies to a request that a robots.txt asks a delay of.
pub(super) struct PacedRequest<'a> {
    pub context: &'a DecisionContext<'a>,
    pub known: &'a OriginRobots,
    pub copy: &'a RobotsCopy,
    pub group: Option<&'a Group<'a>>,
    /// What the file asks.
    pub site_pace: SitePace,
    /// What is kept instead.
    pub exempted: Option<(&'a Exemption, Duration)>,
    pub mode: PaceMode,
}

impl PacedRequest<'_> {
    /// Writes the notice, if it is the first one of the day.
    pub(super) fn note(&self, watch: &Watch) {
        if self.mode == PaceMode::Off {
            return;
        }
        let snapshot = &self.copy.snapshot;
        let key = PacedKey {
            origin: self.context.subject.origin(),
            group: self.group.map_or("", Group::name),
            delay: self.delay(),
            is_exempted: self.exempted.is_some(),
            is_tunnel: self.is_tunnel(),
            sha256: snapshot.sha256,
        };
        let bytes = snapshot.body.len() + snapshot.capture.json.len();
        let client = || self.context.info.client.key();
        let make = || (Notice::Paced(self.notice()), self.evidence());
        watch.note_today(&key, client, (bytes, self.context.now()), make);
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.context.subject, Subject::Host(_))
    }

    fn delay(&self) -> Duration {
        self.exempted.map_or(self.site_pace.delay, |(_, delay)| delay)
    }

    fn notice(&self) -> Paced {
        let Self { context, site_pace, .. } = self;
        let origin = context.subject.origin();
        let group =
            self.group.map(|group| SelectedGroup { name: group.name(), line: group.line() });
        Paced {
            agent: context.agent.token.map(|token| Record::text(token.as_bytes())),
            clamped: site_pace.is_clamped() && self.exempted.is_none(),
            delay_ms: u64::try_from(self.delay().as_millis()).unwrap_or(u64::MAX),
            event: PacedEvent::It,
            exemption: self
                .exempted
                .map(|(exemption, _)| audit::PaceExemption::of(exemption).into()),
            group: group.as_ref().map(|group| audit::Group::of(group).into()),
            line: site_pace.line,
            node: None,
            observed: self.mode == PaceMode::Observe,
            origin: origin.to_string(),
            pace_seen: self.is_tunnel().then_some(false),
            prev: String::new(),
            profile: audit::Profile::of(self.known.profile()).into(),
            robots: context.summary(self.known, None).record.clone(),
            seq: 0,
            source: site_pace.record.as_str().to_owned(),
            text: self.line(),
            time: context.now(),
        }
    }

    /// The line as written.
    fn line(&self) -> String {
        let dialect = &self.known.profile().dialect;
        let line = robots::lines(&self.copy.snapshot.body, dialect)
            .find(|(number, _)| *number == self.site_pace.line);
        Record::pattern(line.map(|(_, text)| text).unwrap_or_default().trim_ascii())
    }

    fn evidence(&self) -> Vec<Blob> {
        blobs(self.known)
    }
}

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The time that the client prefers to wait at most. The first counts (§2).
pub fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let fields = headers.get_all(&PREFER).iter().filter_map(|value| value.to_str().ok());
    let preferences = fields.flat_map(|value| value.split(','));
    let mut waits = preferences.filter_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("wait").then(|| http_time::seconds(value))
    });
    waits.next().flatten()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_first_wait_of_a_request_is_read() {
        for (value, expected) in [
            ("wait=5", Some(5)),
            ("respond-async, Wait=\"7\"", Some(7)),
            ("wait = 3; x=y, wait=9", Some(3)),
            ("wait", None),
            ("wait=soon, wait=2", None),
            ("waits=2", None),
            ("", None),
        ] {
            let headers = [(PREFER, HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(preferred_wait(&headers), expected.map(Duration::from_secs), "{value}");
        }
        assert_eq!(preferred_wait(&HeaderMap::new()), None);
    }
}
