//! Builds the rules of agents and origins.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::rules::{AgentRule, Exemption, OriginRule};
use crate::config::settings::Settings;
use crate::policy::exemption::{self, Exemptions};
use crate::policy::profile::{Profile, ProfileName};
use crate::proxy;
use crate::types::origin::Origin;

impl Settings {
    /// The rules of agents and origins.
    pub fn rules(&self) -> proxy::Rules {
        let mut profiles = Profiles { settings: self, made: HashMap::new() };
        proxy::Rules {
            profile: profiles.named(self.robots.profile),
            mode: self.robots.mode,
            agent_required: self.agents.require,
            agents: self.agents.rules.iter().map(|rule| agent_rule(rule, &mut profiles)).collect(),
            origins: self.origins.iter().map(|rule| origin_rule(rule, &mut profiles)).collect(),
            exemptions: Exemptions::new(self.exemptions.iter().map(as_policy).collect()),
            deny_status: self.deny.status,
            pace_status: self.pace.status,
            pace: self.pace(),
            unreachable_status: self.deny.unreachable_status,
            serves_robots_txt: self.robots.serve_cached,
        }
    }
}

/// One value for each profile in use: the store compares profiles by identity, and would fetch a
/// robots.txt again for an equal one.
struct Profiles<'a> {
    settings: &'a Settings,
    made: HashMap<ProfileName, Arc<Profile>>,
}

impl Profiles<'_> {
    fn named(&mut self, name: ProfileName) -> Arc<Profile> {
        self.made.entry(name).or_insert_with(|| Arc::new(self.settings.profile(name))).clone()
    }
}

fn agent_rule(rule: &AgentRule, profiles: &mut Profiles<'_>) -> proxy::AgentRule {
    proxy::AgentRule {
        matches: rule.matches.clone(),
        token: rule.token.clone(),
        mode: rule.mode,
        profile: rule.profile.map(|name| profiles.named(name)),
        deny_status: rule.deny_status,
        pace: rule.pace,
        max_wait: rule.max_wait,
        pace_status: rule.pace_status,
    }
}

fn origin_rule(rule: &OriginRule, profiles: &mut Profiles<'_>) -> (Origin, proxy::OriginRule) {
    let profile = rule.profile.map(|name| profiles.named(name));
    (rule.origin.clone(), proxy::OriginRule { mode: rule.mode, profile })
}

fn as_policy(exemption: &Exemption) -> exemption::Exemption {
    exemption::Exemption {
        origin: exemption.origin.clone(),
        paths: exemption.paths.clone(),
        agents: exemption.agents.clone(),
        by: exemption.by.clone(),
        reason: exemption.reason.clone(),
        ticket: exemption.ticket.clone(),
        until: exemption.until,
        crawl_delay: exemption.crawl_delay,
    }
}
