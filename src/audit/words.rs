//! The words of a record's `event` and `reason`. They are a public interface: a word is added, never
//! changed.

use serde::{Deserialize, Serialize};

use crate::policy::decision::Basis;

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
    /// A connection was tunnelled although some paths of the host are disallowed: which paths were
    /// asked for could not be seen.
    Tunnelled,
}

/// Why: one word for each basis of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A disallow rule of robots.txt is the most specific match.
    DisallowRule,
    /// robots.txt cannot be had (RFC 9309 §2.3.1.4).
    RobotsUnreachable,
    /// robots.txt answers 401 or 403, and the profile reads that as a refusal of everything.
    RobotsAccessDenied,
    /// The operator does not let the origin be reached: by its address, its name or its port.
    OriginRefused,
    /// Nothing could be decided in time, or the rules take too many steps for the URL: undecided is denied.
    Undecided,
    /// Some paths of the host are disallowed, and only the host is known.
    PathNotSeen,
    /// What ran inside a CONNECT is neither TLS nor HTTP.
    TunnelNotHttp,
    /// The request has no User-Agent and `agents.require` is set.
    AgentRequired,
    /// The name in a client's TLS handshake (SNI) is not the host of its CONNECT.
    SniMismatch,
}

impl Event {
    /// As records have it.
    pub fn word(self) -> String {
        word(self)
    }
}

impl Reason {
    pub const ALL: [Self; 9] = [
        Self::DisallowRule,
        Self::RobotsUnreachable,
        Self::RobotsAccessDenied,
        Self::OriginRefused,
        Self::Undecided,
        Self::PathNotSeen,
        Self::TunnelNotHttp,
        Self::AgentRequired,
        Self::SniMismatch,
    ];

    /// As records have it.
    pub fn word(self) -> String {
        word(self)
    }

    /// Why something is disallowed on this basis.
    pub const fn of(basis: &Basis<'_>) -> Self {
        match basis {
            Basis::Unavailable(_) => Self::RobotsAccessDenied,
            Basis::Unreachable(_) | Basis::LongUnreachable(_) => Self::RobotsUnreachable,
            Basis::TooManySteps { .. } => Self::Undecided,
            Basis::Rule { .. } | Basis::RobotsTxtItself | Basis::NoGroup | Basis::NoRule { .. } => {
                Self::DisallowRule
            }
        }
    }

    /// Whether it follows from the robots.txt, or from the lack of it.
    pub const fn is_of_robots(self) -> bool {
        match self {
            Self::DisallowRule
            | Self::RobotsUnreachable
            | Self::RobotsAccessDenied
            | Self::PathNotSeen => true,
            Self::OriginRefused
            | Self::Undecided
            | Self::TunnelNotHttp
            | Self::AgentRequired
            | Self::SniMismatch => false,
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
    /// There are none to be had, and the origin says so (RFC 9309 §2.3.1.3).
    Unavailable,
    /// It is not known whether there are any (RFC 9309 §2.3.1.4).
    Unreachable,
}

fn word(value: impl Serialize) -> String {
    let word = serde_json::to_value(value).expect("it is a word");
    word.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reasons_are_counted_up_in_order_to_the_last() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{}", reason.word());
        }
        // Whoever adds a reason after the last one is told here.
        let expected = serde_json::from_value::<Reason>("".into()).unwrap_err().to_string();
        let last = Reason::ALL[Reason::ALL.len() - 1].word();
        assert!(expected.ends_with(&format!("`{last}`")), "{expected}");
    }
}
