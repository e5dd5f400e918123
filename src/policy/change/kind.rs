//! A change, by its kind and its agents.

use serde::{Deserialize, Serialize};

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
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Cosmetic) | (Self::Cosmetic, one) => one,
            (one, Self::Signals) | (Self::Signals, one) => one,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }
}
