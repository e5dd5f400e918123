//! What a permit says about the time of its request: what the site asks of the group that applies,
//! and what the operator sets for the agent.

use std::time::Duration;

use super::denial_builder::DenialBuilder;
use super::paced_notice::PacedRequest;
use super::rules::AgentPace;
use crate::pace::{self, PaceMode, Visit};
use crate::policy::exemption::Exemption;
use crate::policy::pace::{AskedPace, asked, closed};
use crate::policy::state::{Copy, Policy};
use crate::proxy::request::prefer;
use crate::robots::{Closed, Group};
use crate::store::Known;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;
use crate::watch::Watch;
use http::{HeaderMap, StatusCode};
use tokio_util::sync::CancellationToken;

/// What applies to the time of a permitted request.
#[derive(Debug)]
pub struct PermitPace {
    agent: AgentPace,
    site: Option<Box<SitePace>>,
}

/// What the robots.txt asks.
#[derive(Debug)]
struct SitePace {
    group: Box<str>,
    asked: Option<AskedPace>,
    closed: Option<Closed>,
}

impl PermitPace {
    /// For the request of `builder`, at the moment of its decision.
    pub(super) fn of(
        builder: &DenialBuilder<'_>,
        known: &Known,
        policy: &Policy<'_>,
        path: &[u8],
        watch: &Watch,
    ) -> Self {
        let agent = builder.rules.pace(&builder.agent);
        let Policy::Rules(copy) = policy else { return Self { agent, site: None } };
        if !copy.rules.has_pace() {
            return Self { agent, site: None };
        }
        let (token, now) = (builder.agent.token, builder.now());
        let group = copy.rules.group(token);
        let (robots, profile) = (&copy.rules, known.profile());
        let (asked, exempted) = asked_by_site(builder, known, copy, (group.as_ref(), path));
        if let Some(asked) = asked {
            let mode = mode(builder, &agent);
            let group = group.as_ref();
            PacedRequest { builder, known, copy, group, asked, exempted, mode }.note(watch);
        }
        let asked = asked.and_then(|asked| kept(asked, exempted));
        let closed = closed(robots, group.as_ref(), profile, now);
        let group = group.map_or_else(Box::default, |group| group.name().into());
        Self { agent, site: Some(Box::new(SitePace { group, asked, closed })) }
    }

    /// The status of the request if it would wait too long.
    pub const fn status(&self) -> StatusCode {
        self.agent.status
    }

    /// The call for the turn of a request with these headers; `None`: they say nothing about it.
    pub fn call<'a>(
        &'a self,
        origin: &'a Origin,
        client: &'a ClientKey,
        headers: Option<&HeaderMap>,
        shutdown: &'a CancellationToken,
    ) -> pace::Call<'a> {
        let site = self.site.as_deref();
        let preferred = headers.and_then(prefer::wait);
        pace::Call {
            origin,
            client,
            mode: self.agent.mode,
            group: site.map_or("", |site| &site.group),
            asked: site.and_then(|site| site.asked),
            closed: site.and_then(|site| site.closed).map(|closed| (closed.opens_in, closed.line)),
            visit: headers.map_or(Visit::None, |headers| Visit::of(headers, origin.scheme())),
            is_robots_txt: false,
            max_wait: [self.agent.max_wait, preferred].into_iter().flatten().min(),
            shutdown,
        }
    }
}

/// Whether requests to the origin of `builder` are a delay apart.
pub(super) fn has_delay(builder: &DenialBuilder<'_>, known: &Known, policy: &Policy<'_>) -> bool {
    if mode(builder, &builder.rules.pace(&builder.agent)) != PaceMode::Enforce {
        return false;
    }
    let is_own = !builder.rules.pace.delay(builder.subject.origin()).is_zero();
    is_own
        || matches!(policy, Policy::Rules(copy) if {
            let group = copy.rules.group(builder.agent.token);
            let (asked, exempted) = asked_by_site(builder, known, copy, (group.as_ref(), b"/"));
            asked.is_some_and(|asked| kept(asked, exempted).is_some())
        })
}

/// The mode that applies to the agent at the origin.
fn mode(builder: &DenialBuilder<'_>, agent: &AgentPace) -> PaceMode {
    agent.mode.unwrap_or_else(|| builder.rules.pace.mode(builder.subject.origin()))
}

/// What the robots.txt asks of `group`, and the exemption with a delay of its own.
fn asked_by_site<'a>(
    builder: &DenialBuilder<'a>,
    known: &Known,
    copy: &Copy,
    (group, path): (Option<&Group<'_>>, &[u8]),
) -> (Option<AskedPace>, Option<(&'a Exemption, Duration)>) {
    let DenialBuilder { rules, subject, agent, .. } = *builder;
    let (token, now) = (agent.token, builder.now());
    let delay_max = rules.pace.max_crawl_delay;
    (
        asked(&copy.rules, group, known.profile(), delay_max, now),
        rules.exemptions.crawl_delay(subject.origin(), path, token, now),
    )
}

/// The delay that is kept; `None`: none, by an exemption.
fn kept(asked: AskedPace, exempted: Option<(&Exemption, Duration)>) -> Option<AskedPace> {
    match exempted {
        Some((_, delay)) if delay.is_zero() => None,
        Some((_, delay)) => Some(AskedPace { delay, clamped: false, ..asked }),
        None => Some(asked),
    }
}
