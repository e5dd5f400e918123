//! The member `robots` of a record.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::event::RobotsStatus;
use crate::types::timestamp::Timestamp;

/// The robots.txt that the decision rests on, and what is known of it: enough to decide again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Robots {
    /// The agent that was answered, where the last attempt counts for it alone: its product token, or the
    /// text that is set for all. Left out where it counts for every agent, as in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_as: Option<String>,
    /// SHA-256 of how the file came, in hexadecimal; names a piece of evidence.
    pub capture: Option<String>,
    /// Why there is no file, or no newer one, in words.
    pub cause: Option<String>,
    /// When the origin last said that this is the file.
    #[serde(with = "super::time::option")]
    pub confirmed_at: Option<Timestamp>,
    /// The file is longer than the size limit; the rest was not downloaded.
    pub cut: bool,
    /// SHA-256 of how the last attempt failed; names a piece of evidence.
    pub failed_capture: Option<String>,
    /// Failed attempts in a row.
    pub failures: Option<u32>,
    #[serde(with = "super::time::option")]
    pub fetched_at: Option<Timestamp>,
    #[serde(with = "super::time::option")]
    pub next_try: Option<Timestamp>,
    /// The last attempt in a word: `successful`, `status`, `timeout`, …
    pub result: Option<String>,
    /// SHA-256 of the file, in hexadecimal; names a piece of evidence.
    pub sha256: Option<String>,
    /// Since when it is in that state.
    #[serde(with = "super::time::option")]
    pub since: Option<Timestamp>,
    /// Whether the site's pages answered when the file last did not.
    pub site_up: Option<bool>,
    pub state: RobotsStatus,
    /// Of the last answer; none where none came.
    pub status: Option<u16>,
    /// When the last attempt ended.
    #[serde(with = "super::time::option")]
    pub tried: Option<Timestamp>,
    pub url: String,
    /// Where redirects led; the same as `url` without any.
    pub url_reached: Option<String>,
}

/// A [`Robots`] that records share.
#[derive(Clone, Debug)]
pub struct SharedRobots(Arc<Stated>);

#[derive(Clone, Debug)]
struct Stated {
    robots: Robots,
    /// Its JSON, as a line has it.
    json: OnceLock<Box<RawValue>>,
}

impl Deref for SharedRobots {
    type Target = Robots;

    fn deref(&self) -> &Robots {
        &self.0.robots
    }
}

/// Copies on write: other records are not changed.
impl DerefMut for SharedRobots {
    fn deref_mut(&mut self) -> &mut Robots {
        let stated = Arc::make_mut(&mut self.0);
        stated.json = OnceLock::new();
        &mut stated.robots
    }
}

impl From<Robots> for SharedRobots {
    fn from(robots: Robots) -> Self {
        Self(Arc::new(Stated { robots, json: OnceLock::new() }))
    }
}

impl PartialEq for SharedRobots {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedRobots {}

impl Serialize for SharedRobots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let make = || to_raw_value(&self.0.robots).expect("it is made of plain values");
        self.0.json.get_or_init(make).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedRobots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Robots::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_string};

    use super::*;

    #[test]
    fn a_changed_part_is_written_anew_for_its_owner_only() {
        let robots: Robots = from_value(json!({
            "cut": false, "state": "rules", "url": "http://a.example/robots.txt",
            "confirmed_at": null, "fetched_at": null, "next_try": null, "since": null, "tried": null
        }))
        .unwrap();
        let shared = SharedRobots::from(robots.clone());
        assert_eq!(to_string(&shared).unwrap(), to_string(&robots).unwrap());
        let mut other = shared.clone();
        other.status = Some(200);
        assert_eq!(
            to_string(&other).unwrap(),
            to_string(&Robots { status: Some(200), ..robots }).unwrap()
        );
        assert!(!to_string(&shared).unwrap().contains("200") && other != shared);
    }
}
