//! Restores the state of an origin's robots.txt from a record and its evidence, under any profile.

use std::sync::Arc;
use std::time::Duration;

use crate::audit::Robots;
use crate::audit::evidence::CaptureRecord;
use crate::policy::access::{Capture, Cause, NetworkFailure, Snapshot};
use crate::policy::profile::{Meaning, Profile};
use crate::policy::state::{Policy, PolicyStatus, RobotsCopy, RobotsState, Unreachable};
use crate::robots::RobotsTxt;
use crate::types::sanitize::digest;
use crate::types::timestamp::Timestamp;

/// How long after a state came due a record may still rest on it: from the answer of the store to
/// the record is a moment, even where the machine is overloaded.
const REPLAY_OVERDUE_MAX: Duration = Duration::from_secs(60);

/// Data that a record lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown(pub &'static str);

/// The state as `profile` has it. `file` is the stored one as that profile reads it; `failed`
/// describes the last attempt, where the record does not.
pub(super) fn state(
    robots: &Robots,
    profile: &Profile,
    file: Option<&Arc<RobotsTxt>>,
    failed: Option<&CaptureRecord>,
) -> Result<RobotsState, Unknown> {
    let tried = robots.tried.ok_or(Unknown("it does not tell when robots.txt was tried"))?;
    let next_try =
        robots.next_try.ok_or(Unknown("it does not tell until when its robots.txt held"))?;
    let copy = file.map(|file| copy(robots, file, tried));
    let Some(cause) = cause(robots, profile, failed)? else {
        let copy = copy.ok_or(Unknown("it names no robots.txt"))?;
        return Ok(RobotsState::Successful {
            copy,
            at: robots.since.unwrap_or(tried),
            fresh_until: next_try,
        });
    };
    Ok(match profile.meaning(&cause) {
        Meaning::Unavailable | Meaning::Forbidden => {
            let serves = |copy: &RobotsCopy| {
                tried < copy.confirmed_at.plus(profile.lifetimes.copy_after_unavailable)
            };
            RobotsState::Unavailable {
                cause,
                at: tried,
                fresh_until: next_try,
                copy: copy.filter(serves),
            }
        }
        Meaning::Unreachable => RobotsState::Unreachable(Unreachable {
            cause,
            since: robots.since.unwrap_or(tried),
            tried,
            failures: robots.failures.unwrap_or(1),
            next_try,
            copy,
            site_up: robots.site_up.unwrap_or(true),
        }),
    })
}

/// The policy in force at `now`. The state may come due between the store's answer and the time of
/// the record; a state that was due for longer could not decide.
pub(super) fn policy<'a>(
    state: &'a RobotsState,
    profile: &Profile,
    now: Timestamp,
) -> Result<Policy<'a>, Unknown> {
    let (learnt, until) = (state.tried_at().unwrap_or(now), state.next_try().unwrap_or(now));
    let overdue = now.since(until) > REPLAY_OVERDUE_MAX;
    let at = if now < until { now } else { learnt };
    match state.policy_status(profile, at) {
        PolicyStatus::Current(policy) if !overdue => Ok(policy),
        _ => Err(Unknown("its robots.txt was to be asked for again before its time")),
    }
}

fn copy(robots: &Robots, file: &Arc<RobotsTxt>, tried: Timestamp) -> RobotsCopy {
    let fetched_at = robots.fetched_at.unwrap_or(tried);
    let snapshot = Snapshot {
        // The rules have been read from it; nothing else asks for it.
        body: bytes::Bytes::new(),
        sha256: robots.sha256.as_deref().and_then(digest).unwrap_or_default(),
        cut: robots.cut,
        status: 200,
        url: robots.url_reached.clone().unwrap_or_else(|| robots.url.clone()),
        hops: 0,
        fetched_at,
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    RobotsCopy {
        rules: Arc::clone(file),
        snapshot: Arc::new(snapshot),
        confirmed_at: robots.confirmed_at.unwrap_or(fetched_at),
    }
}

/// Why the last attempt brought no file; none where it did.
fn cause(
    robots: &Robots,
    profile: &Profile,
    failed: Option<&CaptureRecord>,
) -> Result<Option<Cause>, Unknown> {
    let status = || {
        let answered =
            failed.and_then(|capture| capture.answers.last()).map(|answer| answer.status);
        // Where the copy decided, the record's status is that of the copy.
        let recorded = robots.status.filter(|_| robots.cause.is_some());
        answered
            .or(recorded)
            .ok_or(Unknown("it does not tell which status the server answered with"))
    };
    let word =
        robots.result.as_deref().ok_or(Unknown("it does not tell how robots.txt was asked for"))?;
    Ok(Some(match word {
        "successful" => return Ok(None),
        // A page that was read as the file. One that was not has a capture of its own.
        "not_robots_txt" if robots.failed_capture.is_none() => return Ok(None),
        // Before any fetch it has no file.
        "not_modified" => Cause::Status { code: 304, retry_after: None },
        "status" => Cause::Status { code: status()?, retry_after: None },
        "too_many_redirects" => Cause::TooManyRedirects { limit: profile.redirects_max },
        "redirect_loop" => Cause::RedirectLoop,
        "redirect_without_location" => Cause::RedirectWithoutLocation { code: status()? },
        word => {
            let failure = NetworkFailure::ALL.into_iter().find(|failure| failure.word() == word);
            let failure = failure
                .ok_or(Unknown("the word for how robots.txt could not be had is not known"))?;
            Cause::failed(failure, "")
        }
    }))
}

/// Whether the status of the last attempt stands in its capture alone.
pub(super) fn needs_capture(robots: &Robots) -> bool {
    robots.cause.is_none()
        && matches!(robots.result.as_deref(), Some("status" | "redirect_without_location"))
}
