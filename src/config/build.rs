//! The configuration of each module, made of the settings. Each section of `settings/`
//! builds its own part; the functions here put the parts together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::rules::{AgentRule, Exemption, OriginRule};
use super::settings::{Settings, apply_knobs};
use super::units::bytes;
use super::values::NodeName;
use crate::audit::AllowedLines;
use crate::clients::{self, UsersError};
use crate::policy::exemption::{self, Exemptions};
use crate::policy::profile::{Profile, ProfileName};
use crate::store::{self, fetch};
use crate::types::origin::Origin;
use crate::{audit, ca, egress, engine, pace, proxy};

impl Settings {
    /// How a robots.txt is fetched.
    pub fn fetch(&self) -> fetch::Config {
        self.robots.fetch()
    }

    /// When requests go to an origin.
    pub fn pace(&self) -> pace::Config {
        pace::Config {
            max_exchanges: self.egress.max_per_origin,
            drain_timeout: self.limits.drain_timeout,
            away: self.engine.away,
            ..self.pace.build(self.robots.mode, &self.origins)
        }
    }

    /// The bounds of the store.
    pub fn store(&self) -> store::Config {
        self.robots.store()
    }

    /// The directory of the file that processes share; the state directory where there is no other.
    pub fn shared_state_dir(&self) -> PathBuf {
        let dir = self
            .shared_dir
            .clone()
            .or_else(|| engine::shared_dir(&self.state_dir, self.runtime_dir.as_deref()));
        dir.unwrap_or_else(|| self.state_dir.clone())
    }

    /// The directory of the denial records.
    pub fn audit_dir(&self) -> PathBuf {
        self.audit.dir(&self.state_dir)
    }

    /// The configuration of the log of denials.
    pub fn audit(&self) -> audit::Config {
        let node = Some(self.node().as_str().into());
        audit::Config { node, ..self.audit.build(&self.state_dir) }
    }

    /// The name of this proxy in its records: `audit.node`, else `engine.name`, else the host's.
    pub fn node(&self) -> NodeName {
        let of_engine = || self.engine.name.as_deref()?.parse().ok();
        self.audit.node.clone().or_else(of_engine).unwrap_or_else(NodeName::of_host)
    }

    /// The location of the CA: the operator's as set, else that of systemd in the directory
    /// `credentials`, else the generated one in the state directory.
    pub fn ca(&self, credentials: Option<&Path>) -> ca::Source {
        self.https.ca(&self.state_dir, credentials)
    }

    /// The configuration of the egress.
    pub fn egress(&self) -> egress::Config {
        self.egress.build(&self.limits, self.under_run)
    }

    /// How CONNECT is handled.
    pub fn https(&self) -> proxy::Https {
        self.https.build(&self.egress.connect_ports, self.under_run)
    }

    /// The bounds of a client's connection.
    pub fn limits(&self) -> proxy::Limits {
        self.limits.build()
    }

    /// The clients that are permitted. Reads the users from their file.
    pub fn clients(&self) -> Result<clients::Clients, UsersError> {
        self.clients.build()
    }

    /// Bytes that all requests in flight may hold.
    pub fn body_memory(&self) -> usize {
        bytes(self.limits.body_memory)
    }
}

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
            // A run is short, and who runs it wants to see it.
            allowed_lines: self.audit.allowed.unwrap_or(if self.under_run {
                AllowedLines::All
            } else {
                AllowedLines::Counts
            }),
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

impl Settings {
    /// The profile in effect: the named one, with what is set of its knobs.
    pub fn profile(&self, name: ProfileName) -> Profile {
        let mut profile = name.row();
        apply_knobs(&self.robots, &mut profile);
        profile
    }

    /// These settings with all derived values filled in.
    pub(super) fn filled(&self) -> Self {
        let mut filled = self.clone();
        filled.audit.dir = Some(self.audit_dir());
        filled.audit.node = Some(self.node());
        filled
    }
}

#[cfg(test)]
mod profile_tests {
    use super::*;

    #[test]
    fn a_larger_file_is_also_read_further() {
        let mut settings = Settings::default();
        settings.robots.max_size = 1 << 20;
        assert_eq!(settings.profile(ProfileName::Rfc9309).dialect.size_limit, 1 << 20);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::rules::AgentRule;
    use crate::pace::PaceMode;
    use crate::policy::Mode;
    use crate::policy::profile::ProfileName;

    #[test]
    fn a_profile_that_is_used_twice_is_one_value() {
        let rule = AgentRule {
            matches: "*".parse().unwrap(),
            token: None,
            mode: None,
            profile: Some(ProfileName::Rfc9309),
            deny_status: None,
            pace: None,
            max_wait: None,
            pace_status: None,
        };
        let mut settings = Settings::default();
        settings.agents.rules = vec![rule];
        let rules = settings.rules();
        assert!(Arc::ptr_eq(&rules.profile, rules.agents[0].profile.as_ref().unwrap()));
    }

    #[test]
    fn the_defaults_are_those_of_the_modules() {
        let settings = Settings::default();
        assert_eq!(format!("{:?}", settings.fetch()), format!("{:?}", fetch::Config::default()));
        assert_eq!(format!("{:?}", settings.store()), format!("{:?}", store::Config::default()));
    }

    #[test]
    fn an_observing_proxy_holds_no_request_unless_it_is_set_to() {
        for (robots, pace, expected) in [
            (Mode::Enforce, None, PaceMode::Enforce),
            (Mode::Observe, None, PaceMode::Observe),
            (Mode::Observe, Some(PaceMode::Enforce), PaceMode::Enforce),
            (Mode::Enforce, Some(PaceMode::Off), PaceMode::Off),
        ] {
            let mut settings = Settings::default();
            (settings.robots.mode, settings.pace.mode) = (robots, pace);
            assert_eq!(settings.pace().mode, expected, "{robots:?} {pace:?}");
        }
    }
}
