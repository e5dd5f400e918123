//! The operator's own word over a robots.txt: written permission of a site, told as data.
//!
//! An exemption names who answers for it, why, and until when; after that moment it no longer
//! applies, whether or not anybody removed it. Every decision taken under one is recorded.

use crate::moment::Moment;
use crate::origin::{Host, Origin, Scheme, UrlError, split_url};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemption {
    pub name: String,
    pub origin: OriginPattern,
    /// Beginnings of paths; none: the whole origin.
    pub paths: Vec<String>,
    /// Product tokens, in any case; none: every agent.
    pub agents: Vec<String>,
    pub by: String,
    pub reason: String,
    pub ticket: Option<String>,
    pub until: Moment,
}

/// One origin, or the hosts below a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPattern {
    Exact(Origin),
    /// `*.example.com`: its subdomains at the default ports of http and https, not itself.
    Below(Box<str>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions(Vec<Exemption>);

impl OriginPattern {
    /// Reads `https://example.com`, `http://example.com:8080` or `*.example.com`.
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
            origin if origin.port() != Scheme::Https.default_port() => Err(UrlError::HostName(text.into())),
            origin => match origin.host() {
                Host::Name(name) => Ok(Self::Below(name.clone())),
                Host::V4(_) | Host::V6(_) => Err(UrlError::HostName(text.into())),
            },
        }
    }

    pub fn matches(&self, origin: &Origin) -> bool {
        match self {
            Self::Exact(exact) => exact == origin,
            Self::Below(parent) => {
                let is_below = match origin.host() {
                    Host::Name(name) => is_below(name, parent),
                    Host::V4(_) | Host::V6(_) => false,
                };
                is_below && origin.port() == origin.scheme().default_port()
            }
        }
    }
}

impl Exemption {
    fn applies(&self, origin: &Origin, path: &[u8], agent: Option<&str>, now: Moment) -> bool {
        now < self.until
            && self.origin.matches(origin)
            && (self.paths.is_empty() || self.paths.iter().any(|head| path.starts_with(head.as_bytes())))
            && (self.agents.is_empty()
                || agent.is_some_and(|token| self.agents.iter().any(|name| name.eq_ignore_ascii_case(token))))
    }
}

impl Exemptions {
    pub const fn new(exemptions: Vec<Exemption>) -> Self {
        Self(exemptions)
    }

    /// The first exemption that applies. `path` is the normalised path that the rules are compared
    /// with, dot segments removed: `/open/../closed` is not under `/open`.
    pub fn find(&self, origin: &Origin, path: &[u8], agent: Option<&str>, now: Moment) -> Option<&Exemption> {
        self.0.iter().find(|exemption| exemption.applies(origin, path, agent, now))
    }

    /// Those whose time is over, to be told at start.
    pub fn expired(&self, now: Moment) -> impl Iterator<Item = &Exemption> {
        self.0.iter().filter(move |exemption| exemption.until <= now)
    }
}

/// Compared by labels: `notexample.com` is not below `example.com`.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}
