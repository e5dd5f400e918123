//! The conditions of a filter that are more than a text or a pattern.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::audit::read::raw_record::RawRecord;
use crate::types::origin::host::Glob;
use crate::types::origin::{Origin, Scheme, UrlError, split_url};

/// An origin, or the hosts of origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Origin(Origin),
    /// With any scheme, and any port unless one is given.
    Host {
        host: Glob,
        port: Option<u16>,
    },
}

/// Why a text names no origins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    #[error("an origin ends after host and port: write {0}; --url takes whole URLs")]
    Path(Origin),
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl Place {
    /// Reads `https://example.com`, `example.com`, `example.com:8080`, `*.example.com`.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        if text.contains("://") {
            return match split_url(text.as_bytes())? {
                (origin, rest) if *rest == *b"/" => Ok(Self::Origin(origin)),
                // Without its path it would stand for more than was meant.
                (origin, _) => Err(PlaceError::Path(origin)),
            };
        }
        if !text.contains('*') {
            let has_port = text.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            let origin = Origin::from_authority(Scheme::Https, text)?;
            let host = Glob::new(&origin.host().to_string());
            return Ok(Self::Host { host, port: has_port.then(|| origin.port()) });
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((host, port)) => {
                (host, Some(port.parse().map_err(|_| UrlError::Port(port.into()))?))
            }
        };
        Ok(Self::Host { host: Glob::new(host.trim_end_matches('.')), port })
    }

    /// `origin` as a record has it.
    pub(super) fn covers(&self, origin: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        match self {
            Self::Origin(wanted) => {
                scheme == wanted.scheme().as_str() && authority == wanted.authority()
            }
            Self::Host { host, port } => {
                let (name, written) = split_port(authority);
                let default = if scheme == Scheme::Http.as_str() { "80" } else { "443" };
                host.matches(name.as_bytes())
                    && port.is_none_or(|port| written.unwrap_or(default).parse() == Ok(port))
            }
        }
    }
}

/// Of an authority in normal form: an IPv6 address has brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// A rule by its line or by its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    Line(u32),
    Pattern(String),
}

impl Rule {
    /// A line number, or a pattern as it is written in the file.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Pattern(text.into()), Self::Line)
    }

    pub(super) fn is(&self, raw: &RawRecord<'_>) -> bool {
        match self {
            Self::Line(line) => raw.rule_line() == Some(*line),
            Self::Pattern(pattern) => raw.rule_pattern().is_some_and(|found| found == *pattern),
        }
    }
}

/// The clients whose records are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    Block(IpNet),
    Name(String),
}

impl Client {
    /// An address, a block of them, or a name.
    pub fn parse(text: &str) -> Self {
        let block = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        block.map_or_else(|_| Self::Name(text.into()), Self::Block)
    }

    pub(super) fn is(&self, raw: &RawRecord<'_>) -> bool {
        match self {
            Self::Name(name) => raw.client_name().is_some_and(|found| found == *name),
            Self::Block(block) => {
                let address = raw.client_address().and_then(|address| address.parse().ok());
                address.is_some_and(|address: IpAddr| block.contains(&address.to_canonical()))
            }
        }
    }
}

/// A dialect of robots.txt, in one version or in any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    /// The version of the table of profiles; any if absent.
    pub version: Option<u32>,
}

impl Profile {
    pub(super) fn is(&self, raw: &RawRecord<'_>) -> bool {
        raw.profile_name().is_some_and(|name| name == *self.name)
            && self.version.is_none_or(|version| raw.profile_version() == Some(version))
    }
}
