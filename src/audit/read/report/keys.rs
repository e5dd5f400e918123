//! The keys of counts. The names of the fields are those of the report's JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::tally::Key;
use super::time_member::print_moment;
use crate::audit::{Exemption, Paced, Profile, Record};
use crate::types::timestamp::Timestamp;

macro_rules! keys {
    ($($(#[$doc:meta])+ $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)? })+) => {$(
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),+ }
    )+};
}

keys! {
    /// Of one origin.
    OriginKey { origin: String }
    /// Of one product token; none where the User-Agent has none.
    AgentKey { agent: Option<String> }
    /// Of one rule in one version of a file.
    RuleKey {
        origin: String,
        line: u32,
        directive: String,
        pattern: String,
        /// Of the file.
        sha256: Option<String>,
    }
    /// Of one client: its name if it has authenticated, else its address.
    ClientKey { client: Option<String>, address: Option<IpAddr> }
    /// Of one proxy; none where the record does not name it, as in logs of earlier versions.
    NodeKey { node: Option<String> }
    /// Of one dialect.
    ProfileKey { profile: String, version: u32, settings: BTreeMap<String, String> }
    /// Of one line of a robots.txt that asks for a delay.
    PacedKey {
        origin: String,
        /// The group that it applied to, as written; none: all agents without a group of their own.
        group: Option<String>,
        line: u32,
        /// The line as written.
        text: String,
        delay_ms: u64,
        source: String,
        clamped: bool,
        observed: bool,
        /// A tunnel: the requests inside it are not held.
        not_seen: bool,
        /// The name behind the exemption that changes the delay.
        exempted_by: Option<String>,
    }
    /// Of one exemption on one origin.
    ExemptionKey {
        by: String,
        reason: String,
        ticket: Option<String>,
        #[serde(serialize_with = "print_moment")]
        until: Timestamp,
        origin: String,
    }
}

impl OriginKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { origin: record.origin.clone() }
    }
}

impl AgentKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { agent: record.agent.clone() }
    }
}

impl RuleKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Option<Self> {
        record.rule.as_ref().map(|rule| Self {
            origin: record.origin.clone(),
            line: rule.line,
            directive: rule.directive.clone(),
            pattern: rule.pattern.clone(),
            sha256: record.robots.as_ref().and_then(|robots| robots.sha256.clone()),
        })
    }
}

impl ClientKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        match &record.client.name {
            Some(name) => Self { client: Some(name.clone()), address: None },
            None => Self { client: None, address: Some(record.client.address) },
        }
    }
}

impl NodeKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { node: record.node.as_ref().map(ToString::to_string) }
    }
}

impl ProfileKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        let Profile { name, settings, version } = &record.profile;
        Self { profile: name.clone(), version: *version, settings: settings.clone() }
    }
}

impl PacedKey {
    /// The key of `paced`.
    pub fn of(paced: &Paced) -> Self {
        Self {
            origin: paced.origin.clone(),
            group: paced.group.as_ref().map(|group| group.token.clone()),
            line: paced.line,
            text: paced.text.clone(),
            delay_ms: paced.delay_ms,
            source: paced.source.clone(),
            clamped: paced.clamped,
            observed: paced.observed,
            not_seen: paced.pace_seen == Some(false),
            exempted_by: paced.exemption.as_ref().map(|exemption| exemption.by.clone()),
        }
    }
}

impl ExemptionKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Option<Self> {
        let Exemption { by, reason, ticket, until } = record.exemption.clone()?;
        Some(Self { by, reason, ticket, until, origin: record.origin.clone() })
    }
}

impl Key for OriginKey {
    fn bytes(&self) -> usize {
        self.origin.len()
    }
}

impl Key for AgentKey {
    fn bytes(&self) -> usize {
        length(&self.agent)
    }
}

impl Key for RuleKey {
    fn bytes(&self) -> usize {
        self.origin.len() + self.directive.len() + self.pattern.len() + length(&self.sha256)
    }
}

impl Key for ClientKey {
    fn bytes(&self) -> usize {
        length(&self.client)
    }
}

impl Key for NodeKey {
    fn bytes(&self) -> usize {
        length(&self.node)
    }
}

impl Key for ProfileKey {
    fn bytes(&self) -> usize {
        let settings = self.settings.iter().map(|(name, value)| name.len() + value.len());
        self.profile.len() + settings.sum::<usize>()
    }
}

impl Key for PacedKey {
    fn bytes(&self) -> usize {
        self.origin.len()
            + length(&self.group)
            + self.text.len()
            + self.source.len()
            + length(&self.exempted_by)
    }
}

impl Key for ExemptionKey {
    fn bytes(&self) -> usize {
        self.by.len() + self.reason.len() + length(&self.ticket) + self.origin.len()
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}
