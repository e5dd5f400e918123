//! The rules of the operator: which of them apply to an agent and an origin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::audit::{AgentSource, AllowedLines};
use crate::clients::User;
use crate::pace::{self, PaceMode};
pub use crate::policy::Mode;
use crate::policy::exemption::Exemptions;
use crate::policy::profile::Profile;
use crate::types::agent::{Token, product_token};
use crate::types::origin::Origin;
use crate::types::origin::host::Glob;
use crate::types::words::words;

/// The operator's settings for decisions.
#[derive(Clone, Debug)]
pub struct Rules {
    pub profile: Arc<Profile>,
    pub mode: Mode,
    pub agent_required: bool,
    /// The first that matches applies.
    pub agents: Vec<AgentRule>,
    pub origins: HashMap<Origin, OriginRule>,
    pub exemptions: Exemptions,
    pub deny_status: StatusCode,
    pub unreachable_status: StatusCode,
    /// Of a request that would wait too long.
    pub pace_status: StatusCode,
    pub pace: pace::Config,
    /// Of which allowed requests the log has a line.
    pub allowed_lines: AllowedLines,
}

/// Settings for the agents that a pattern matches; `None` leaves one to the origin or the default.
#[derive(Clone, Debug)]
pub struct AgentRule {
    /// A pattern over the whole User-Agent.
    pub matches: Glob,
    pub token: Option<Token>,
    pub mode: Option<Mode>,
    pub profile: Option<Arc<Profile>>,
    pub deny_status: Option<StatusCode>,
    pub pace: Option<PaceMode>,
    /// The longest that a request waits for its turn, if that is less than for all.
    pub max_wait: Option<Duration>,
    pub pace_status: Option<StatusCode>,
}

/// How an agent is paced; `None` leaves it to the origin or the default.
#[derive(Clone, Copy, Debug)]
pub struct AgentPace {
    pub mode: Option<PaceMode>,
    /// The longest that a request waits for its turn.
    pub max_wait: Option<Duration>,
    pub status: StatusCode,
}

/// Settings for one origin; `None` leaves one to the default.
#[derive(Clone, Debug)]
pub struct OriginRule {
    pub mode: Option<Mode>,
    pub profile: Option<Arc<Profile>>,
}

words! {
    /// Treatment of a host with some disallowed paths where paths are not seen (`https.mixed`).
    #[derive(Default)]
    pub enum MixedHosts {
        #[default]
        Refuse = "refuse",
        Tunnel = "tunnel",
    }
}

/// The agent of a request: its `User-Agent` as sent, the product token and the source of it, and
/// the settings that apply.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    pub identification: Option<&'a HeaderValue>,
    pub token: Option<&'a str>,
    pub source: AgentSource,
    rule: Option<&'a AgentRule>,
    user: Option<&'a User>,
}

impl Rules {
    /// Every profile that a decision may be made under.
    pub fn profiles(&self) -> impl Iterator<Item = &Arc<Profile>> {
        let of_agents = self.agents.iter().filter_map(|rule| rule.profile.as_ref());
        let of_origins = self.origins.values().filter_map(|rule| rule.profile.as_ref());
        std::iter::once(&self.profile).chain(of_agents).chain(of_origins)
    }

    /// The agent of a request. The token of a configured rule takes precedence over that of the
    /// `User-Agent`. Without a `User-Agent` the token is the user's; without one there either, only
    /// the rules for `*` apply.
    pub fn agent<'a>(
        &'a self,
        user_agent: Option<&'a HeaderValue>,
        user: Option<&'a User>,
    ) -> Agent<'a> {
        let Some(identification) = user_agent.filter(|value| !value.is_empty()) else {
            let token = user.and_then(|user| user.agent.as_ref()).map(Token::as_str);
            let source =
                if token.is_some() { AgentSource::Credentials } else { AgentSource::Absent };
            return Agent { identification: None, token, source, rule: None, user };
        };
        let bytes = identification.as_bytes();
        let rule = self.agents.iter().find(|rule| rule.matches.matches(bytes));
        let (token, source) = match rule.and_then(|rule| rule.token.as_ref()) {
            Some(token) => (Some(token.as_str()), AgentSource::Configured),
            None => (product_token(bytes), AgentSource::UserAgent),
        };
        Agent { identification: Some(identification), token, source, rule, user }
    }

    /// The profile that applies to `agent` at `origin`: the agent's, the origin's or the default.
    pub fn profile<'a>(&'a self, agent: &Agent<'a>, origin: &Origin) -> &'a Arc<Profile> {
        let of_agent = agent.rule.and_then(|rule| rule.profile.as_ref());
        let of_origin = || self.origins.get(origin).and_then(|rule| rule.profile.as_ref());
        of_agent.or_else(of_origin).unwrap_or(&self.profile)
    }

    /// The mode that applies to `agent` at `origin`: the user's, the agent's, the origin's or the
    /// default. The user's comes first: any client can send a `User-Agent`, but not a password.
    pub fn mode(&self, agent: &Agent<'_>, origin: &Origin) -> Mode {
        let of_user = agent.user.and_then(|user| user.mode);
        let of_agent = || agent.rule.and_then(|rule| rule.mode);
        let of_origin = || self.origins.get(origin).and_then(|rule| rule.mode);
        of_user.or_else(of_agent).or_else(of_origin).unwrap_or(self.mode)
    }

    /// The setting that gives the mode of `agent` at `origin`, by its dotted key: of lists, with the place.
    pub fn mode_setting(&self, agent: &Agent<'_>, origin: &Origin) -> String {
        let is_set = |mode: Option<Mode>| mode.is_some();
        let of_agent = agent.rule.filter(|rule| is_set(rule.mode));
        let place =
            of_agent.and_then(|rule| self.agents.iter().position(|it| std::ptr::eq(it, rule)));
        match place {
            _ if agent.user.is_some_and(|user| is_set(user.mode)) => "clients.users_file".into(),
            Some(place) => format!("agents.rules[{place}].mode"),
            None if self.origins.get(origin).is_some_and(|rule| is_set(rule.mode)) => {
                "origins.mode".into()
            }
            None => "robots.mode".into(),
        }
    }

    /// How `agent` is paced: in a mode of its own, for a time of its own at most, and with what
    /// status it is refused.
    pub fn pace<'a>(&'a self, agent: &Agent<'a>) -> AgentPace {
        let (user, rule) = (agent.user, agent.rule);
        let max_wait = user.and_then(|user| user.max_wait);
        let status = user.and_then(|user| user.pace_status);
        AgentPace {
            mode: rule.and_then(|rule| rule.pace),
            max_wait: max_wait.or_else(|| rule?.max_wait),
            status: status.or_else(|| rule?.pace_status).unwrap_or(self.pace_status),
        }
    }

    /// The status of a denial; `unreachable` when it rests on a robots.txt that cannot be fetched.
    pub fn status(&self, agent: &Agent<'_>, unreachable: bool) -> StatusCode {
        let general = if unreachable { self.unreachable_status } else { self.deny_status };
        let of_user = agent.user.and_then(|user| user.deny_status);
        of_user.or_else(|| agent.rule.and_then(|rule| rule.deny_status)).unwrap_or(general)
    }
}
