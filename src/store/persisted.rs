//! What is stored of an origin beyond the process: facts, and the states they result in, as plain
//! values. It is the JSON of the database, and the output of `courtesy store`. All times are dates.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use super::agents::{AGENTS_PER_ORIGIN_MAX, AgentAnswer, AgentAnswers};
use super::answer::{Answer, Making, Read, States};
use super::entry::Entry;
use super::fetch::FetchIdentity;
use crate::audit::evidence::CaptureRecord;
use crate::engine::LeaseToken;
use crate::policy::access::{AccessResult, Capture, Cause, CompletedFetch, Freshness, Snapshot};
use crate::policy::profile::{self, Profile};
use crate::policy::state::{RobotsCopy, RobotsState, Unreachable};
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
    /// [`profile::word_of`]: profiles with equal meanings observe the same outages.
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
        Self {
            name: profile.name.into(),
            version: profile::VERSION,
            settings: profile::changes(profile),
        }
    }
}

impl PersistedState {
    /// `None` for a state without a fetch.
    pub(super) fn of(state: &RobotsState, profile: &Profile) -> Option<Self> {
        Some(Self {
            profile: Fingerprint::of(profile),
            meanings: profile::word_of(&profile.meanings),
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

// Converts between an entry in memory and its persisted form. Input is checked: an impossible
// state is left out and derived from the facts again, as for a new profile.

/// Files and captures by digest.
pub(super) type Blobs = HashMap<Digest, Bytes>;

/// The persisted form of an [`Answer`].
struct PersistedAnswer {
    good: Option<Good>,
    failed: Option<Failed>,
    states: Vec<PersistedState>,
}

impl Entry {
    /// The persisted form, and the blobs that it refers to.
    pub(super) fn persist(&self) -> (Persisted, Blobs) {
        let mut blobs = Blobs::new();
        let PersistedAnswer { good, failed, states } = self.common.persist(&mut blobs);
        let agents = self.agents.iter().flat_map(|agents| &agents.0).map(|it| {
            let PersistedAnswer { good, failed, states } = it.answer.persist(&mut blobs);
            PersistedAgent { identity: it.identity.clone(), good, failed, states }
        });
        let agents = agents.collect();
        let (site_up, token, common) = (self.site_up, self.token.0, true);
        (Persisted { good, failed, site_up, states, agents, common, token }, blobs)
    }

    /// The entry that `persisted` was made of, under those of `profiles` for which it has a state
    /// or whose meanings match an outage observed under other settings. `None` if a blob is
    /// missing.
    pub(super) fn restore(
        persisted: Persisted,
        blobs: &Blobs,
        profiles: &[Arc<Profile>],
        jitter: f64,
        read: Read<'_>,
    ) -> Option<Self> {
        let persisted = if persisted.common { persisted } else { by_agent(persisted, blobs) };
        let Persisted { good, failed, site_up, states, agents, token, .. } = persisted;
        let making = Making { jitter, site_up, read };
        let restore =
            |persisted: PersistedAnswer| Answer::restore(persisted, blobs, profiles, &making);
        let common = restore(PersistedAnswer { good, failed, states })?;
        let mut restored = Vec::new();
        for PersistedAgent { identity, good, failed, states } in
            agents.into_iter().take(AGENTS_PER_ORIGIN_MAX)
        {
            let answer = restore(PersistedAnswer { good, failed, states })?;
            restored.push(AgentAnswer { identity, client: None, answer });
        }
        let agents = (!restored.is_empty()).then(|| Arc::new(AgentAnswers(restored)));
        Some(Self { common, agents, site_up, token: LeaseToken(token) })
    }
}

/// What an earlier version stored, which kept one file for all agents: it is the answer to the agent
/// that its capture names. What names none is left out, and asked for again.
fn by_agent(mut persisted: Persisted, blobs: &Blobs) -> Persisted {
    let identity = |capture: Option<Digest>| {
        let capture: CaptureRecord = serde_json::from_slice(blobs.get(&capture?)?).ok()?;
        Some(FetchIdentity::of_user_agent(&capture.user_agent?))
    };
    let is_of_site = persisted.failed.as_ref().is_some_and(|failed| {
        failed.hops == 0 && failed.cause.failure().is_some_and(|it| it.precedes_request())
    });
    let failed = persisted.failed.take_if(|_| !is_of_site);
    let of_failed = failed.as_ref().map(|failed| identity(failed.capture));
    let of_good = persisted.good.as_ref().map(|good| identity(good.file.capture));
    let whose = of_failed.clone().or_else(|| of_good.clone()).flatten();
    let good = persisted.good.take_if(|_| of_good == Some(whose.clone()));
    persisted.good = None;
    let states = persisted.states.clone();
    match whose {
        None => persisted.states.retain(|_| is_of_site),
        Some(identity) if identity.agent().is_none() => {
            persisted.good = good;
            persisted.failed = persisted.failed.take().or(failed);
        }
        Some(identity) => {
            persisted.states.retain(|state| is_of_site && !state.has_copy);
            let failed = failed.or_else(|| persisted.failed.clone());
            persisted.agents.retain(|agent| agent.identity != identity);
            persisted.agents.push(PersistedAgent { identity, good, failed, states });
        }
    }
    persisted
}

impl Answer {
    fn persist(&self, blobs: &mut Blobs) -> PersistedAnswer {
        let mut keep_capture = |capture: &Capture| {
            let digest = Digest::of_capture(capture)?;
            blobs.insert(digest, capture.json.clone());
            Some(digest)
        };
        let good = self.good.as_ref().and_then(|fetched| {
            let AccessResult::Successful { snapshot, freshness } = &fetched.result else {
                return None;
            };
            keep_capture(&snapshot.capture);
            Some(Good {
                at: fetched.at,
                url: fetched.url.clone(),
                hops: fetched.hops,
                capture: keep_capture(&fetched.capture),
                freshness: *freshness,
                varies: fetched.varies,
                file: File::of(snapshot),
            })
        });
        let failed = self.failed.as_deref().map(|fetched| Failed {
            at: fetched.at,
            url: fetched.url.clone(),
            hops: fetched.hops,
            capture: keep_capture(&fetched.capture),
            varies: fetched.varies,
            cause: cause(&fetched.result),
        });
        if let Some(snapshot) = self.snapshot() {
            blobs.insert(Digest(snapshot.sha256), snapshot.body.clone());
        }
        PersistedAnswer { good, failed, states: kept(&self.states) }
    }

    /// `None` if a blob is missing.
    fn restore(
        persisted: PersistedAnswer,
        blobs: &Blobs,
        profiles: &[Arc<Profile>],
        making: &Making<'_>,
    ) -> Option<Self> {
        let PersistedAnswer { good, failed, states } = persisted;
        let good =
            good.map(|good| fetched_good(good, blobs)).map_or(Some(None), |it| it.map(Some))?;
        let failed = failed
            .map(|failed| fetched_without(failed, blobs))
            .map_or(Some(None), |it| it.map(Some))?;
        let mut answer = Self { good, failed: failed.map(Arc::new), states: States::new() };
        answer.states = if answer.last().is_some() {
            answer.states_as_kept(&states, profiles, making)
        } else {
            // Nothing is known, under any profile: that is not stored.
            let unknown = |it: &Arc<Profile>| (Arc::new(RobotsState::Unknown), Arc::clone(it));
            profiles.iter().map(unknown).collect()
        };
        Some(answer)
    }

    /// The states of the list.
    fn states_as_kept(
        &self,
        kept: &[PersistedState],
        profiles: &[Arc<Profile>],
        making: &Making<'_>,
    ) -> States {
        let last = self.failed.as_deref();
        let mut states = States::new();
        let find = |profile: &Arc<Profile>| {
            let fingerprint = Fingerprint::of(profile);
            kept.iter().position(|kept| kept.profile == fingerprint)
        };
        let found: Vec<_> = profiles.iter().map(find).collect();
        for (profile, at) in profiles.iter().zip(&found) {
            let state = at.and_then(|at| self.state_as_kept(&kept[at], profile, making.read));
            if let Some(state) = state.filter(|state| state.is_possible(profile)) {
                states.push((Arc::new(state), Arc::clone(profile)));
            }
        }
        // Stored under settings that are no longer in use.
        for (_, heirless) in kept.iter().enumerate().filter(|(at, _)| !found.contains(&Some(*at))) {
            let Some(outage) = outage_as_kept(heirless, last) else { continue };
            for (profile, _) in profiles.iter().zip(&found).filter(|(_, at)| at.is_none()) {
                let is_there = states.iter().any(|(_, known)| known == profile);
                if profile::word_of(&profile.meanings) == heirless.meanings && !is_there {
                    let state = self.derive(profile, Some(&outage), making);
                    states.push((Arc::new(state), Arc::clone(profile)));
                }
            }
        }
        states
    }

    /// The stored state.
    fn state_as_kept(
        &self,
        kept: &PersistedState,
        profile: &Profile,
        read: Read<'_>,
    ) -> Option<RobotsState> {
        let last = self.failed.as_deref();
        let copy = match (&self.good, self.snapshot()) {
            (Some(good), Some(snapshot)) if kept.has_copy => Some(RobotsCopy {
                rules: read(snapshot, &profile.dialect),
                snapshot: Arc::clone(snapshot),
                confirmed_at: good.at,
            }),
            _ => None,
        };
        if copy.is_some() != kept.has_copy {
            return None;
        }
        match (kept.state.as_str(), last) {
            ("rules", None) => Some(RobotsState::Successful {
                copy: copy?,
                at: kept.since,
                fresh_until: kept.next_try,
            }),
            ("unavailable", Some(failed)) => Some(RobotsState::Unavailable {
                cause: cause(&failed.result),
                at: failed.at,
                fresh_until: kept.next_try,
                copy,
            }),
            ("unreachable", Some(_)) => {
                let outage = outage_as_kept(kept, last)?;
                Some(RobotsState::Unreachable(Unreachable { copy, ..outage }))
            }
            _ => None,
        }
    }
}

/// The outage alone, which other profiles may continue.
fn outage_as_kept(kept: &PersistedState, last: Option<&CompletedFetch>) -> Option<Unreachable> {
    let failed = last.filter(|_| kept.state == "unreachable")?;
    Some(Unreachable {
        cause: cause(&failed.result),
        since: kept.since,
        tried: failed.at,
        failures: kept.failures,
        next_try: kept.next_try,
        copy: None,
        site_up: kept.site_up,
    })
}

/// Leaves out states without a fetch.
fn kept(states: &States) -> Vec<PersistedState> {
    states.iter().filter_map(|(state, profile)| PersistedState::of(state, profile)).collect()
}

/// An unsolicited 304 is a status like others.
fn cause(result: &AccessResult) -> Cause {
    match result {
        AccessResult::Without(cause) => cause.clone(),
        AccessResult::NotModified { .. } | AccessResult::Successful { .. } => {
            Cause::Status { code: 304, retry_after: None }
        }
    }
}

fn fetched_good(good: Good, blobs: &Blobs) -> Option<CompletedFetch> {
    let body = blobs.get(&good.file.sha256)?.clone();
    let taken = capture(good.file.capture, blobs)?;
    let snapshot = Arc::new(good.file.snapshot(body, taken));
    Some(CompletedFetch {
        at: good.at,
        url: good.url,
        hops: good.hops,
        varies: good.varies,
        result: AccessResult::Successful { snapshot, freshness: good.freshness },
        capture: capture(good.capture, blobs)?,
    })
}

fn fetched_without(failed: Failed, blobs: &Blobs) -> Option<CompletedFetch> {
    Some(CompletedFetch {
        at: failed.at,
        url: failed.url,
        hops: failed.hops,
        varies: failed.varies,
        result: AccessResult::Without(failed.cause),
        capture: capture(failed.capture, blobs)?,
    })
}

fn capture(digest: Option<Digest>, blobs: &Blobs) -> Option<Capture> {
    let Some(digest) = digest else { return Some(Capture::none()) };
    Some(Capture { sha256: digest.0, json: blobs.get(&digest)?.clone() })
}

// What is known of an origin, as proxies share it: the JSON of the database, and the captures that
// it names. The files themselves are shared apart, by their digests.

/// What one proxy shares with the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublishedEntry {
    /// The JSON of the database.
    pub known: Persisted,
    /// Each as it is hashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    captures: Vec<String>,
}

impl PublishedEntry {
    pub(super) fn of(entry: &Entry) -> Self {
        let (known, blobs) = entry.persist();
        let files = known.files();
        let captures = blobs.iter().filter(|(digest, _)| !files.contains(digest));
        // A capture is JSON, which is UTF-8.
        let captures = captures.filter_map(|(_, blob)| String::from_utf8(blob.to_vec()).ok());
        Self { captures: captures.collect(), known }
    }

    /// As it is written; the engine deflates it.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has no map without text as keys")
    }

    /// As it was written; `None`: it is damaged, or of a later version that says other things.
    pub fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The digests of the files.
    pub(super) fn files(&self) -> Vec<Digest> {
        self.known.files()
    }

    /// The persisted form with all blobs that it names; `None` if one is missing or another than
    /// the file names.
    pub(super) fn parts(self, files: Vec<Bytes>) -> Option<(Persisted, Blobs)> {
        let digest = |blob: &Bytes| Digest(Sha256::digest(blob).into());
        let captures = self.captures.into_iter().map(Bytes::from);
        let blobs: Blobs = captures.chain(files).map(|blob| (digest(&blob), blob)).collect();
        let is_whole = self.known.digests().iter().all(|digest| blobs.contains_key(digest));
        is_whole.then_some((self.known, blobs))
    }
}
