//! The notice of a change in the log of denials: both sides with their evidence, and the effect on
//! the sampled requests.

use std::collections::HashSet;
use std::sync::Arc;

use super::compare::{Compared, Pending};
use super::sample::{Sampled, without_values};
use crate::audit::evidence::{Blob, Kind as BlobKind};
use crate::audit::limits::{RECORD_TEXT_BYTES_MAX, RECORD_URL_BYTES_MAX};
use crate::audit::{Changed, ChangedEvent, RobotsStatus, SampledRequests, Side, Touched};
use crate::policy::access::{Capture, Cause, CompletedFetch};
use crate::policy::change::line_counts;
use crate::policy::decision::{Verdict, decide};
use crate::policy::profile::Profile;
use crate::policy::state::{Policy, PolicyStatus, RobotsState};
use crate::store::StateChange;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

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
