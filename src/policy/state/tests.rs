//! The tables of the state machine, row by row.

mod clock;
mod other_profiles;
mod properties;
mod rfc9309;

use std::sync::Arc;
use std::time::Duration;

use super::super::access::{AccessResult, Capture, Cause, Freshness, NetworkFailure, Snapshot};
use super::super::profile::{Access, OutageCopy, Profile};
use super::{AbsenceKind, Circumstances, Policy, PolicyStatus, RobotsState};
use crate::robots::RobotsTxt;
use crate::types::timestamp::Timestamp;
use bytes::Bytes;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

fn good_with(freshness: Freshness) -> AccessResult {
    let snapshot = Snapshot {
        body: Bytes::from_static(b"user-agent: *\ndisallow: /private/\n"),
        sha256: [1; 32],
        cut: false,
        status: 200,
        url: "https://example.com/robots.txt".into(),
        hops: 0,
        fetched_at: START,
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    AccessResult::Successful { snapshot: Arc::new(snapshot), freshness }
}

fn good() -> AccessResult {
    good_with(Freshness::default())
}

fn status(code: u16) -> AccessResult {
    AccessResult::Without(Cause::Status { code, retry_after: None })
}

fn timeout() -> AccessResult {
    AccessResult::Without(Cause::failed(NetworkFailure::Timeout, ""))
}

fn profile(name: &str) -> Profile {
    Profile::named(name).expect("the profile exists")
}

/// One origin under one profile, with a manual clock.
struct Site {
    profile: Profile,
    now: Timestamp,
    state: RobotsState,
    site_up: bool,
}

impl Site {
    fn new(name: &str) -> Self {
        Self { profile: profile(name), now: START, state: RobotsState::Unknown, site_up: true }
    }

    fn after(mut self, result: &AccessResult) -> Self {
        let circumstances = Circumstances { now: self.now, jitter: 0.0, site_up: self.site_up };
        self.state = self.state.after(&self.profile, result, &circumstances, |snapshot| {
            Arc::new(RobotsTxt::parse(&snapshot.body, &self.profile.dialect))
        });
        self
    }

    fn later(mut self, by: Duration) -> Self {
        self.now = self.now.plus(by);
        self
    }

    /// Tried every day, and failing, for `days`.
    fn failing_for(mut self, days: u32) -> Self {
        self = self.after(&status(503));
        for _ in 0..days {
            self = self.later(DAY).after(&status(503));
        }
        self
    }

    fn says(&self) -> &'static str {
        match self.state.policy_status(&self.profile, self.now) {
            PolicyStatus::Due => "due",
            PolicyStatus::Current(Policy::Rules(_)) => "rules",
            PolicyStatus::Current(Policy::AllowAll(absence)) => match absence.kind {
                AbsenceKind::Unavailable => "allow: unavailable",
                AbsenceKind::Unreachable => "allow: unreachable",
                AbsenceKind::LongUnreachable => "allow: long unreachable",
            },
            PolicyStatus::Current(Policy::DisallowAll(absence)) => match absence.kind {
                AbsenceKind::Unavailable => "disallow: unavailable",
                AbsenceKind::Unreachable => "disallow: unreachable",
                AbsenceKind::LongUnreachable => "disallow: long unreachable",
            },
        }
    }
}
