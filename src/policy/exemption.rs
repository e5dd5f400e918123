//! The operator's exemptions from robots.txt: a site's written permission, as data.
//!
//! An exemption names who is responsible, the reason, and the expiry; after that time it no longer
//! applies, even if it is still configured. Every decision under one is recorded.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::robots::{Dialect, Path, RobotsTxt};
use crate::types::agent::Token;
use crate::types::origin::{Host, Origin, Scheme, UrlError, split_url};
use crate::types::timestamp::Timestamp;
use crate::types::words::serde_as_text;

/// A permission to fetch despite robots.txt.
#[derive(Clone, Debug)]
pub struct Exemption {
    pub origin: OriginPattern,
    pub paths: Paths,
    /// Product tokens, case-insensitive; empty: every agent.
    pub agents: Vec<Token>,
    pub by: String,
    pub reason: String,
    pub ticket: Option<String>,
    pub until: Timestamp,
    /// The delay between two requests, in place of the one that the robots.txt asks for. An
    /// exemption with it concerns the pace alone: what is disallowed stays so.
    pub crawl_delay: Option<Duration>,
}

/// Path patterns as in a robots.txt; empty: the whole origin. They are compared as rules are, in
/// normal form: `/open/../closed` is not under `/open/`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<PathPattern>", into = "Vec<PathPattern>")]
pub struct Paths {
    patterns: Vec<PathPattern>,
    /// The patterns as rules; `None` if there are none.
    rules: Option<Arc<RobotsTxt>>,
}

/// The path pattern of a rule (RFC 9309 §2.2.2), as `/open/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(String);

/// A text that cannot be the path pattern of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no path pattern: it begins with \"/\" or \"*\" and has no \"#\" and no control \
     characters; write \"/open/\""
)]
pub struct NotAPattern(String);

/// One origin, or the hosts below a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPattern {
    Exact(Origin),
    /// `*.example.com`: its subdomains at the default ports of http and https, without itself.
    Below(Arc<str>),
}

/// All exemptions of the operator.
#[derive(Clone, Debug, Default)]
pub struct Exemptions(Vec<Exemption>);

impl Paths {
    /// The paths that one of `patterns` matches; all paths if there is none.
    pub fn new(patterns: Vec<PathPattern>) -> Self {
        let rules: String = patterns.iter().map(|pattern| format!("allow: {pattern}\n")).collect();
        let file = format!("user-agent: *\n{rules}");
        let parse = || Arc::new(RobotsTxt::parse(file.as_bytes(), &Dialect::RFC9309));
        Self { rules: (!patterns.is_empty()).then(parse), patterns }
    }

    fn cover(&self, path: &[u8]) -> bool {
        let Some(rules) = &self.rules else { return true };
        let path = Path::new(path, rules.dialect());
        rules.group(None).is_some_and(|group| group.rule_for(&path).is_some())
    }
}

impl PartialEq for Paths {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl From<Vec<PathPattern>> for Paths {
    fn from(patterns: Vec<PathPattern>) -> Self {
        Self::new(patterns)
    }
}

impl From<Paths> for Vec<PathPattern> {
    fn from(paths: Paths) -> Self {
        paths.patterns
    }
}

impl FromStr for PathPattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        let cannot_stand = |character: char| character == '#' || character.is_control();
        if text.starts_with(['/', '*']) && !text.contains(cannot_stand) {
            Ok(Self(text.into()))
        } else {
            Err(NotAPattern(text.into()))
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

serde_as_text!(PathPattern);

impl OriginPattern {
    /// Parses `https://example.com`, `http://example.com:8080` or `*.example.com`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let Some(parent) = text.strip_prefix("*.") else {
            let (origin, rest) = split_url(text.as_bytes())?;
            return if *rest == *b"/" {
                Ok(Self::Exact(origin))
            } else {
                Err(UrlError::HostName(text.into()))
            };
        };
        match Origin::from_authority(Scheme::Https, parent)? {
            origin if origin.port() != Scheme::Https.default_port() => {
                Err(UrlError::HostName(text.into()))
            }
            origin => match origin.host() {
                Host::Name(name) => Ok(Self::Below(name.clone())),
                Host::V4(_) | Host::V6(_) => Err(UrlError::HostName(text.into())),
            },
        }
    }

    /// Whether `origin` is one of these.
    pub fn matches(&self, origin: &Origin) -> bool {
        match self {
            Self::Exact(exact) => exact == origin,
            Self::Below(parent) => {
                let is_below = match origin.host() {
                    Host::Name(name) => is_below(name, parent),
                    Host::V4(_) | Host::V6(_) => false,
                };
                let is_web = matches!(origin.scheme(), Scheme::Http | Scheme::Https);
                is_below && is_web && origin.port() == origin.scheme().default_port()
            }
        }
    }
}

impl Exemption {
    fn applies(&self, origin: &Origin, path: &[u8], agent: Option<&str>, now: Timestamp) -> bool {
        now < self.until
            && self.origin.matches(origin)
            && self.paths.cover(path)
            && (self.agents.is_empty()
                || agent.is_some_and(|token| {
                    self.agents.iter().any(|name| name.as_str().eq_ignore_ascii_case(token))
                }))
    }
}

impl Exemptions {
    /// The exemptions, in the order of the settings: the first that applies counts.
    pub const fn new(exemptions: Vec<Exemption>) -> Self {
        Self(exemptions)
    }

    /// The first exemption that applies to `path`, as it was requested.
    pub fn find(
        &self,
        origin: &Origin,
        path: &[u8],
        agent: Option<&str>,
        now: Timestamp,
    ) -> Option<&Exemption> {
        let permits = |exemption: &&Exemption| exemption.crawl_delay.is_none();
        self.0.iter().filter(permits).find(|exemption| exemption.applies(origin, path, agent, now))
    }

    /// The first exemption for `path` that has a `crawl_delay`, and that.
    pub fn crawl_delay(
        &self,
        origin: &Origin,
        path: &[u8],
        agent: Option<&str>,
        now: Timestamp,
    ) -> Option<(&Exemption, Duration)> {
        let applies = |exemption: &&Exemption| exemption.applies(origin, path, agent, now);
        self.0
            .iter()
            .filter(applies)
            .find_map(|exemption| Some((exemption, exemption.crawl_delay?)))
    }

    /// The first exemption of a whole origin. Without a path, one for some paths does not apply.
    pub fn find_for_host(
        &self,
        origin: &Origin,
        agent: Option<&str>,
        now: Timestamp,
    ) -> Option<&Exemption> {
        let whole = |exemption: &&Exemption| {
            exemption.paths.rules.is_none() && exemption.crawl_delay.is_none()
        };
        self.0.iter().filter(whole).find(|exemption| exemption.applies(origin, b"/", agent, now))
    }
}

/// Compared by labels: `notexample.com` is not below `example.com`.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}
