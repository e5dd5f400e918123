//! Converts between an entry in memory and its persisted form. Input is checked: an impossible
//! state is left out and derived from the facts again, as for a new profile.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::agents::{AgentAnswer, AgentAnswers};
use super::entry::Entry;
use super::persisted::{
    Digest, Failed, File, Fingerprint, Good, Persisted, PersistedAgent, PersistedState,
};
use super::states::{Read, States};
use crate::engine::LeaseToken;
use crate::policy::access::{AccessResult, Capture, Cause, CompletedFetch};
use crate::policy::profile::Profile;
use crate::policy::state::{RobotsCopy, RobotsState, Unreachable};

/// Files and captures by digest.
pub(super) type Blobs = HashMap<Digest, Bytes>;

/// The parameters of restored states.
struct Making<'a> {
    profiles: &'a [Arc<Profile>],
    jitter: f64,
    read: Read<'a>,
}

impl Entry {
    /// The persisted form, and the blobs that it refers to.
    pub(super) fn persist(&self) -> (Persisted, Blobs) {
        let mut blobs = Blobs::new();
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
                file: File::of(snapshot),
            })
        });
        let mut keep_failed = |fetched: &CompletedFetch| Failed {
            at: fetched.at,
            url: fetched.url.clone(),
            hops: fetched.hops,
            capture: keep_capture(&fetched.capture),
            cause: cause(&fetched.result),
        };
        let failed = self.failed.as_deref().map(&mut keep_failed);
        let of_agents = self.agents.as_deref();
        let of_agent = |answer: &AgentAnswer| PersistedAgent {
            identity: answer.identity.clone(),
            answer: keep_failed(&answer.own),
            is_last: answer.is_last,
            states: kept(&answer.states),
        };
        let agents = of_agents.map(|agents| agents.answers.iter().map(of_agent).collect());
        let others = of_agents.and_then(|agents| agents.others.as_ref()).map(kept);
        if let Some(snapshot) = self.snapshot() {
            blobs.insert(Digest(snapshot.sha256), snapshot.body.clone());
        }
        let (site_up, states) = (self.site_up, kept(&self.states));
        (
            Persisted {
                good,
                failed,
                site_up,
                states,
                agents: agents.unwrap_or_default(),
                others,
                token: self.token.0,
            },
            blobs,
        )
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
        let Persisted { good, failed, site_up, states, agents, others, token } = persisted;
        let good =
            good.map(|good| fetched_good(good, blobs)).map_or(Some(None), |it| it.map(Some))?;
        // Earlier versions stored the response to one agent for all: fetch again.
        let failed = failed.filter(|failed| failed.cause.counts_for_all());
        let failed = failed
            .map(|failed| fetched_without(failed, blobs))
            .map_or(Some(None), |it| it.map(Some))?;
        let failed = failed.map(Arc::new);
        let token = LeaseToken(token);
        let mut entry = Self { good, failed, states: Vec::new(), site_up, agents: None, token };
        let making = Making { profiles, jitter, read };
        entry.states = entry.states_as_kept(&states, &entry.failures(), &making);
        let mut restored = AgentAnswers::default();
        for PersistedAgent { identity, answer, is_last, states } in agents {
            let own = Arc::new(fetched_without(answer, blobs)?);
            let mut answer = AgentAnswer { identity, own, is_last, states: Vec::new() };
            answer.states = entry.states_as_kept(&states, &entry.failures_of(&answer), &making);
            restored.put(answer);
        }
        // Earlier responses to these agents are unknown, so they have no copy.
        restored.others =
            others.map(|kept| entry.states_as_kept(&kept, &entry.failures(), &making));
        let has_any = restored.others.is_some() || !restored.answers.is_empty();
        entry.agents = has_any.then(|| Arc::new(restored));
        Some(entry)
    }

    /// The states of one list, which resulted from `failures`.
    fn states_as_kept(
        &self,
        kept: &[PersistedState],
        failures: &[&CompletedFetch],
        making: &Making<'_>,
    ) -> States {
        let Making { profiles, jitter, read } = making;
        let last = failures.last().copied();
        let mut states = States::new();
        let find = |profile: &Arc<Profile>| {
            let fingerprint = Fingerprint::of(profile);
            kept.iter().position(|kept| kept.profile == fingerprint)
        };
        let found: Vec<_> = profiles.iter().map(find).collect();
        for (profile, at) in profiles.iter().zip(&found) {
            let state = at.and_then(|at| self.state_as_kept(&kept[at], last, profile, read));
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
                    let state = self.derive(failures, profile, Some(&outage), *jitter, read);
                    states.push((Arc::new(state), Arc::clone(profile)));
                }
            }
        }
        states
    }

    /// The stored state, where `last` is the last fetch without a file.
    fn state_as_kept(
        &self,
        kept: &PersistedState,
        last: Option<&CompletedFetch>,
        profile: &Profile,
        read: Read<'_>,
    ) -> Option<RobotsState> {
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
        result: AccessResult::Successful { snapshot, freshness: good.freshness },
        capture: capture(good.capture, blobs)?,
    })
}

fn fetched_without(failed: Failed, blobs: &Blobs) -> Option<CompletedFetch> {
    Some(CompletedFetch {
        at: failed.at,
        url: failed.url,
        hops: failed.hops,
        result: AccessResult::Without(failed.cause),
        capture: capture(failed.capture, blobs)?,
    })
}

fn capture(digest: Option<Digest>, blobs: &Blobs) -> Option<Capture> {
    let Some(digest) = digest else { return Some(Capture::none()) };
    Some(Capture { sha256: digest.0, json: blobs.get(&digest)?.clone() })
}
