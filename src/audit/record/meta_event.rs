//! The `event` of each kind of notice: a type with one value, so that a line of another kind does not parse.
//! The words are a public interface: a word is added, never changed.

use serde::{Deserialize, Serialize};

/// Makes the type of each word.
macro_rules! events {
    ($($event:ident = $word:literal;)+) => {
        $(
            #[doc = concat!("The `event` \"", $word, "\".")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            pub enum $event {
                /// The only value.
                #[default]
                #[serde(rename = $word)]
                It,
            }

            impl $event {
                /// As a line has it.
                pub const WORD: &str = $word;
            }
        )+
    };
}

events! {
    GapEvent = "gap";
    TornEvent = "torn";
    PrunedEvent = "pruned";
    TotalsEvent = "totals";
    StartedEvent = "started";
    SettingsEvent = "settings";
    StoppedEvent = "stopped";
    ChangedEvent = "changed";
    ChangesOmittedEvent = "changes_omitted";
    PacedEvent = "paced";
    EvidenceLostEvent = "evidence_lost";
    RewoundEvent = "rewound";
}
