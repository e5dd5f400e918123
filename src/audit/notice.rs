//! What the log says of itself: lines of the same chain that are no decision. Members in
//! alphabetical order, as in a record.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// The `event` tells which. It comes first in none of them: `event` is a member like any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Notice {
    Gap(Gap),
    Torn(Torn),
    Pruned(Pruned),
    Totals(Totals),
}

/// Records could not be written, and are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    pub event: GapEvent,
    /// How many records.
    pub lost: u64,
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
    pub prev: String,
    pub seq: u64,
    #[serde(with = "super::time")]
    pub since: Moment,
    #[serde(with = "super::time")]
    pub time: Moment,
}

macro_rules! event {
    ($($name:ident = $word:literal),+ $(,)?) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            #[serde(rename = $word)]
            It,
        }
    )+};
}

event! { GapEvent = "gap", TornEvent = "torn", PrunedEvent = "pruned", TotalsEvent = "totals" }

impl Notice {
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Gap(Gap { seq, .. })
            | Self::Torn(Torn { seq, .. })
            | Self::Pruned(Pruned { seq, .. })
            | Self::Totals(Totals { seq, .. }) => *seq,
        }
    }

    pub const fn time(&self) -> Moment {
        match self {
            Self::Gap(Gap { time, .. })
            | Self::Torn(Torn { time, .. })
            | Self::Pruned(Pruned { time, .. })
            | Self::Totals(Totals { time, .. }) => *time,
        }
    }

    pub(super) fn put(&mut self, place: u64, hash: String) {
        let (seq, prev) = match self {
            Self::Gap(Gap { seq, prev, .. })
            | Self::Torn(Torn { seq, prev, .. })
            | Self::Pruned(Pruned { seq, prev, .. })
            | Self::Totals(Totals { seq, prev, .. }) => (seq, prev),
        };
        (*seq, *prev) = (place, hash);
    }
}
