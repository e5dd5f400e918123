//! The states of an origin, one per profile.

use std::sync::Arc;

use crate::policy::access::{CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::{Circumstances, RobotsState};
use crate::robots::{Dialect, RobotsTxt};

/// One state per profile.
pub(super) type States = Vec<(Arc<RobotsState>, Arc<Profile>)>;

/// Parses a file in a dialect, or returns the parsed file from the cache.
pub(super) type Read<'a> = &'a dyn Fn(&Snapshot, &Dialect) -> Arc<RobotsTxt>;

/// The state for `profile`, with that.
pub(super) fn find<'a>(
    states: &'a States,
    profile: &Arc<Profile>,
) -> Option<&'a (Arc<RobotsState>, Arc<Profile>)> {
    // Profiles are created once and shared, so pointers are nearly always equal.
    let same = |(_, known): &&(_, Arc<Profile>)| Arc::ptr_eq(known, profile);
    let equal = |(_, known): &&(_, Arc<Profile>)| known == profile;
    states.iter().find(same).or_else(|| states.iter().find(equal))
}

/// The state after `fetched`.
pub(super) fn apply(
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
