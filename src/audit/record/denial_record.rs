//! One record: which request of which client was denied (or exempted, observed, tunnelled), by
//! which rule of which version of which robots.txt. The names of the members are a public
//! interface. They are declared and written in alphabetical order, which makes a line its own
//! canonical form (RFC 8785 §3.2.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Node;
use super::client::Client;
use super::event::{AgentSource, AllowedEvent, AllowedReason, Event, PacedEvent};
use super::robots_record::SharedRobots;
use crate::audit::{RECORD_PATTERN_BYTES_MAX, RECORD_TEXT_BYTES_MAX, RECORD_URL_BYTES_MAX};
use crate::policy::decision::SelectedGroup;
use crate::policy::reason::Reason;
use crate::policy::{exemption, profile};
use crate::robots;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The line of a request that robots.txt, or the lack of one, allows. It is no record: it has the members of one,
/// with an event and reasons of its own.
pub type Allowed = Box<Record<AllowedEvent, AllowedReason>>;

/// The data of a record's line. Texts from outside are set with [`Record::url`], [`Record::text`]
/// and [`Record::pattern`], which bound and escape them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<E = Event, R = Reason> {
    /// The product token.
    pub agent: Option<String>,
    pub agent_source: AgentSource,
    pub client: Client,
    pub event: E,
    pub exemption: Option<Exemption>,
    /// The group that applied.
    pub group: Option<Group>,
    /// ULID; the same as in the response. See [`new_id`].
    pub id: String,
    pub method: String,
    /// The proxy that wrote it (`audit.node`); the writer fills it in. Left out in records of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub origin: String,
    /// False of a tunnel to an origin whose requests are a delay apart: those inside it are not
    /// held. Left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_seen: Option<bool>,
    /// False where only the host was known.
    pub path_seen: bool,
    /// SHA-256 of the line before, in hexadecimal; the writer fills it in.
    pub prev: String,
    pub profile: Profile,
    pub reason: R,
    pub robots: Option<SharedRobots>,
    pub rule: Option<Rule>,
    /// The place in the log: counts from 1, without gaps, over restarts too; the writer fills it
    /// in.
    pub seq: u64,
    /// The setting by which the mode is `observe`, by its dotted key, where the request was forwarded for that. Left
    /// out elsewhere, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// The name in the client's TLS handshake (RFC 6066 §3), where it is why a tunnel was refused;
    /// left out where the handshake had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// The trace that the request belongs to, by its `traceparent` header; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// As requested, and so as it was judged and sent.
    pub url: String,
    /// As requested, where path or query had bytes that no URL has as themselves: `url` has them
    /// percent-encoded. Left out where they had none, as in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_as_received: Option<String>,
    /// The identification string.
    pub user_agent: Option<String>,
}

/// The exemption that allowed what robots.txt disallows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exemption {
    pub by: String,
    pub reason: String,
    pub ticket: Option<String>,
    #[serde(with = "super::time")]
    pub until: Timestamp,
}

impl Exemption {
    /// As the settings have it.
    pub fn of(exemption: &exemption::Exemption) -> Self {
        Self {
            by: exemption.by.clone(),
            reason: exemption.reason.clone(),
            ticket: exemption.ticket.clone(),
            until: exemption.until,
        }
    }
}

/// A group of the robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The user-agent line that names it, 1-based.
    pub line: u32,
    /// As written in the user-agent line.
    pub token: String,
}

/// The dialect in which robots.txt was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    /// The settings by which it differs from its row in the table, by their names.
    pub settings: BTreeMap<String, String>,
    /// The version of the table of profiles.
    pub version: u32,
}

/// A rule of the robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// `allow` or `disallow`.
    pub directive: String,
    /// Its line, 1-based.
    pub line: u32,
    /// As written.
    pub pattern: String,
    /// What was changed in the path for this rule to decide on it, in the order in which it was:
    /// `decoded` (as often as it was), `backslashes_turned`, `parameters_removed`,
    /// `slashes_merged`, `dot_segments_removed`, `case_ignored`. Left out where the path decided as
    /// it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_as: Vec<String>,
}

impl Profile {
    /// The name and version of `profile`, and what is special about it.
    pub fn of(profile: &profile::Profile) -> Self {
        Self {
            name: profile.name.to_owned(),
            settings: profile::changes(profile),
            version: profile::VERSION,
        }
    }
}

impl Group {
    /// As a decision names it, its token bounded: a client may call itself what a file of its own
    /// has.
    pub fn of(group: &SelectedGroup<'_>) -> Self {
        Self { line: group.line, token: Record::text(group.name.as_bytes()) }
    }
}

impl Rule {
    /// As a decision names it, its pattern bounded and escaped.
    pub fn of(rule: &robots::Rule<'_>) -> Self {
        Self {
            directive: rule.directive.to_string(),
            line: rule.line,
            pattern: Record::pattern(rule.pattern),
            read_as: rule.read_as.words().map(str::to_owned).collect(),
        }
    }
}

/// What was changed in a path ([`Rule::read_as`]), for a sentence: ", with the path read as
/// decoded, slashes merged". Nothing, where nothing was.
pub fn read_as_clause(read_as: &[String]) -> String {
    match read_as {
        [] => String::new(),
        words => format!(", with the path read as {}", words.join(", ").replace('_', " ")),
    }
}

impl Record {
    /// Whether it follows from the robots.txt, or from the lack of it: its evidence decides it
    /// again.
    pub fn is_of_robots(&self) -> bool {
        // What was not decided although there are rules took too many steps.
        self.reason.is_of_robots() || self.reason == Reason::Undecided && self.group.is_some()
    }

    /// A URL from outside, bounded and escaped.
    pub fn url(bytes: &[u8]) -> String {
        sanitize::url(bytes, RECORD_URL_BYTES_MAX)
    }

    /// A User-Agent, a method or a token from outside, bounded and escaped.
    pub fn text(bytes: &[u8]) -> String {
        sanitize::text(bytes, RECORD_TEXT_BYTES_MAX)
    }

    /// A path pattern from a robots.txt, bounded and escaped.
    pub fn pattern(bytes: &[u8]) -> String {
        sanitize::text(bytes, RECORD_PATTERN_BYTES_MAX)
    }
}

/// A new identifier, in the order of time to the millisecond and random beyond.
pub fn new_id(now: Timestamp) -> String {
    let date = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(now.millis());
    ulid::Ulid::from_datetime(date).to_string()
}

/// Requests of one group at one origin are kept a delay apart, because a line of the robots.txt asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// The product token of the request that was the first of the day.
    pub agent: Option<String>,
    /// The line asks for more than is kept (`pace.max_crawl_delay`, or the profile's bound).
    pub clamped: bool,
    /// What is kept between two starts.
    pub delay_ms: u64,
    pub event: PacedEvent,
    /// By which the delay is another than the line asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exemption: Option<Box<PaceExemption>>,
    /// The group that applied; none where a record outside of all groups did.
    pub group: Option<Box<Group>>,
    /// The line of the record in robots.txt, 1-based.
    pub line: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The waits are computed, and no request waits (`pace.mode = "observe"`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    pub origin: String,
    /// False of a tunnel: the requests inside it are not held. Left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_seen: Option<bool>,
    pub prev: String,
    pub profile: Box<Profile>,
    pub robots: SharedRobots,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// `crawl_delay` or `request_rate`.
    pub source: String,
    /// The line as written.
    pub text: String,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// An exemption with a delay of its own (`crawl_delay`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaceExemption {
    pub by: String,
    pub ticket: Option<String>,
    #[serde(with = "super::time")]
    pub until: Timestamp,
    /// Its reason.
    pub why: String,
}

impl PaceExemption {
    /// As the settings have it.
    pub fn of(exemption: &exemption::Exemption) -> Self {
        let exemption::Exemption { by, ticket, until, reason, .. } = exemption;
        Self { by: by.clone(), ticket: ticket.clone(), until: *until, why: reason.clone() }
    }
}
