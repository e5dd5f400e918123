//! The problem types (RFC 9457), and the texts of their pages in one language: name, title, meaning
//! and remedy. The responses that the proxy makes itself and the pages behind the `type` URIs show
//! them; a test compares the table in `docs/reference/problems.md` with them.

/// The name under which the proxy answers for itself. `.internal` is reserved for private use, so
/// no origin is ever shadowed.
pub const OWN_NAME: &str = "courtesy.internal";

impl Problem {
    /// The `type` of the problem (RFC 9457 §3.1.1); through the proxy, the page can be fetched.
    pub fn uri(self) -> String {
        format!("http://{OWN_NAME}/problems/{}", self.row().name)
    }

    /// The problem with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.row().name == name)
    }
}

/// Why the proxy responds in place of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    Disallowed,
    RobotsUnreachable,
    RobotsAccessDenied,
    HostNotFound,
    OriginRefused,
    Undecided,
    AgentRequired,
    ClientNotAllowed,
    CredentialsRequired,
    PathNotSeen,
    PortNotAllowed,
    BadRequest,
    NotServed,
    Loop,
    OriginFailed,
    OriginTimeout,
    ParentFailed,
    Busy,
    AuditUnavailable,
    CaNotValid,
    Paced,
    OriginHeld,
}

/// A problem type (RFC 9457 §3.1.1), as users read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemType {
    pub problem: Problem,
    /// The last segment of its URI.
    pub name: &'static str,
    /// The title of the problem document, and the reason phrase of the response.
    pub title: &'static str,
    pub meaning: &'static str,
    /// What the user can do about it.
    pub remedy: &'static str,
}

/// The table, in the order of [`Problem`].
const ROWS: [ProblemType; 22] = [
    ProblemType {
        problem: Problem::Disallowed,
        name: "disallowed",
        title: "Disallowed by robots.txt",
        meaning: "A rule of the site's robots.txt disallows this URL to this agent.",
        remedy: "Leave the URL out, or ask the site for permission and add an exemption.",
    },
    ProblemType {
        problem: Problem::RobotsUnreachable,
        name: "robots-unreachable",
        title: "robots.txt unreachable",
        meaning: "The site's robots.txt cannot be fetched, so everything on the site is \
                  disallowed (RFC 9309 §2.3.1.4).",
        remedy: "Try again after the time in Retry-After: the proxy fetches the file again then.",
    },
    ProblemType {
        problem: Problem::RobotsAccessDenied,
        name: "robots-access-denied",
        title: "Access to robots.txt denied",
        meaning: "The site answers 401 or 403 for its robots.txt, and the profile in use reads \
                  that as a refusal of everything.",
        remedy: "Ask the site, or choose a profile that follows RFC 9309 §2.3.1.3.",
    },
    ProblemType {
        problem: Problem::HostNotFound,
        name: "host-not-found",
        title: "Host not found",
        meaning: "The host's name does not exist, so neither its robots.txt nor anything else can be \
                  fetched.",
        remedy: "Leave the host out: no rule disallows it. If it should exist, check its name and the \
                 DNS server of this machine.",
    },
    ProblemType {
        problem: Problem::OriginRefused,
        name: "origin-refused",
        title: "Destination not permitted",
        meaning: "The proxy does not connect to this host: its address is private, \
                  special-purpose or denied, or its name is not permitted.",
        remedy: "To permit it, change the setting that the detail names; --allow-private \
                 permits private addresses.",
    },
    ProblemType {
        problem: Problem::Undecided,
        name: "undecided",
        title: "Not decided",
        meaning: "No decision could be made in time, or the rules take too many steps for this \
                  URL, and undecided is denied.",
        remedy: "Try again, or a shorter URL; if it persists, raise robots.fetch_timeout or \
                 look at the proxy's load.",
    },
    ProblemType {
        problem: Problem::AgentRequired,
        name: "agent-required",
        title: "User-Agent required",
        meaning: "The request has no User-Agent, and agents.require is set.",
        remedy: "Send a User-Agent that names the crawler and a page about it.",
    },
    ProblemType {
        problem: Problem::ClientNotAllowed,
        name: "client-not-allowed",
        title: "Client not allowed",
        meaning: "The proxy serves clients on loopback and those that clients.allow lists.",
        remedy: "Have the operator list the client's address block in clients.allow.",
    },
    ProblemType {
        problem: Problem::CredentialsRequired,
        name: "credentials-required",
        title: "Name and password required",
        meaning: "The proxy serves its users, and the request has no valid name and password.",
        remedy: "Write them into the proxy's address, http://NAME:PASSWORD@HOST:PORT; `courtesy users` \
                 adds users.",
    },
    ProblemType {
        problem: Problem::PathNotSeen,
        name: "path-not-seen",
        title: "Path not visible",
        meaning: "Some paths of this host are disallowed, and in classify mode the proxy cannot \
                  see which path is requested.",
        remedy: "Use the intercept mode, list the host in https.tunnel, or set https.mixed to \
                 \"tunnel\".",
    },
    ProblemType {
        problem: Problem::PortNotAllowed,
        name: "port-not-allowed",
        title: "Port not allowed",
        meaning: "CONNECT is permitted to the ports in egress.connect_ports only.",
        remedy: "To permit the port, list it in egress.connect_ports.",
    },
    ProblemType {
        problem: Problem::BadRequest,
        name: "bad-request",
        title: "Not a valid request",
        meaning: "The request is malformed or ambiguous, so it is not forwarded, and the connection is \
                  closed.",
        remedy: "Correct what the detail names.",
    },
    ProblemType {
        problem: Problem::NotServed,
        name: "not-served",
        title: "Not supported",
        meaning: "The proxy does not support the method, scheme or expectation of the request.",
        remedy: "Use http:// or https:// URLs in absolute form, or CONNECT for HTTPS.",
    },
    ProblemType {
        problem: Problem::Loop,
        name: "loop",
        title: "The request leads back to the proxy",
        meaning: "The destination is this proxy itself, or the request has passed through it before.",
        remedy: "Check the proxy settings of the programs behind the proxy.",
    },
    ProblemType {
        problem: Problem::OriginFailed,
        name: "origin-failed",
        title: "The origin failed",
        meaning: "The origin could not be resolved or connected to, or its response is not valid.",
        remedy: "The detail names what failed: the origin, its name, or the network of this machine.",
    },
    ProblemType {
        problem: Problem::OriginTimeout,
        name: "origin-timeout",
        title: "The origin took too long",
        meaning: "A timeout of the proxy passed before the origin responded.",
        remedy: "Try again later, or raise the timeout that the detail names.",
    },
    ProblemType {
        problem: Problem::ParentFailed,
        name: "parent-failed",
        title: "The parent proxy failed",
        meaning: "The parent proxy, by which the connection to the origin is made, could not be \
                  reached, or refused the connection. It says nothing of the origin.",
        remedy: "The detail names the parent and what it answered: have the operator check it, and \
                 egress.parent.",
    },
    ProblemType {
        problem: Problem::Busy,
        name: "busy",
        title: "Too much under way",
        meaning: "A limit of the proxy or of its machine is reached.",
        remedy: "Try again after the time in Retry-After, or raise the limit that the detail names.",
    },
    ProblemType {
        problem: Problem::AuditUnavailable,
        name: "audit-unavailable",
        title: "Records cannot be written",
        meaning: "The audit log cannot be written at the moment, and audit.on_failure is set to \
                  \"stop\".",
        remedy: "Try again after the time in Retry-After; the proxy's log says what is wrong with the \
                 disk.",
    },
    ProblemType {
        problem: Problem::CaNotValid,
        name: "ca-not-valid",
        title: "The proxy's CA is not valid",
        meaning: "The certificate authority of the proxy has expired or is not valid yet, so HTTPS \
                  cannot be intercepted.",
        remedy: "Have the operator run `courtesy ca rotate`, or replace https.ca_cert; clients then have \
                 to trust the new CA.",
    },
    ProblemType {
        problem: Problem::Paced,
        name: "paced",
        title: "Not yet",
        meaning: "Requests to the origin are a delay apart, and the turn of this one would come later \
                  than it may wait.",
        remedy: "Try again after the time in Retry-After, with fewer requests at a time. \
                 `pace.max_wait` lets requests wait longer.",
    },
    ProblemType {
        problem: Problem::OriginHeld,
        name: "origin-held",
        title: "The origin is held",
        meaning: "The origin asked for that (Retry-After, an exhausted quota, 429 or 503), failed \
                  several times in a row, or opens later, and is left alone until then.",
        remedy: "Try again after the time in Retry-After. `courtesy store get` shows why the origin is \
                 left alone.",
    },
];

impl Problem {
    /// Every problem, in order.
    pub const ALL: [Self; ROWS.len()] = {
        let mut all = [Self::Disallowed; ROWS.len()];
        let mut at = 0;
        while at < ROWS.len() {
            all[at] = ROWS[at].problem;
            at += 1;
        }
        all
    };

    /// What users read about it.
    pub const fn row(self) -> ProblemType {
        const TABLE: &[ProblemType; ROWS.len()] = &ROWS;
        TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_the_row_at_its_place_and_a_name_of_its_own() {
        for (place, problem) in Problem::ALL.into_iter().enumerate() {
            assert_eq!(problem as usize, place, "{problem:?}");
            assert_eq!(Problem::named(problem.row().name), Some(problem));
        }
        // The last variant is the last row: none is without one.
        assert_eq!(Problem::OriginHeld as usize + 1, Problem::ALL.len());
    }
}
