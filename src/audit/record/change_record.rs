//! Notices of changed robots.txt files.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Node;
use super::event::{ChangedEvent, ChangesOmittedEvent, RobotsStatus, SettingsEvent};
use crate::policy::change::Kind;
use crate::types::timestamp::Timestamp;

/// A fetch has brought another file, or another state, for an origin in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// Lines of the file that the one before has not.
    pub added: u64,
    /// The User-Agent of the fetch. Both files were sent to the same agent.
    pub agent_asked: String,
    pub event: ChangedEvent,
    pub from: Box<Side>,
    /// As the profile in force understands both.
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub origin: String,
    pub prev: String,
    /// Lines of the file before that this one has not.
    pub removed: u64,
    pub sampled: SampledRequests,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    pub to: Box<Side>,
    /// By profile; those under which nothing changed are left out.
    pub touched: Vec<Touched>,
}

impl Changed {
    /// The agents concerned, under any profile, in alphabetical order.
    pub fn agents(&self) -> Vec<&str> {
        let all = self.touched.iter().flat_map(|touched| &touched.agents).map(String::as_str);
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The robots.txt before or after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// SHA-256 of how the file came, in hexadecimal; names a piece of evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// Why there is no file, or no newer one, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The file is longer than the size limit; the rest was not downloaded.
    pub cut: bool,
    /// SHA-256 of how the attempt without a file went; names a piece of evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_capture: Option<String>,
    /// SHA-256 of the file, in hexadecimal; names a piece of evidence. Where none can be had, of the last copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// When this file was first fetched or, without one, since when there has been none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::time::option")]
    pub since: Option<Timestamp>,
    pub state: RobotsStatus,
    /// Of the answer; none where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Where redirects led to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_reached: Option<String>,
}

/// What the change does to a sample of the requests that were allowed before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledRequests {
    /// Paths of some that are now denied.
    pub examples: Vec<String>,
    /// How many of the sample are denied now.
    pub now_denied: u64,
    /// How many there are in the sample.
    pub seen: u64,
}

/// The agents concerned under one profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// The agents whose rules changed; `*` stands for every agent that the file does not name.
    pub agents: Vec<String>,
    pub kind: Kind,
    pub profile: String,
}

/// Changes that have no notice of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangesOmitted {
    pub event: ChangesOmittedEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// How many.
    pub omitted: u64,
    /// Where all are of one origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// Since when they are counted.
    #[serde(with = "super::time")]
    pub since: Timestamp,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    pub why: Omission,
}

/// Why changes have no notice of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Omission {
    /// Their origin had as many notices in a day as it may have.
    OriginLimit,
    /// There were as many in an hour as there may be in all.
    TotalLimit,
    /// More came at a time than could be compared.
    Overload,
    /// The notices could not be written.
    Unwritten,
}

/// Other settings hold from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsChanged {
    /// In alphabetical order of their keys.
    pub changes: Vec<Change>,
    /// Settings that name a file whose content has changed; the content is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<String>,
    /// Of all settings in effect from now on: the SHA-256, in hexadecimal, of one JSON object in canonical form
    /// (RFC 8785) that has the value of each by its dotted key.
    pub digest: String,
    pub event: SettingsEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// How many changes before the last share this notice, because there were too many for a notice each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u64>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// The same as `digest`: names a piece of evidence. Left out by earlier versions, which keep none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    pub who: ReloadTrigger,
}

/// One setting that is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its dotted name.
    pub key: String,
    /// Its value; a long one as `{"octets": …, "sha256": …}` of its canonical JSON. null: not set.
    pub new: Value,
    pub old: Value,
}

impl Change {
    /// Whether its value may name clients: their networks, or the file of users.
    pub fn names_clients(&self) -> bool {
        self.key.starts_with("clients.")
    }
}

/// Why the settings were read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadTrigger {
    /// `courtesy reload`.
    Command,
    /// A file that is watched has changed.
    File,
    /// SIGHUP.
    Hup,
}

impl fmt::Display for ReloadTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "courtesy reload",
            Self::File => "a file has changed",
            Self::Hup => "SIGHUP",
        })
    }
}
