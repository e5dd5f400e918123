//! The notice of changed settings.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta_event::SettingsEvent;
use super::node::Node;
use crate::types::timestamp::Timestamp;

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

/// Why the settings were read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadTrigger {
    /// A file that is watched has changed.
    File,
    /// SIGHUP.
    Hup,
}

impl fmt::Display for ReloadTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file has changed",
            Self::Hup => "SIGHUP",
        })
    }
}
