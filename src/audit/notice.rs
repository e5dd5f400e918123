//! What the log says of itself: lines of the same chain that are no decision. Members in
//! alphabetical order, as in a record. None has a `reason`: by that member records are told from notices.
//!
//! To add a kind, write its struct below, with the members that all have (`event`, `node`, `prev`, `seq`,
//! `time`), and give it a row in [`notices!`].

use serde::{Deserialize, Serialize};

use super::node::Node;
use crate::moment::Moment;

/// Makes [`Notice`] of the kinds, each with the word of its `event` and the type that has only that word.
macro_rules! notices {
    ($($kind:ident = $word:literal as $event:ident;)+) => {
        /// The `event` tells which. It comes first in none of them: `event` is a member like any other.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(untagged)]
        pub enum Notice {
            $($kind($kind),)+
        }

        $(
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            pub enum $event {
                #[default]
                #[serde(rename = $word)]
                It,
            }
        )+

        impl Notice {
            /// The `event` of each kind. They are a public interface: a word is added, never changed.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Its `event`.
            pub const fn word(&self) -> &'static str {
                match self { $(Self::$kind(_) => $word,)+ }
            }

            pub const fn seq(&self) -> u64 {
                match self { $(Self::$kind(it) => it.seq,)+ }
            }

            pub const fn time(&self) -> Moment {
                match self { $(Self::$kind(it) => it.time,)+ }
            }

            /// The proxy that wrote it; none in a log of an earlier version.
            pub const fn node(&self) -> Option<&Node> {
                match self { $(Self::$kind(it) => it.node.as_ref(),)+ }
            }

            pub(super) fn put(&mut self, place: u64, hash: String) {
                match self { $(Self::$kind(it) => (it.seq, it.prev) = (place, hash),)+ }
            }

            pub(super) fn set_node(&mut self, node: Option<Node>) {
                match self { $(Self::$kind(it) => it.node = node,)+ }
            }
        }
    };
}

notices! {
    Gap = "gap" as GapEvent;
    Torn = "torn" as TornEvent;
    Pruned = "pruned" as PrunedEvent;
    Totals = "totals" as TotalsEvent;
}

/// Records could not be written, and are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    pub event: GapEvent,
    /// How many records.
    pub lost: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    pub seq: u64,
    /// When the first of them was lost.
    #[serde(with = "super::time")]
    pub since: Moment,
    #[serde(with = "super::time")]
    pub time: Moment,
    /// What the operating system said.
    pub why: String,
}

/// The end of the log was no whole line, as after a crash; it was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torn {
    pub event: TornEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub octets: u64,
    pub prev: String,
    pub seq: u64,
    /// Of the octets, in hexadecimal.
    pub sha256: String,
    #[serde(with = "super::time")]
    pub time: Moment,
}

/// Lines that were older than they are kept have been removed, from the beginning of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pruned {
    pub event: PrunedEvent,
    /// The hash of the last line that was removed.
    pub last_hash: String,
    /// Its number.
    pub last_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Moment,
}

/// How many decisions there were in a time, those that leave no record included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests decided by their host alone.
    pub by_host: u64,
    /// Requests decided by their path.
    pub by_path: u64,
    pub denied: u64,
    pub event: TotalsEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// The records between the `totals` before this one and this one, as they are in the chain; since the
    /// writer was opened where there is none between. Left out by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    pub seq: u64,
    #[serde(with = "super::time")]
    pub since: Moment,
    #[serde(with = "super::time")]
    pub time: Moment,
}

/// How many records of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    pub denied: u64,
    pub exempted: u64,
    pub tunnelled: u64,
    pub would_deny: u64,
}
