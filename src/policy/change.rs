//! What another robots.txt, or another state of it, changes for the agents that go by it.
//!
//! Compared is what a profile understands of two files, not their text: comments, the order of groups and, where
//! the most specific rule decides, the order of rules change nothing (RFC 9309 §2.2).

mod lines;
mod rules;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::profile::{Meaning, Profile};
use super::state::{Copy, RobotsState};
use crate::robots::RobotsTxt;
pub use lines::line_counts;

/// What a change amounts to. The words are a public interface: one is added, never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another text that means the same.
    Cosmetic,
    /// Less is disallowed: the rules of before, and further `allow` rules; or without some `disallow` rules.
    Wider,
    /// More is disallowed: the rules of before, and further `disallow` rules; or without some `allow` rules.
    Narrower,
    /// Other rules, of which neither can be said.
    Mixed,
    /// The same rules, and other records: sitemaps, delays, request rates, content use.
    Signals,
    /// There was no file, and there is one.
    Appeared,
    /// There was a file, and there is none.
    Gone,
    /// It cannot be had any more (RFC 9309 §2.3.1.4), or is kept from us.
    Unreadable,
    /// It can be had again, or it is known again that there is none.
    Back,
}

/// What changed under one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: Kind,
    /// The agents whose rules or records changed, as they or the file name them; `*` is everybody else. No more
    /// than [`TOUCHED_MAX`].
    pub agents: Vec<String>,
}

/// Agents of a [`Change`].
pub const TOUCHED_MAX: usize = 16;

/// How a robots.txt stands, as far as it tells one kind of change from another.
#[derive(Clone, Copy, Debug)]
enum Stand<'a> {
    Rules(&'a Copy),
    /// The origin says that there is none, and that means that all is allowed.
    NoFile,
    /// It cannot be had, or is kept from us. With the copy from before, where there is one.
    Closed(Option<&'a Copy>),
}

impl Kind {
    /// All there are.
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

    /// What two changes amount to, of two agents in the same file: rules weigh more than other records, and wider
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
    /// Nothing where the file was never asked for.
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

/// What changed from `before` to `after` under `profile` for the agents with these product tokens (`None`: without
/// one), for everybody else and for whom the file names. `None`: nothing did, or nothing is known of before.
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
        // What the file was before is not known.
        (Stand::Closed(None), Stand::Rules(_) | Stand::NoFile) => of(Kind::Back, None, None),
        (Stand::NoFile, Stand::NoFile) | (Stand::Closed(_), Stand::Closed(_)) => None,
    }
}

/// Whether two copies are of one file: of the same bytes or, where one of them was cut, of the same as far as both
/// go. Another size limit is no other file.
pub fn is_same_file(one: &Copy, other: &Copy) -> bool {
    let (one, other) = (&*one.snapshot, &*other.snapshot);
    if one.sha256 == other.sha256 {
        return true;
    }
    let (shorter, longer) =
        if one.body.len() <= other.body.len() { (one, other) } else { (other, one) };
    shorter.cut && longer.body.starts_with(&shorter.body)
}

/// What is understood of two files; no file is one without rules.
fn compare(before: Option<&RobotsTxt>, after: Option<&RobotsTxt>, seen: &[Option<&str>]) -> Change {
    rules::Comparison::new(before, after).of_agents(seen)
}
