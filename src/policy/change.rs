//! Classifies what a new robots.txt, or a new state of it, changes for the agents that it applies
//! to.
//!
//! It compares what a profile understands of two files, not their text: comments, the order of
//! groups and, where the most specific rule decides, the order of rules change nothing (RFC 9309
//! §2.2).

mod kind;
mod lines;
mod rules;
#[cfg(test)]
mod tests;

use super::profile::{Meaning, Profile};
use super::state::{RobotsCopy, RobotsState};
use crate::robots::RobotsTxt;
pub use kind::{Change, Kind, TOUCHED_MAX};
pub use lines::line_counts;

/// The state of a robots.txt, as far as kinds of changes distinguish it.
#[derive(Clone, Copy, Debug)]
enum Stand<'a> {
    Rules(&'a RobotsCopy),
    /// The origin states that there is none, and that allows everything.
    NoFile,
    /// It is unreachable or access to it is denied. With the earlier copy, if there is one.
    Closed(Option<&'a RobotsCopy>),
}

impl<'a> Stand<'a> {
    /// `None` if the file was never fetched.
    fn of(state: &'a RobotsState, profile: &Profile) -> Option<Self> {
        Some(match state {
            RobotsState::Unknown => return None,
            RobotsState::Successful { copy, .. } => Self::Rules(copy),
            RobotsState::Unavailable { cause, copy, .. } => match profile.meaning(cause) {
                Meaning::Unavailable => Self::NoFile,
                Meaning::Forbidden | Meaning::Unreachable => Self::Closed(copy.as_ref()),
            },
            // Nothing has changed at the origin.
            RobotsState::Unreachable(outage) if outage.cause.is_of_parent() => {
                Self::Rules(outage.copy.as_ref()?)
            }
            RobotsState::Unreachable(outage) => Self::Closed(outage.copy.as_ref()),
        })
    }
}

/// The change from `before` to `after` under `profile` for the agents with these product tokens
/// (`None`: without one), for every other agent, and for agents that the file names. `None` if
/// nothing changed, or nothing is known of `before`.
pub fn change(
    before: &RobotsState,
    after: &RobotsState,
    profile: &Profile,
    seen: &[Option<&str>],
) -> Option<Change> {
    let of = |kind, before: Option<&RobotsCopy>, after: Option<&RobotsCopy>| {
        let compared =
            compare(before.map(|copy| &*copy.rules), after.map(|copy| &*copy.rules), seen);
        Some(Change { kind, ..compared })
    };
    match (Stand::of(before, profile)?, Stand::of(after, profile)?) {
        (Stand::Rules(before), Stand::Rules(after)) if is_same_file(before, after) => None,
        (Stand::Rules(before), Stand::Rules(after)) => {
            Some(compare(Some(&before.rules), Some(&after.rules), seen))
        }
        (Stand::NoFile, Stand::Rules(after)) => of(Kind::Appeared, None, Some(after)),
        (Stand::Rules(before) | Stand::Closed(Some(before)), Stand::NoFile) => {
            of(Kind::Gone, Some(before), None)
        }
        (Stand::Rules(_) | Stand::NoFile, Stand::Closed(_)) => of(Kind::Unreadable, None, None),
        (Stand::Closed(Some(before)), Stand::Rules(after)) => {
            of(Kind::Back, Some(before), Some(after))
        }
        // The earlier content is unknown.
        (Stand::Closed(None), Stand::Rules(_) | Stand::NoFile) => of(Kind::Back, None, None),
        (Stand::NoFile, Stand::NoFile) | (Stand::Closed(_), Stand::Closed(_)) => None,
    }
}

/// Whether two copies are of one file: equal or, if one is truncated, equal as far as both reach.
/// Another size limit makes no other file.
pub fn is_same_file(one: &RobotsCopy, other: &RobotsCopy) -> bool {
    let (one, other) = (&*one.snapshot, &*other.snapshot);
    if one.sha256 == other.sha256 {
        return true;
    }
    let (shorter, longer) =
        if one.body.len() <= other.body.len() { (one, other) } else { (other, one) };
    shorter.cut && longer.body.starts_with(&shorter.body)
}

/// The parsed files; a missing one has no rules.
fn compare(before: Option<&RobotsTxt>, after: Option<&RobotsTxt>, seen: &[Option<&str>]) -> Change {
    rules::Comparison::new(before, after).of_agents(seen)
}
