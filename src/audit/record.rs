//! One record: what was refused to whom, by which rule of which version of which robots.txt. The
//! names and the order of the fields are a public interface; their text is a snapshot in the tests.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::words::{AgentSource, Event, Reason, RobotsStatus};
use crate::limits::{RECORD_PATTERN_OCTETS_MAX, RECORD_TEXT_OCTETS_MAX, RECORD_URL_OCTETS_MAX};
use crate::moment::Moment;
use crate::policy::profile;
use crate::text;

/// What the writer makes a line of. Texts that strangers wrote are put in with [`Record::url`],
/// [`Record::text`] and [`Record::pattern`], which bound them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// ULID; the same as in the response. See [`new_id`].
    pub id: String,
    #[serde(with = "super::time")]
    pub time: Moment,
    pub event: Event,
    pub reason: Reason,
    pub client: Client,
    pub method: String,
    /// As requested.
    pub url: String,
    pub origin: String,
    /// The identification string.
    pub user_agent: Option<String>,
    /// The product token.
    pub agent: Option<String>,
    pub agent_source: AgentSource,
    pub profile: Profile,
    /// The group that applied.
    pub group: Option<Group>,
    pub rule: Option<Rule>,
    pub robots: Option<Robots>,
    pub exemption: Option<Exemption>,
    /// False where only the host was known.
    pub path_seen: bool,
}

/// A record in its place: what one line of the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub record: Record,
    /// Counts from 1, without gaps, over restarts too.
    pub seq: u64,
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub address: IpAddr,
}

/// The dialect in which robots.txt was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    pub version: u32,
}

/// A group of the robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// As written in the user-agent line.
    pub token: String,
    pub line: u32,
}

/// A rule of the robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub line: u32,
    /// `allow` or `disallow`.
    pub directive: String,
    /// As written.
    pub pattern: String,
}

/// The robots.txt that the decision rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Robots {
    pub url: String,
    /// Where redirects led; the same as `url` without any.
    pub url_reached: Option<String>,
    /// Of the last answer; none where none came.
    pub status: Option<u16>,
    /// Of the body, in hexadecimal.
    pub sha256: Option<String>,
    #[serde(with = "super::time::option")]
    pub fetched_at: Option<Moment>,
    pub state: RobotsStatus,
    /// Why there is no file, in words; none where there is one.
    pub cause: Option<String>,
    /// Since when it is in that state.
    #[serde(with = "super::time::option")]
    pub since: Option<Moment>,
    #[serde(with = "super::time::option")]
    pub next_try: Option<Moment>,
}

/// Who allowed what robots.txt disallows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exemption {
    pub by: String,
    pub reason: String,
    pub ticket: Option<String>,
    #[serde(with = "super::time")]
    pub until: Moment,
}

impl Profile {
    /// The name and version of `profile`.
    pub fn of(profile: &profile::Profile) -> Self {
        Self { name: profile.name.to_owned(), version: profile::VERSION }
    }
}

impl Record {
    /// A URL from outside, bounded and escaped.
    pub fn url(octets: &[u8]) -> String {
        text::url(octets, RECORD_URL_OCTETS_MAX)
    }

    /// A User-Agent, a method or a token from outside, bounded and escaped.
    pub fn text(octets: &[u8]) -> String {
        text::text(octets, RECORD_TEXT_OCTETS_MAX)
    }

    /// A path pattern from a robots.txt, bounded and escaped.
    pub fn pattern(octets: &[u8]) -> String {
        text::text(octets, RECORD_PATTERN_OCTETS_MAX)
    }
}

/// A new identifier, in the order of time to the millisecond and random beyond.
pub fn new_id(now: Moment) -> String {
    let date = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(now.millis());
    ulid::Ulid::from_datetime(date).to_string()
}
