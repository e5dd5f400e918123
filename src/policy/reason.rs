//! The table of reasons: why a request is denied. Records, problem documents (RFC 9457), metrics,
//! reports and the log commands read their words from its rows.

use serde::{Deserialize, Serialize};

use super::decision::Basis;
use crate::robots;
use crate::types::problem::Problem;

/// Why a request was denied, or would have been. The order is that of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A disallow rule of robots.txt is the most specific match.
    DisallowRule,
    /// robots.txt cannot be fetched (RFC 9309 §2.3.1.4).
    RobotsUnreachable,
    /// robots.txt answers 401 or 403, and the profile reads that as a refusal of everything.
    RobotsAccessDenied,
    /// The operator does not permit the origin: its address, its name or its port.
    OriginRefused,
    /// No decision in time, or the rules take too many steps for the URL: undecided is denied.
    Undecided,
    /// Some paths of the host are disallowed, and only the host is known.
    PathNotSeen,
    /// The bytes inside a CONNECT are neither TLS nor HTTP.
    TunnelNotHttp,
    /// The request has no User-Agent and `agents.require` is set.
    AgentRequired,
    /// The name in a client's TLS handshake (SNI) is not the host of its CONNECT.
    SniMismatch,
    /// A service that `courtesy run --sealed --reach` names. It is tunnelled, and never denied.
    Reach,
}

/// One reason, as each place that lists reasons shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub reason: Reason,
    /// The `reason` of a record, and the label `reason` of the metrics. A public interface: a word
    /// is added, never changed.
    pub word: &'static str,
    /// The label `basis` of `courtesy_decisions_total`.
    pub basis: &'static str,
    /// Whether the denial follows from the robots.txt or from its absence, so that its evidence can
    /// be decided again.
    pub is_of_robots: bool,
    /// Whether an exemption or the mode `observe` can let the request through.
    pub can_be_waived: bool,
    /// What the client gets: its texts stand in `types/problem.rs`.
    pub problem: Problem,
    /// In reports.
    pub label: &'static str,
    /// In `courtesy audit show`: `{robots}` is the URL of the robots.txt, `{cause}` why it could
    /// not be fetched.
    pub explanation: &'static str,
    /// The outcome of `courtesy audit replay`.
    pub replayed: &'static str,
    /// In the chart of the HTML report, on a light and on a dark page.
    pub colors: [&'static str; 2],
}

/// The table, in the order of [`Reason`].
const ROWS: [Row; 10] = [
    Row {
        reason: Reason::DisallowRule,
        word: "disallow_rule",
        basis: "rule",
        is_of_robots: true,
        can_be_waived: true,
        problem: Problem::Disallowed,
        label: "disallowed by a rule",
        explanation: "{robots} disallows it for {agent}",
        replayed: "disallowed",
        colors: ["#3b6ea8", "#6ea3dc"],
    },
    Row {
        reason: Reason::RobotsUnreachable,
        word: "robots_unreachable",
        basis: "unreachable",
        is_of_robots: true,
        can_be_waived: true,
        problem: Problem::RobotsUnreachable,
        label: "robots.txt unreachable",
        explanation: "{robots} could not be fetched ({cause}), so everything on {origin} was \
                      disallowed (RFC 9309 §2.3.1.4)",
        replayed: "disallowed: robots.txt is unreachable",
        colors: ["#c9711a", "#eda150"],
    },
    Row {
        reason: Reason::RobotsAccessDenied,
        word: "robots_access_denied",
        basis: "unavailable",
        is_of_robots: true,
        can_be_waived: true,
        problem: Problem::RobotsAccessDenied,
        label: "robots.txt access denied",
        explanation: "{origin} denies access to its robots.txt ({cause}), which the profile reads \
                      as a refusal of everything",
        replayed: "disallowed: access to robots.txt is denied",
        colors: ["#8a6fb8", "#b39ae0"],
    },
    Row {
        reason: Reason::OriginRefused,
        word: "origin_refused",
        basis: "origin_refused",
        is_of_robots: false,
        can_be_waived: false,
        problem: Problem::OriginRefused,
        label: "refused by egress policy",
        explanation: "the egress policy does not permit {origin}",
        replayed: "disallowed",
        colors: ["#b5485d", "#e27b8e"],
    },
    Row {
        reason: Reason::Undecided,
        word: "undecided",
        basis: "undecided",
        is_of_robots: false,
        can_be_waived: true,
        problem: Problem::Undecided,
        label: "not decided",
        explanation: "no decision could be made in time, and undecided is denied",
        replayed: "undecided: the rules take too many steps for the URL",
        colors: ["#a68500", "#e3c64a"],
    },
    Row {
        reason: Reason::PathNotSeen,
        word: "path_not_seen",
        basis: "path_not_seen",
        is_of_robots: true,
        can_be_waived: true,
        problem: Problem::PathNotSeen,
        label: "path not seen",
        explanation: "some paths of {origin} are disallowed for {agent}, and only the host was known",
        replayed: "disallowed: some paths are, and the path is not seen",
        colors: ["#4b9a76", "#74c29c"],
    },
    Row {
        reason: Reason::TunnelNotHttp,
        word: "tunnel_not_http",
        basis: "tunnel_not_http",
        is_of_robots: false,
        can_be_waived: false,
        problem: Problem::NotServed,
        label: "tunnel is not HTTP",
        explanation: "the bytes inside the CONNECT were neither TLS nor HTTP",
        replayed: "disallowed",
        colors: ["#7d8790", "#9aa5ae"],
    },
    Row {
        reason: Reason::AgentRequired,
        word: "agent_required",
        basis: "agent_required",
        is_of_robots: false,
        can_be_waived: false,
        problem: Problem::AgentRequired,
        label: "no User-Agent",
        explanation: "the request had no User-Agent, and agents.require is set",
        replayed: "disallowed",
        colors: ["#3b8fa5", "#77c4d8"],
    },
    Row {
        reason: Reason::SniMismatch,
        word: "sni_mismatch",
        basis: "sni_mismatch",
        is_of_robots: false,
        can_be_waived: false,
        problem: Problem::NotServed,
        label: "another name in TLS",
        explanation: "the client's TLS does not name the host of its CONNECT, {url}",
        replayed: "disallowed",
        colors: ["#b06a9b", "#dd9fc9"],
    },
    Row {
        reason: Reason::Reach,
        word: "reach",
        basis: "reach",
        is_of_robots: false,
        can_be_waived: false,
        problem: Problem::NotServed,
        label: "named service",
        explanation: "{origin} is a service that --reach names: its connections are relayed, and what \
                      passes in them is not seen",
        replayed: "tunnelled",
        colors: ["#5f7d3a", "#a3c678"],
    },
];

impl Reason {
    /// Every reason, in order.
    pub const ALL: [Self; ROWS.len()] = {
        let mut all = [Self::DisallowRule; ROWS.len()];
        let mut at = 0;
        while at < ROWS.len() {
            all[at] = ROWS[at].reason;
            at += 1;
        }
        all
    };

    /// Its row of the table.
    pub const fn row(self) -> &'static Row {
        const TABLE: &[Row; ROWS.len()] = &ROWS;
        &TABLE[self as usize]
    }

    /// The problem of a denial for it.
    pub const fn problem(self) -> Problem {
        self.row().problem
    }

    /// As records have it.
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// Why something is disallowed on this basis.
    pub const fn of(basis: &Basis<'_>) -> Self {
        match basis {
            Basis::Unavailable(_) => Self::RobotsAccessDenied,
            Basis::Unreachable(_) | Basis::LongUnreachable(_) => Self::RobotsUnreachable,
            Basis::Rules(robots::Basis::TooManySteps { .. }) => Self::Undecided,
            Basis::Rules(_) => Self::DisallowRule,
        }
    }

    /// Whether a request can be denied for it.
    pub const fn can_deny(self) -> bool {
        !matches!(self, Self::Reach)
    }

    /// Whether it follows from the robots.txt, or from the lack of it.
    pub const fn is_of_robots(self) -> bool {
        self.row().is_of_robots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_row_and_its_word() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!(row.reason as usize, place, "{}", row.word);
            assert_eq!(row.reason.row(), row);
            assert_eq!(serde_json::to_value(row.reason).unwrap(), row.word);
        }
        // A variant without a row is named here.
        let expected = serde_json::from_value::<Reason>("".into()).unwrap_err().to_string();
        let last = ROWS[ROWS.len() - 1].word;
        assert!(expected.ends_with(&format!("`{last}`")), "{expected}");
    }
}
