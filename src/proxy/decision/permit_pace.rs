//! What a permit says about the time of its request: what the site asks of the group that applies,
//! and what the operator sets for the agent.

use super::denial_builder::DenialBuilder;
use super::paced_notice::PacedRequest;
use super::rules::AgentPace;
use crate::pace::{self, Visit};
use crate::policy::pace::{AskedPace, asked, closed};
use crate::policy::state::Policy;
use crate::proxy::request::prefer;
use crate::robots::Closed;
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
        let exempted =
            builder.rules.exemptions.crawl_delay(builder.subject.origin(), path, token, now);
        let delay_max = builder.rules.pace.max_crawl_delay;
        let asked = asked(robots, group.as_ref(), profile, delay_max, now);
        if let Some(asked) = asked {
            let origin = builder.subject.origin();
            let mode = agent.mode.unwrap_or_else(|| builder.rules.pace.mode(origin));
            let group = group.as_ref();
            PacedRequest { builder, known, copy, group, asked, exempted, mode }.note(watch);
        }
        let asked = asked.and_then(|asked| match exempted {
            Some((_, delay)) if delay.is_zero() => None,
            Some((_, delay)) => Some(AskedPace { delay, clamped: false, ..asked }),
            None => Some(asked),
        });
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
