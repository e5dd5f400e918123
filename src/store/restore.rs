//! Between an entry in memory and what is kept of it. What comes back is checked: a state that
//! cannot be is left out, and is made from the facts again, as for a profile that was never there.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::entry::{Entry, Read};
use super::knowledge::{Digest, Failed, File, Fingerprint, Good, Kept, Knowledge};
use crate::policy::access::{AccessResult, Capture, Cause, Fetched};
use crate::policy::profile::Profile;
use crate::policy::state::{Copy, RobotsState, Unreachable};

/// Files and captures, by their digest.
pub(super) type Blobs = HashMap<Digest, Bytes>;

impl Entry {
    /// What is to be kept, and the octets that go with it.
    pub(super) fn keep(&self) -> (Knowledge, Blobs) {
        let mut blobs = Blobs::new();
        let mut keep_capture = |capture: &Capture| {
            let digest = Digest::of_capture(capture)?;
            blobs.insert(digest, capture.json.clone());
            Some(digest)
        };
        let good = self.good.as_ref().and_then(|fetched| {
            let AccessResult::Successful { snapshot, freshness } = &fetched.result else { return None };
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
        let failed = self.failed.as_ref().map(|fetched| Failed {
            at: fetched.at,
            url: fetched.url.clone(),
            hops: fetched.hops,
            capture: keep_capture(&fetched.capture),
            cause: cause(&fetched.result),
        });
        if let Some(snapshot) = self.snapshot() {
            blobs.insert(Digest(snapshot.sha256), snapshot.body.clone());
        }
        let states = self.states.iter().filter_map(|(state, profile)| Kept::of(state, profile)).collect();
        (Knowledge { good, failed, site_up: self.site_up, states }, blobs)
    }

    /// The entry that `knowledge` was made of, under those of `profiles` that it was known by, and
    /// under those that go on with an outage which a profile of other settings has observed.
    /// Nothing where octets are missing.
    pub(super) fn restore(
        knowledge: Knowledge,
        blobs: &Blobs,
        profiles: &[Arc<Profile>],
        jitter: f64,
        read: Read<'_>,
    ) -> Option<Self> {
        let Knowledge { good, failed, site_up, states: kept } = knowledge;
        let good = good.map(|good| fetched_good(good, blobs)).map_or(Some(None), |it| it.map(Some))?;
        let failed =
            failed.map(|failed| fetched_without(failed, blobs)).map_or(Some(None), |it| it.map(Some))?;
        let mut entry = Self { good, failed: failed.map(Arc::new), states: Vec::new(), site_up };
        let find = |profile: &Arc<Profile>| {
            let fingerprint = Fingerprint::of(profile);
            kept.iter().position(|kept| kept.profile == fingerprint)
        };
        let found: Vec<_> = profiles.iter().map(find).collect();
        for (profile, at) in profiles.iter().zip(&found) {
            let state = at.and_then(|at| entry.state_as_kept(&kept[at], profile, read));
            if let Some(state) = state.filter(|state| state.is_possible(profile)) {
                entry.states.push((Arc::new(state), Arc::clone(profile)));
            }
        }
        // Kept under settings that are no more.
        for (_, heirless) in kept.iter().enumerate().filter(|(at, _)| !found.contains(&Some(*at))) {
            let Some(outage) = entry.outage_as_kept(heirless) else { continue };
            for (profile, _) in profiles.iter().zip(&found).filter(|(_, at)| at.is_none()) {
                if profile.meanings.word() == heirless.meanings && entry.state(profile).is_none() {
                    let state = entry.derive(profile, Some(&outage), jitter, read);
                    entry.states.push((Arc::new(state), Arc::clone(profile)));
                }
            }
        }
        Some(entry)
    }

    fn state_as_kept(&self, kept: &Kept, profile: &Profile, read: Read<'_>) -> Option<RobotsState> {
        let copy = match (&self.good, self.snapshot()) {
            (Some(good), Some(snapshot)) if kept.has_copy => Some(Copy {
                rules: read(snapshot, &profile.dialect),
                snapshot: Arc::clone(snapshot),
                confirmed_at: good.at,
            }),
            _ => None,
        };
        if copy.is_some() != kept.has_copy {
            return None;
        }
        match (kept.state.as_str(), &self.failed) {
            ("rules", None) => {
                Some(RobotsState::Successful { copy: copy?, at: kept.since, fresh_until: kept.next_try })
            }
            ("unavailable", Some(failed)) => Some(RobotsState::Unavailable {
                cause: cause(&failed.result),
                at: failed.at,
                fresh_until: kept.next_try,
                copy,
            }),
            ("unreachable", Some(_)) => {
                let outage = self.outage_as_kept(kept)?;
                Some(RobotsState::Unreachable(Unreachable { copy, ..outage }))
            }
            _ => None,
        }
    }

    /// The outage alone, which other profiles may go on with.
    fn outage_as_kept(&self, kept: &Kept) -> Option<Unreachable> {
        let failed = self.failed.as_ref().filter(|_| kept.state == "unreachable")?;
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
}

/// A 304 that nobody asked for is a status like others.
fn cause(result: &AccessResult) -> Cause {
    match result {
        AccessResult::Without(cause) => cause.clone(),
        AccessResult::NotModified { .. } | AccessResult::Successful { .. } => {
            Cause::Status { code: 304, retry_after: None }
        }
    }
}

fn fetched_good(good: Good, blobs: &Blobs) -> Option<Fetched> {
    let body = blobs.get(&good.file.sha256)?.clone();
    let taken = capture(good.file.capture, blobs)?;
    let snapshot = Arc::new(good.file.snapshot(body, taken));
    Some(Fetched {
        at: good.at,
        url: good.url,
        hops: good.hops,
        result: AccessResult::Successful { snapshot, freshness: good.freshness },
        capture: capture(good.capture, blobs)?,
    })
}

fn fetched_without(failed: Failed, blobs: &Blobs) -> Option<Fetched> {
    Some(Fetched {
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
