//! The table of reasons: why a request is denied. Records, problem documents (RFC 9457), metrics,
//! reports and the log commands read their words from its rows.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::decision::Basis;

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

/// A problem type (RFC 9457 §3.1.1), as users read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemType {
    /// The last segment of its URI.
    pub name: &'static str,
    /// The title of the problem document, and the reason phrase of the response.
    pub title: &'static str,
    pub meaning: &'static str,
    /// What the user can do about it.
    pub remedy: &'static str,
}

/// One reason, as each place that lists reasons shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub reason: Reason,
    /// The `reason` of a record, and the label `reason` of the metrics. A public interface: a word is
    /// added, never changed.
    pub word: &'static str,
    /// The label `basis` of `courtesy_decisions_total`.
    pub basis: &'static str,
    /// Whether the denial follows from the robots.txt or from its absence, so that its evidence can
    /// be decided again.
    pub is_of_robots: bool,
    /// Whether an exemption or the mode `observe` can let the request through.
    pub can_be_waived: bool,
    pub problem: ProblemType,
    /// In reports.
    pub label: &'static str,
    /// In `courtesy audit show`: `{robots}` is the URL of the robots.txt, `{cause}` why it could not
    /// be fetched.
    pub explanation: &'static str,
    /// The outcome of `courtesy audit replay`.
    pub replayed: &'static str,
    /// In the chart of the HTML report, on a light and on a dark page.
    pub colors: [&'static str; 2],
}

/// The problem type of what the proxy does not support.
pub const NOT_SERVED: ProblemType = ProblemType {
    name: "not-served",
    title: "Not supported",
    meaning: "The proxy does not support the method, scheme or expectation of the request.",
    remedy: "Use http:// or https:// URLs in absolute form, or CONNECT for HTTPS.",
};

/// The table, in the order of [`Reason`].
const ROWS: [Row; 10] = [
    Row {
        reason: Reason::DisallowRule,
        word: "disallow_rule",
        basis: "rule",
        is_of_robots: true,
        can_be_waived: true,
        problem: ProblemType {
            name: "disallowed",
            title: "Disallowed by robots.txt",
            meaning: "A rule of the site's robots.txt disallows this URL to this agent.",
            remedy: "Leave the URL out, or ask the site for permission and add an exemption.",
        },
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
        problem: ProblemType {
            name: "robots-unreachable",
            title: "robots.txt unreachable",
            meaning: "The site's robots.txt cannot be fetched, so everything on the site is \
                      disallowed (RFC 9309 §2.3.1.4).",
            remedy: "Try again after the time in Retry-After: the proxy fetches the file again then.",
        },
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
        problem: ProblemType {
            name: "robots-access-denied",
            title: "Access to robots.txt denied",
            meaning: "The site answers 401 or 403 for its robots.txt, and the profile in use reads \
                      that as a refusal of everything.",
            remedy: "Ask the site, or choose a profile that follows RFC 9309 §2.3.1.3.",
        },
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
        problem: ProblemType {
            name: "origin-refused",
            title: "Destination not permitted",
            meaning: "The proxy does not connect to this host: its address is private, \
                      special-purpose or denied, or its name is not permitted.",
            remedy: "To permit it, change the setting that the detail names; --allow-private \
                     permits private addresses.",
        },
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
        problem: ProblemType {
            name: "undecided",
            title: "Not decided",
            meaning: "No decision could be made in time, or the rules take too many steps for this \
                      URL, and undecided is denied.",
            remedy: "Try again, or a shorter URL; if it persists, raise robots.fetch_timeout or \
                     look at the proxy's load.",
        },
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
        problem: ProblemType {
            name: "path-not-seen",
            title: "Path not visible",
            meaning: "Some paths of this host are disallowed, and in classify mode the proxy cannot \
                      see which path is requested.",
            remedy: "Use the intercept mode, list the host in https.tunnel, or set https.mixed to \
                     \"tunnel\".",
        },
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
        problem: NOT_SERVED,
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
        problem: ProblemType {
            name: "agent-required",
            title: "User-Agent required",
            meaning: "The request has no User-Agent, and agents.require is set.",
            remedy: "Send a User-Agent that names the crawler and a page about it.",
        },
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
        problem: NOT_SERVED,
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
        problem: NOT_SERVED,
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

    /// As records have it.
    pub const fn word(self) -> &'static str {
        self.row().word
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

    /// Whether a request can be denied for it.
    pub const fn can_deny(self) -> bool {
        !matches!(self, Self::Reach)
    }

    /// Whether it follows from the robots.txt, or from the lack of it.
    pub const fn is_of_robots(self) -> bool {
        self.row().is_of_robots
    }
}
