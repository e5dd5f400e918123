//! Converts between an entry in memory and its persisted form. Input is checked: an impossible
//! state is left out and derived from the facts again, as for a new profile.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::agents::{AGENTS_PER_ORIGIN_MAX, AgentAnswer, AgentAnswers};
use super::answer::{Answer, Making};
use super::entry::Entry;
use super::persisted::{
    Digest, Failed, File, Fingerprint, Good, Persisted, PersistedAgent, PersistedState,
};
use super::states::{Read, States};
use crate::audit::evidence::CaptureRecord;
use crate::engine::LeaseToken;
use crate::policy::access::{AccessResult, Capture, Cause, CompletedFetch};
use crate::policy::profile::Profile;
use crate::policy::state::{RobotsCopy, RobotsState, Unreachable};
use crate::store::fetch::FetchIdentity;

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
                if profile.meanings.word() == heirless.meanings && !is_there {
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
