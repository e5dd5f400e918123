//! What fetches as one identity got: the last file, the last failure, and the state that results
//! under each profile.

use std::sync::Arc;
use std::time::Duration;

use super::fetch::Validators;
use crate::policy::access::{AccessResult, Cause, CompletedFetch, NetworkFailure, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::{Circumstances, RobotsState, Unreachable};
use crate::robots::{Dialect, RobotsTxt};
use crate::types::timestamp::Timestamp;

/// What fetches as one identity got.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// The last fetch that returned a file, updated by revalidations; kept while any state has a
    /// copy.
    pub(super) good: Option<CompletedFetch>,
    /// The last fetch without a file, if it is newer.
    pub(super) failed: Option<Arc<CompletedFetch>>,
    /// One per profile.
    pub(super) states: States,
}

/// What states are made with, beside the facts.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    pub(super) jitter: f64,
    pub(super) site_up: bool,
    pub(super) read: Read<'a>,
}

impl Answer {
    /// Takes up a fetch, in the state of every profile.
    pub(super) fn take_up(&mut self, fetched: CompletedFetch, making: &Making<'_>) {
        let fetched = self.unless_page(fetched);
        let Making { jitter, site_up, read } = *making;
        for (state, profile) in &mut self.states {
            *state = Arc::new(apply_to_states(state, profile, &fetched, jitter, site_up, read));
        }
        self.remember(fetched);
    }

    /// What is no robots.txt never takes the place of a good copy: it is a failure then.
    fn unless_page(&self, fetched: CompletedFetch) -> CompletedFetch {
        match &fetched.result {
            AccessResult::Successful { snapshot, .. }
                if snapshot.is_page() && self.has_good_file() =>
            {
                let detail = format!("{} bytes of markup", snapshot.body.len());
                let cause = Cause::failed(NetworkFailure::NotRobotsTxt, detail);
                CompletedFetch { result: AccessResult::Without(cause), ..fetched }
            }
            _ => fetched,
        }
    }

    fn remember(&mut self, fetched: CompletedFetch) {
        let known = self.good.as_ref().is_some_and(|good| good.varies);
        match (&fetched.result, self.snapshot().map(Arc::clone)) {
            (AccessResult::Successful { .. }, _) => {
                (self.good, self.failed) = (Some(fetched), None)
            }
            (AccessResult::NotModified { freshness }, Some(snapshot)) => {
                // The evidence of the file remains the fetch that returned it.
                let capture = snapshot.capture.clone();
                let result = AccessResult::Successful { snapshot, freshness: *freshness };
                let varies = known || fetched.varies;
                (self.good, self.failed) =
                    (Some(CompletedFetch { result, capture, varies, ..fetched }), None);
            }
            _ => self.failed = Some(Arc::new(fetched)),
        }
        // The site has removed the file, so no copy of it may remain.
        if self.states.iter().all(|(state, _)| state.copy().is_none()) {
            self.good = None;
        }
    }

    /// The last fetch.
    pub(super) fn last(&self) -> Option<&CompletedFetch> {
        self.failed.as_deref().or(self.good.as_ref())
    }

    /// When the last fetch ended.
    pub(super) fn at(&self) -> Option<Timestamp> {
        [self.good.as_ref(), self.failed.as_deref()].into_iter().flatten().map(|it| it.at).max()
    }

    pub(super) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        snapshot(self.good.as_ref()?)
    }

    /// Whether there is a copy of a file that is no page.
    pub(super) fn has_good_file(&self) -> bool {
        self.snapshot().is_some_and(|snapshot| !snapshot.is_page())
    }

    /// Whether the last fetch returned a page instead of a robots.txt.
    pub(super) fn is_page(&self) -> bool {
        self.failed.is_none() && self.snapshot().is_some_and(|snapshot| snapshot.is_page())
    }

    /// Whether the last fetch settles the file: it is there, or the origin says that there is none.
    pub(super) fn is_settled(&self) -> bool {
        self.last().is_some_and(|last| match &last.result {
            AccessResult::Without(cause) => cause.says_there_is_none(),
            AccessResult::Successful { .. } | AccessResult::NotModified { .. } => true,
        })
    }

    /// Whether the last fetch failed before any request: that concerns all agents.
    pub(super) fn is_of_site(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.concerns_all())
    }

    /// Whether the same was answered, as far as both know, and to any agent (RFC 9111 §4.1).
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let (Some(one), Some(two)) = (self.last(), other.last()) else { return false };
        if self.is_of_site() && other.is_of_site() {
            return true;
        }
        let is_same = match (snapshot(one), snapshot(two)) {
            (Some(one), Some(two)) => one.sha256 == two.sha256,
            (None, None) => self.is_settled() && other.is_settled(),
            _ => false,
        };
        is_same && !one.varies && !two.varies
    }

    pub(super) fn state(
        &self,
        profile: &Arc<Profile>,
    ) -> Option<&(Arc<RobotsState>, Arc<Profile>)> {
        find_state(&self.states, profile)
    }

    /// Its state under `profile`, if that decides at `now`.
    pub(super) fn current(&self, profile: &Arc<Profile>, now: Timestamp) -> Option<&RobotsState> {
        let (state, _) = self.state(profile)?;
        state.is_current(now).then_some(&**state)
    }

    /// Whether it has been due under every profile for longer than `time`.
    pub(super) fn is_over(&self, time: Duration, now: Timestamp) -> bool {
        self.states
            .iter()
            .all(|(state, _)| state.next_try().is_none_or(|next| now.since(next) > time))
    }

    /// The validators for a conditional request; `None` unless a 304 could be applied for every
    /// profile.
    pub(super) fn validators(&self, profile: &Arc<Profile>) -> Option<Validators> {
        let snapshot = self.snapshot()?;
        let understands = |(state, profile): &(Arc<RobotsState>, Arc<Profile>)| {
            profile.conditional
                && state.copy().is_some_and(|copy| Arc::ptr_eq(&copy.snapshot, snapshot))
        };
        let has_any = snapshot.etag.is_some() || snapshot.last_modified.is_some();
        // A truncated file is fetched in full: a raised limit must see the rest.
        let may = has_any
            && !snapshot.cut
            && self.state(profile).is_some()
            && self.states.iter().all(understands);
        may.then(|| Validators {
            url: snapshot.url.clone(),
            etag: snapshot.etag.clone(),
            last_modified: snapshot.last_modified.clone(),
        })
    }

    /// Adds a state for `profile`, derived from the facts. An outage observed under a profile of
    /// equal meanings continues.
    pub(super) fn add_profile(&mut self, profile: &Arc<Profile>, making: &Making<'_>) {
        if self.state(profile).is_some() {
            return;
        }
        let alike = |(state, other): &'_ (Arc<RobotsState>, Arc<Profile>)| {
            state.outage().filter(|_| other.meanings == profile.meanings).cloned()
        };
        let outage = self.states.iter().find_map(alike);
        let state = self.derive(profile, outage.as_ref(), making);
        self.states.push((Arc::new(state), Arc::clone(profile)));
    }

    /// The state that the facts result in for `profile`: the last file, then the last failure. An
    /// `outage` observed for a profile of equal meanings continues with that.
    pub(super) fn derive(
        &self,
        profile: &Profile,
        outage: Option<&Unreachable>,
        making: &Making<'_>,
    ) -> RobotsState {
        let Making { jitter, site_up, read } = *making;
        let apply = |state: RobotsState, fetched: &CompletedFetch| {
            apply_to_states(&state, profile, fetched, jitter, site_up, read)
        };
        let state = self.good.iter().fold(RobotsState::Unknown, apply);
        let state = match outage {
            Some(outage) => {
                RobotsState::Unreachable(outage.before_last_failure(state.copy().cloned()))
            }
            None => state,
        };
        self.failed.as_deref().into_iter().fold(state, apply)
    }
}

fn snapshot(fetched: &CompletedFetch) -> Option<&Arc<Snapshot>> {
    match &fetched.result {
        AccessResult::Successful { snapshot, .. } => Some(snapshot),
        _ => None,
    }
}

/// One state per profile.
pub(super) type States = Vec<(Arc<RobotsState>, Arc<Profile>)>;

/// Parses a file in a dialect, or returns the parsed file from the cache.
pub(super) type Read<'a> = &'a dyn Fn(&Snapshot, &Dialect) -> Arc<RobotsTxt>;

/// The state for `profile`, with that.
pub(super) fn find_state<'a>(
    states: &'a States,
    profile: &Arc<Profile>,
) -> Option<&'a (Arc<RobotsState>, Arc<Profile>)> {
    // Profiles are created once and shared, so pointers are nearly always equal.
    let same = |(_, known): &&(_, Arc<Profile>)| Arc::ptr_eq(known, profile);
    let equal = |(_, known): &&(_, Arc<Profile>)| known == profile;
    states.iter().find(same).or_else(|| states.iter().find(equal))
}

/// The state after `fetched`.
pub(super) fn apply_to_states(
    state: &RobotsState,
    profile: &Profile,
    fetched: &CompletedFetch,
    jitter: f64,
    site_up: bool,
    read: Read<'_>,
) -> RobotsState {
    let circumstances = Circumstances { now: fetched.at, jitter, site_up };
    state.after(profile, &fetched.result, &circumstances, |snapshot| {
        read(snapshot, &profile.dialect)
    })
}
