//! From the settings, what each module below is made with.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::rules::{AgentRule, Exemption};
use super::settings::Settings;
use super::values::{FetchAs, Via};
use super::words::ProfileName;
use crate::policy::exemption::{self, Exemptions, Paths};
use crate::policy::profile::Profile;
use crate::{egress, fetch, proxy, store};

/// What a fetch may take beyond its own deadline until those who wait for it are told.
const FETCH_GRACE: Duration = Duration::from_millis(500);

impl Settings {
    /// How a robots.txt is fetched.
    pub fn fetch(&self) -> fetch::Config {
        let fetch_as = match &self.robots.fetch_as {
            FetchAs::Client => None,
            FetchAs::Agent(agent) => Some(HeaderValue::from_str(agent).expect("a User-Agent was checked")),
        };
        fetch::Config { fetch_as, timeout: self.robots.fetch_timeout, max_size: octets(self.robots.max_size) }
    }

    /// How much is known of how many origins.
    pub fn store(&self) -> store::Config {
        store::Config {
            entries_max: NonZeroUsize::new(self.robots.cache_entries).expect("a count was checked"),
            bytes_max: octets(self.robots.cache_size),
            wait: self.robots.fetch_timeout + FETCH_GRACE,
            ..store::Config::default()
        }
    }

    /// The way out.
    pub fn egress(&self) -> egress::Config {
        egress::Config {
            connect_timeout: self.egress.connect_timeout,
            response_timeout: self.egress.response_timeout,
            body_idle_timeout: self.limits.body_idle_timeout,
            idle_timeout: self.egress.idle_timeout,
            max_per_origin: self.egress.max_per_origin,
            max_idle: self.egress.max_idle,
            max_header_bytes: octets(self.limits.max_header_bytes),
            max_headers: self.limits.max_headers,
        }
    }

    /// Our name in `Via`, with the mark by which this process knows itself again.
    pub fn via(&self, mark: String) -> proxy::Via {
        let pseudonym = match &self.egress.via {
            Via::Off => None,
            Via::As(name) => Some(name.clone()),
        };
        proxy::Via::new(pseudonym, mark)
    }

    /// How long a client may take.
    pub fn deadlines(&self) -> proxy::Deadlines {
        proxy::Deadlines {
            idle: self.limits.idle_timeout,
            head: self.limits.header_timeout,
            write: self.limits.body_idle_timeout,
        }
    }

    /// What holds for whom, and where.
    pub fn rules(&self) -> proxy::Rules {
        let of_origin = |rule: &super::OriginRule| {
            let ours =
                proxy::OriginRule { mode: rule.mode.map(Into::into), profile: self.shared(rule.profile) };
            (rule.origin.clone(), ours)
        };
        proxy::Rules {
            profile: Arc::new(self.profile(self.robots.profile)),
            mode: self.robots.mode.into(),
            agent_required: self.agents.require,
            agents: self.agents.rules.iter().map(|rule| self.agent_rule(rule)).collect(),
            origins: self.origins.iter().map(of_origin).collect(),
            exemptions: Exemptions::new(self.exemptions.iter().map(as_policy).collect()),
            deny_status: self.deny.status,
            unreachable_status: self.deny.unreachable_status,
            serves_robots_txt: self.robots.serve_cached,
        }
    }

    fn agent_rule(&self, rule: &AgentRule) -> proxy::AgentRule {
        proxy::AgentRule {
            matches: rule.matches.clone(),
            token: rule.token.as_ref().map(ToString::to_string),
            mode: rule.mode.map(Into::into),
            profile: self.shared(rule.profile),
            deny_status: rule.deny_status,
        }
    }

    fn shared(&self, profile: Option<ProfileName>) -> Option<Arc<Profile>> {
        profile.map(|name| Arc::new(self.profile(name)))
    }
}

fn as_policy(exemption: &Exemption) -> exemption::Exemption {
    exemption::Exemption {
        origin: exemption.origin.clone(),
        paths: Paths::new(&exemption.paths).expect("the patterns were checked"),
        agents: exemption.agents.iter().map(ToString::to_string).collect(),
        by: exemption.by.clone(),
        reason: exemption.reason.clone(),
        ticket: exemption.ticket.clone(),
        until: exemption.until,
    }
}

/// A size as the machine can address it.
fn octets(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
