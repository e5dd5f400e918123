//! The words of a record's `event` and of other members. They are a public interface: a word is added,
//! never changed. Those of `reason` are in the table of [`crate::policy::reason`].

use serde::{Deserialize, Serialize};

use crate::policy::decision::Basis;
use crate::robots;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The request was refused.
    Denied,
    /// It would have been, but the mode is `observe`: it was forwarded.
    WouldDeny,
    /// It would have been, but an exemption applies: it was forwarded.
    Exempted,
    /// A connection was tunnelled although some paths of the host are disallowed, or to a service that
    /// `--reach` names: what was asked for could not be seen.
    Tunnelled,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Denied, Self::WouldDeny, Self::Exempted, Self::Tunnelled];

    /// As records have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::WouldDeny => "would_deny",
            Self::Exempted => "exempted",
            Self::Tunnelled => "tunnelled",
        }
    }
}

/// Why a request was allowed: the words of [`crate::policy::decision::Basis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedReason {
    /// It was for the robots.txt itself.
    RobotsTxtItself,
    /// No group of the file applies.
    NoGroup,
    /// No rule of the group matches.
    NoRule,
    /// An allow rule is the most specific match.
    Rule,
    /// There is no robots.txt.
    Unavailable,
    /// It cannot be had, and the profile permits that.
    Unreachable,
    LongUnreachable,
}

impl AllowedReason {
    /// Of the basis of a decision that allows.
    pub const fn of(basis: &Basis<'_>) -> Self {
        match basis {
            Basis::Rules(robots::Basis::RobotsTxtItself) => Self::RobotsTxtItself,
            Basis::Rules(robots::Basis::NoGroup) => Self::NoGroup,
            Basis::Rules(robots::Basis::Rule { .. }) => Self::Rule,
            // What takes too many steps is not allowed.
            Basis::Rules(robots::Basis::NoRule { .. } | robots::Basis::TooManySteps { .. }) => {
                Self::NoRule
            }
            Basis::Unavailable(_) => Self::Unavailable,
            Basis::Unreachable(_) => Self::Unreachable,
            Basis::LongUnreachable(_) => Self::LongUnreachable,
        }
    }
}

/// How the product token was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    /// A rule under `[[agents.rules]]`.
    Configured,
    /// Derived from the User-Agent.
    UserAgent,
    /// There is no User-Agent: the user's own, by the credentials for the proxy.
    Credentials,
    /// There is no User-Agent.
    Absent,
}

/// What is known of the robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsStatus {
    /// There are rules.
    Rules,
    /// The origin states that there are none (RFC 9309 §2.3.1.3).
    Unavailable,
    /// It is not known whether there are any (RFC 9309 §2.3.1.4).
    Unreachable,
}

// The `event` of each kind of notice: a type with one value, so that a line of another kind does not parse.
// The words are a public interface: a word is added, never changed.

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
    PulseEvent = "pulse";
    PublishedEvent = "published";
    OperatedEvent = "operated";
    FileEvent = "file";
    CountsEvent = "counts";
    AllowedEvent = "allowed";
    CheckpointEvent = "checkpoint";
}
