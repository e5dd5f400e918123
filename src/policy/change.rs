//! Classifies what a new robots.txt, or a new state of it, changes for the agents that it applies
//! to.
//!
//! It compares what a profile understands of two files, not their text: comments, the order of
//! groups and, where the most specific rule decides, the order of rules change nothing (RFC 9309
//! §2.2).

mod lines;
mod rules;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::profile::{Meaning, Profile};
use super::state::{Copy, RobotsState};
use crate::robots::RobotsTxt;
pub use lines::line_counts;

/// The kind of a change. The words are a public interface: they may be added to, never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another text of the same meaning.
    Cosmetic,
    /// Less is disallowed: all earlier rules and further `allow` rules; or some `disallow` rules
    /// removed.
    Wider,
    /// More is disallowed: all earlier rules and further `disallow` rules; or some `allow` rules
    /// removed.
    Narrower,
    /// Other rules, of which neither can be said.
    Mixed,
    /// The same rules, and other records: sitemaps, delays, request rates, content use.
    Signals,
    /// A file appeared.
    Appeared,
    /// The file disappeared.
    Gone,
    /// The file became unreachable (RFC 9309 §2.3.1.4), or access to it was denied.
    Unreadable,
    /// The file can be fetched again, or is known again not to exist.
    Back,
}

/// A change under one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: Kind,
    /// The agents whose rules or records changed, as they or the file name them; `*` is every other
    /// agent. At most [`TOUCHED_MAX`].
    pub agents: Vec<String>,
}

/// The agents of a [`Change`].
pub const TOUCHED_MAX: usize = 16;

/// The state of a robots.txt, as far as kinds of changes distinguish it.
#[derive(Clone, Copy, Debug)]
enum Stand<'a> {
    Rules(&'a Copy),
    /// The origin states that there is none, and that allows everything.
    NoFile,
    /// It is unreachable or access to it is denied. With the earlier copy, if there is one.
    Closed(Option<&'a Copy>),
}

impl Kind {
    /// All variants.
    pub const ALL: [Self; 9] = [
        Self::Cosmetic,
        Self::Wider,
        Self::Narrower,
        Self::Mixed,
        Self::Signals,
        Self::Appeared,
        Self::Gone,
        Self::Unreadable,
        Self::Back,
    ];

    /// The stable word of notices and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Mixed => "mixed",
            Self::Signals => "signals",
            Self::Appeared => "appeared",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Back => "back",
        }
    }

    /// Combines the changes of two agents in the same file: rules outweigh other records, and wider
    /// for one but narrower for the other is mixed.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Cosmetic) | (Self::Cosmetic, one) => one,
            (one, Self::Signals) | (Self::Signals, one) => one,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }
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
    let of = |kind, before: Option<&Copy>, after: Option<&Copy>| {
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
pub fn is_same_file(one: &Copy, other: &Copy) -> bool {
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
