//! What is stored of an origin beyond the process: facts, and the states they result in, as plain
//! values. It is the JSON of the database, and the output of `courtesy store`. All times are dates.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::policy::access::{Capture, Cause, Freshness, Snapshot};
use crate::policy::profile::{self, Profile};
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::types::sanitize::{digest, hex};
use crate::types::timestamp::Timestamp;

/// One origin. Of each identity the last two fetches determine all states, except when an outage
/// began. `good`, `failed` and `states` are the common copy, fetched as this program alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Persisted {
    /// The last fetch that returned a file, updated by revalidations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Good>,
    /// The last fetch without a file, if it is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Whether the site's pages responded when that was last checked.
    pub site_up: bool,
    /// One per profile.
    pub states: Vec<PersistedState>,
    /// What single agents got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<PersistedAgent>,
    /// Whether `good` is of the common copy. Earlier versions stored the file of any agent there,
    /// which its capture names.
    #[serde(default, skip_serializing_if = "is_false")]
    pub common: bool,
    /// The token under which it is published at the engine; 0 if it is not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub token: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// What one agent got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistedAgent {
    /// The User-Agent of the fetch, without version and contact.
    #[serde(rename = "asked_as")]
    pub identity: FetchIdentity,
    /// As [`Persisted::good`], of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Good>,
    /// As [`Persisted::failed`], of this agent.
    #[serde(rename = "answer", default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// One per profile.
    pub states: Vec<PersistedState>,
}

/// A fetch that returned or confirmed a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Good {
    pub at: Timestamp,
    pub url: String,
    /// Redirects that were followed.
    pub hops: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Digest>,
    pub freshness: Freshness,
    /// Whether a response of this or an earlier fetch of the file depends on the User-Agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub varies: bool,
    pub file: File,
}

/// A [`Snapshot`] without its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    pub sha256: Digest,
    /// The length of the file.
    #[serde(rename = "octets")]
    pub bytes: u64,
    pub cut: bool,
    /// It is no robots.txt, but a page.
    #[serde(default, skip_serializing_if = "is_false")]
    pub page: bool,
    /// The status of the response.
    pub status: u16,
    pub url: String,
    /// Redirects that were followed.
    pub hops: u8,
    pub fetched_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<FieldValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<FieldValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<FieldValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Digest>,
}

/// A fetch that returned no file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    pub at: Timestamp,
    pub url: String,
    /// Redirects that were followed.
    pub hops: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Digest>,
    /// Whether a response depends on the User-Agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub varies: bool,
    pub cause: Cause,
}

/// The state for one profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistedState {
    pub profile: Fingerprint,
    /// [`profile::Meanings::word`]: profiles with equal meanings observe the same outages.
    pub meanings: String,
    /// [`RobotsState::word`].
    pub state: String,
    pub since: Timestamp,
    pub next_try: Timestamp,
    pub has_copy: bool,
    /// Failed attempts in the outage; zero if there is none.
    pub failures: u32,
    /// Whether the site's pages responded at the last failed attempt.
    pub site_up: bool,
}

/// Identifies a profile by all that changes its decisions: its row, the version of the table, and
/// the settings that differ from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub name: String,
    /// The version of the table of profiles.
    pub version: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// SHA-256, written in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// A header value, each byte as the character of that number (ISO 8859-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue(pub HeaderValue);

impl Persisted {
    /// The same with the answer of one agent in the place of the common copy, where that was not
    /// fetched, and its identity: what is shown of the origin in one word.
    pub fn shown(mut self) -> (Option<FetchIdentity>, Self) {
        if self.good.is_some() || self.failed.is_some() {
            return (None, self);
        }
        let Some(PersistedAgent { identity, good, failed, states }) = self.agents.pop() else {
            return (None, self);
        };
        (Some(identity), Self { good, failed, states, ..self })
    }

    /// The digests of all files.
    pub fn files(&self) -> Vec<Digest> {
        let own = self.agents.iter().filter_map(|agent| agent.good.as_ref());
        let mut files: Vec<_> = self.good.iter().chain(own).map(|good| good.file.sha256).collect();
        files.sort_by_key(|digest| digest.0);
        files.dedup();
        files
    }

    /// The digests of all blobs that it refers to: files and captures.
    pub fn digests(&self) -> Vec<Digest> {
        let of_good = |good: &Good| [Some(good.file.sha256), good.file.capture, good.capture];
        let own = self.agents.iter().filter_map(|agent| agent.good.as_ref());
        let good = self.good.iter().chain(own).flat_map(of_good);
        let own = self.agents.iter().filter_map(|agent| agent.failed.as_ref());
        let failed = self.failed.iter().chain(own).map(|failed| failed.capture);
        let mut digests: Vec<_> = good.chain(failed).flatten().collect();
        digests.sort_by_key(|digest| digest.0);
        digests.dedup();
        digests
    }
}

impl Fingerprint {
    /// What is stored of `profile`.
    pub fn of(profile: &Profile) -> Self {
        Self { name: profile.name.into(), version: profile::VERSION, settings: profile.changes() }
    }
}

impl PersistedState {
    /// `None` for a state without a fetch.
    pub(super) fn of(state: &RobotsState, profile: &Profile) -> Option<Self> {
        Some(Self {
            profile: Fingerprint::of(profile),
            meanings: profile.meanings.word(),
            state: state.word().into(),
            since: state.since()?,
            next_try: state.next_try()?,
            has_copy: state.copy().is_some(),
            failures: state.outage().map_or(0, |outage| outage.failures),
            site_up: state.outage().is_none_or(|outage| outage.site_up),
        })
    }
}

impl File {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let field = |value: &Option<HeaderValue>| value.clone().map(FieldValue);
        Self {
            sha256: Digest(snapshot.sha256),
            bytes: snapshot.body.len() as u64,
            cut: snapshot.cut,
            page: snapshot.is_page(),
            status: snapshot.status,
            url: snapshot.url.clone(),
            hops: snapshot.hops,
            fetched_at: snapshot.fetched_at,
            content_type: field(&snapshot.content_type),
            etag: field(&snapshot.etag),
            last_modified: field(&snapshot.last_modified),
            capture: Digest::of_capture(&snapshot.capture),
        }
    }

    pub(super) fn snapshot(self, body: Bytes, capture: Capture) -> Snapshot {
        let field = |value: Option<FieldValue>| value.map(|value| value.0);
        Snapshot {
            body,
            sha256: self.sha256.0,
            cut: self.cut,
            status: self.status,
            url: self.url,
            hops: self.hops,
            fetched_at: self.fetched_at,
            content_type: field(self.content_type),
            etag: field(self.etag),
            last_modified: field(self.last_modified),
            capture,
        }
    }
}

impl Digest {
    /// `None` for a fetch without a capture.
    pub(super) fn of_capture(capture: &Capture) -> Option<Self> {
        (*capture != Capture::none()).then_some(Self(capture.sha256))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        digest(&text).map(Self).ok_or_else(|| de::Error::custom("not a SHA-256 in hexadecimal"))
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(
            &self.0.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>(),
        )
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Option<Vec<u8>> =
            text.chars().map(|character| u8::try_from(character).ok()).collect();
        let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        value.map(Self).ok_or_else(|| de::Error::custom("not the value of a field"))
    }
}
