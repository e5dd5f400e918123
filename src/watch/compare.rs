//! Compares the states of a robots.txt before and after a fetch: the kind of the change, and the
//! agents that it concerns.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::noticed::Answer;
use super::sample::{Sampled, without_values};
use crate::audit::evidence::{Blob, Kind as BlobKind};
use crate::audit::{
    Changed, ChangedEvent, RECORD_TEXT_BYTES_MAX, RECORD_URL_BYTES_MAX, RobotsStatus,
    SampledRequests, Side, Touched,
};
use crate::policy::access::{Capture, Cause, CompletedFetch};
use crate::policy::change::{Change, Kind, change, line_counts};
use crate::policy::decision::{Verdict, decide};
use crate::policy::profile::Profile;
use crate::policy::state::{Policy, PolicyStatus, RobotsState};
use crate::store::{FetchEvent, StateChange};
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// A fetch that has changed something, to be compared.
#[derive(Debug)]
pub(super) struct Pending {
    pub fetch: FetchEvent,
    /// The file is the one of before the outage.
    pub(super) has_returned: bool,
    pub held: Option<HeldBytes>,
}

/// Bytes of files that wait; given back when dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

/// The result of the comparison.
#[derive(Debug)]
pub(super) struct Compared {
    pub kind: Kind,
    pub(super) touched: Vec<(Arc<Profile>, Change)>,
}

impl Pending {
    /// Nothing where all is as it was.
    pub fn new(fetch: FetchEvent) -> Option<Self> {
        let differs = |change: &StateChange| {
            let answer = |state| Answer::of(state, &change.profile);
            change.before.as_deref().is_some_and(|before| answer(before) != answer(&change.after))
        };
        if !fetch.changes.iter().any(differs) {
            return None;
        }
        let own = fetch.changes.iter().find(|change| change.profile == fetch.profile);
        let has_returned = own.is_some_and(|change| {
            let file = |state: &RobotsState| state.copy().map(|copy| copy.snapshot.sha256);
            let before = change.before.as_deref();
            let is_back = before.is_some_and(|it| Answer::of(it, &change.profile).is_none());
            is_back && before.and_then(file) == file(&change.after)
        });
        Some(Self { fetch, has_returned, held: None })
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> usize {
        let both =
            |change: &StateChange| bytes(&change.after) + change.before.as_deref().map_or(0, bytes);
        self.fetch.changes.iter().map(both).max().unwrap_or_default()
    }

    /// The change for the agents of `sample` and the one of the fetch. None if both have the same
    /// text and the same meaning under every profile.
    pub fn compare(&self, sample: &[Sampled]) -> Option<Compared> {
        let own = &self.fetch.profile;
        let of = |states: &StateChange| {
            let mut seen: HashSet<_> = sample
                .iter()
                .filter(|sampled| sampled.profile == states.profile)
                .map(|sampled| sampled.token.as_deref())
                .collect();
            seen.extend(
                (states.profile == *own)
                    .then(|| self.fetch.identity.agent())
                    .filter(Option::is_some),
            );
            seen.remove(&None);
            let mut seen: Vec<_> = seen.into_iter().collect();
            seen.sort_unstable();
            let mut change =
                change(states.before.as_deref()?, &states.after, &states.profile, &seen)?;
            if self.has_returned && change.kind == Kind::Back {
                change.agents.clear();
            }
            Some((Arc::clone(&states.profile), change))
        };
        let touched: Vec<_> = self.fetch.changes.iter().filter_map(of).collect();
        let in_force = touched.iter().find(|(profile, _)| profile == own);
        let in_force = in_force.filter(|(_, change)| change.kind != Kind::Cosmetic);
        let other = || touched.iter().find(|(_, change)| change.kind != Kind::Cosmetic);
        let (_, first) = in_force.or_else(other).or(touched.first())?;
        Some(Compared { kind: first.kind, touched })
    }
}

/// Bytes of the file in `state`, as it is and as it is read.
fn bytes(state: &RobotsState) -> usize {
    state.copy().map_or(0, |copy| copy.snapshot.body.len() + copy.rules.weight())
}

impl HeldBytes {
    /// `bytes` more of at most `max`.
    pub fn of(all: &Arc<AtomicUsize>, bytes: usize, max: usize) -> Option<Self> {
        let sum = all.fetch_add(bytes, Relaxed) + bytes;
        let held = Self { bytes, all: Arc::clone(all) };
        (sum <= max).then_some(held)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

// The notice of a change in the log of denials: both sides with their evidence, and the effect on
// the sampled requests.

/// Paths that a notice names.
const CHANGE_EXAMPLES_MAX: usize = 5;

impl Pending {
    /// The notice and its evidence.
    pub fn notice(
        &self,
        compared: Compared,
        sample: &[Sampled],
        is_redacted: bool,
        now: Timestamp,
    ) -> Option<(Changed, Vec<Blob>)> {
        let fetch = &self.fetch;
        let change = fetch.changes.iter().find(|change| change.profile == fetch.profile)?;
        let before = change.before.as_deref()?;
        let mut blobs = Vec::new();
        let from = side(before, fetch.failed_before.as_deref(), &mut blobs);
        let to = side(&change.after, fetch.failed.as_deref(), &mut blobs);
        let (added, removed) =
            if self.has_returned { (0, 0) } else { lines(before, &change.after) };
        let touched = compared.touched.into_iter().map(|(profile, change)| Touched {
            agents: change.agents.iter().map(|agent| short(agent)).collect(),
            kind: change.kind,
            profile: profile.name.to_owned(),
        });
        let changed = Changed {
            added,
            agent_asked: short(fetch.identity.as_str()),
            event: ChangedEvent::It,
            from: from.into(),
            kind: compared.kind,
            node: None,
            origin: fetch.origin.to_string(),
            prev: String::new(),
            removed,
            sampled: self.sampled(sample, is_redacted),
            seq: 0,
            time: now,
            to: to.into(),
            touched: touched.collect(),
        };
        Some((changed, blobs))
    }

    /// Bytes of evidence that a notice of it may bring.
    pub fn evidence_bytes(&self) -> usize {
        let body = |state: &RobotsState| state.copy().map_or(0, |copy| copy.snapshot.body.len());
        let both =
            |change: &StateChange| body(&change.after) + change.before.as_deref().map_or(0, body);
        self.fetch.changes.iter().map(both).max().unwrap_or_default()
    }

    /// The effect of the change on requests that were allowed before.
    fn sampled(&self, sample: &[Sampled], is_redacted: bool) -> SampledRequests {
        let (mut of, mut denied) = (SampledRequests::default(), HashSet::new());
        for sampled in sample {
            let own = |profile: &Arc<Profile>| {
                self.fetch.changes.iter().find(|change| change.profile == *profile)
            };
            let Some(change) = own(&sampled.profile).or_else(|| own(&self.fetch.profile)) else {
                continue;
            };
            let Some(before) = change.before.as_deref() else { continue };
            let allows = |state| allows(state, &change.profile, sampled);
            // As it is kept: without values another rule may decide than when it was asked for.
            if allows(before) != Some(true) {
                continue;
            }
            of.seen += 1;
            if allows(&change.after) == Some(false) {
                of.now_denied += 1;
                let path = if is_redacted {
                    without_values(&sampled.path)
                } else {
                    sampled.path.to_string()
                };
                if denied.len() < CHANGE_EXAMPLES_MAX && denied.insert(path.clone()) {
                    of.examples.push(sanitize::url(path.as_bytes(), RECORD_URL_BYTES_MAX));
                }
            }
        }
        of
    }
}

/// By a state, at the moment that it was learnt: then it was current.
fn allows(state: &RobotsState, profile: &Profile, sampled: &Sampled) -> Option<bool> {
    let policy: Policy<'_> = match state.policy_status(profile, state.tried_at()?) {
        PolicyStatus::Current(policy) => policy,
        PolicyStatus::Due => return None,
    };
    let decision = decide(&policy, sampled.token.as_deref(), sampled.path.as_bytes());
    Some(decision.verdict == Verdict::Allow)
}

fn lines(before: &RobotsState, after: &RobotsState) -> (u64, u64) {
    let body = |state: &'_ RobotsState| {
        state.copy().map(|copy| copy.snapshot.body.clone()).unwrap_or_default()
    };
    let before = body(before);
    line_counts(&before, &body(after))
}

/// One side of the notice; adds its evidence.
fn side(state: &RobotsState, failed: Option<&CompletedFetch>, blobs: &mut Vec<Blob>) -> Side {
    let mut capture = |capture: &Capture| {
        (*capture != Capture::none()).then(|| {
            let (sha256, content) = (capture.sha256, capture.json.clone());
            blobs.push(Blob { sha256, kind: BlobKind::Capture, content });
            sanitize::hex(&sha256)
        })
    };
    let copy = state.copy().map(|copy| &*copy.snapshot);
    let (file, failed_capture) =
        (copy.and_then(|copy| capture(&copy.capture)), failed.map(|it| &it.capture));
    let failed_capture = failed_capture.and_then(capture);
    let cause: Option<&Cause> = match state {
        RobotsState::Unavailable { cause, .. } => Some(cause),
        RobotsState::Unreachable(outage) => Some(&outage.cause),
        RobotsState::Successful { .. } | RobotsState::Unknown => None,
    };
    blobs.extend(copy.map(|copy| Blob {
        sha256: copy.sha256,
        kind: BlobKind::File,
        content: copy.body.clone(),
    }));
    let status = match state {
        RobotsState::Successful { .. } => RobotsStatus::Rules,
        RobotsState::Unavailable { .. } => RobotsStatus::Unavailable,
        RobotsState::Unknown | RobotsState::Unreachable(_) => RobotsStatus::Unreachable,
    };
    Side {
        capture: file,
        cause: cause
            .map(|cause| sanitize::text(cause.to_string().as_bytes(), RECORD_TEXT_BYTES_MAX)),
        cut: copy.is_some_and(|copy| copy.cut),
        failed_capture,
        sha256: copy.map(|copy| sanitize::hex(&copy.sha256)),
        since: match (cause, copy) {
            (None, Some(copy)) => Some(copy.fetched_at),
            _ => state.since(),
        },
        state: status,
        status: cause.map_or(copy.map(|copy| copy.status), Cause::status),
        url_reached: copy.map(|copy| sanitize::url(copy.url.as_bytes(), RECORD_URL_BYTES_MAX)),
    }
}

fn short(name: &str) -> String {
    sanitize::text(name.as_bytes(), RECORD_TEXT_BYTES_MAX)
}
