//! The member `robots` of a record.

use serde::{Deserialize, Serialize};

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
