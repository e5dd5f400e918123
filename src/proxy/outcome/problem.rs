//! The problem types (RFC 9457) of the responses that the proxy makes itself. The pages behind the
//! `type` URIs show them, and a test compares the table in `docs/reference/problems.md` with them.

use crate::policy::reason::{NOT_SERVED, ProblemType, Reason};

/// The name under which the proxy answers for itself. `.internal` is reserved for private use, so
/// no origin is ever shadowed.
pub const OWN_NAME: &str = "courtesy.internal";

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
    OriginResting,
}

impl Problem {
    /// Every problem.
    pub const ALL: [Self; 22] = [
        Self::Disallowed,
        Self::RobotsUnreachable,
        Self::RobotsAccessDenied,
        Self::HostNotFound,
        Self::OriginRefused,
        Self::Undecided,
        Self::AgentRequired,
        Self::ClientNotAllowed,
        Self::CredentialsRequired,
        Self::PathNotSeen,
        Self::PortNotAllowed,
        Self::BadRequest,
        Self::NotServed,
        Self::Loop,
        Self::OriginFailed,
        Self::OriginTimeout,
        Self::ParentFailed,
        Self::Busy,
        Self::AuditUnavailable,
        Self::CaNotValid,
        Self::Paced,
        Self::OriginResting,
    ];

    /// The problem of a denial for `reason`.
    pub const fn of(reason: Reason) -> Self {
        match reason {
            Reason::DisallowRule => Self::Disallowed,
            Reason::RobotsUnreachable => Self::RobotsUnreachable,
            Reason::RobotsAccessDenied => Self::RobotsAccessDenied,
            Reason::OriginRefused => Self::OriginRefused,
            Reason::Undecided => Self::Undecided,
            Reason::PathNotSeen => Self::PathNotSeen,
            Reason::AgentRequired => Self::AgentRequired,
            Reason::TunnelNotHttp | Reason::SniMismatch | Reason::Reach => Self::NotServed,
        }
    }

    /// What users read about it. Denials have theirs in the table of reasons.
    pub const fn row(self) -> ProblemType {
        match self {
            Self::Disallowed => Reason::DisallowRule.row().problem,
            Self::RobotsUnreachable => Reason::RobotsUnreachable.row().problem,
            Self::RobotsAccessDenied => Reason::RobotsAccessDenied.row().problem,
            Self::OriginRefused => Reason::OriginRefused.row().problem,
            Self::Undecided => Reason::Undecided.row().problem,
            Self::AgentRequired => Reason::AgentRequired.row().problem,
            Self::PathNotSeen => Reason::PathNotSeen.row().problem,
            Self::NotServed => NOT_SERVED,
            Self::HostNotFound => HOST_NOT_FOUND,
            Self::ClientNotAllowed => CLIENT_NOT_ALLOWED,
            Self::CredentialsRequired => CREDENTIALS_REQUIRED,
            Self::PortNotAllowed => PORT_NOT_ALLOWED,
            Self::BadRequest => BAD_REQUEST,
            Self::Loop => LOOP,
            Self::OriginFailed => ORIGIN_FAILED,
            Self::OriginTimeout => ORIGIN_TIMEOUT,
            Self::ParentFailed => PARENT_FAILED,
            Self::Busy => BUSY,
            Self::AuditUnavailable => AUDIT_UNAVAILABLE,
            Self::CaNotValid => CA_NOT_VALID,
            Self::Paced => PACED,
            Self::OriginResting => ORIGIN_RESTING,
        }
    }

    /// The `type` of the problem (RFC 9457 §3.1.1); through the proxy, the page can be fetched.
    pub fn uri(self) -> String {
        format!("http://{OWN_NAME}/problems/{}", self.row().name)
    }

    /// The problem with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.row().name == name)
    }
}

const PACED: ProblemType = ProblemType {
    name: "paced",
    title: "Not yet",
    meaning: "Requests to the origin are a delay apart, and the turn of this one would come later \
              than it may wait.",
    remedy: "Try again after the time in Retry-After, with fewer requests at a time. \
             `pace.max_wait` lets requests wait longer.",
};

const ORIGIN_RESTING: ProblemType = ProblemType {
    name: "origin-resting",
    title: "The origin asks for rest",
    meaning: "The origin answered 429 or 503, failed several times in a row, or opens later, and \
              is left alone until then.",
    remedy: "Try again after the time in Retry-After. `courtesy store get` shows why the origin is \
             left alone.",
};

const HOST_NOT_FOUND: ProblemType = ProblemType {
    name: "host-not-found",
    title: "Host not found",
    meaning: "The host's name does not exist, so neither its robots.txt nor anything else can be \
              fetched.",
    remedy: "Leave the host out: no rule disallows it. If it should exist, check its name and the \
             DNS server of this machine.",
};

const CLIENT_NOT_ALLOWED: ProblemType = ProblemType {
    name: "client-not-allowed",
    title: "Client not allowed",
    meaning: "The proxy serves clients on loopback and those that clients.allow lists.",
    remedy: "Have the operator list the client's address block in clients.allow.",
};

const CREDENTIALS_REQUIRED: ProblemType = ProblemType {
    name: "credentials-required",
    title: "Name and password required",
    meaning: "The proxy serves its users, and the request has no valid name and password.",
    remedy: "Write them into the proxy's address, http://NAME:PASSWORD@HOST:PORT; `courtesy users` \
             adds users.",
};

const PORT_NOT_ALLOWED: ProblemType = ProblemType {
    name: "port-not-allowed",
    title: "Port not allowed",
    meaning: "CONNECT is permitted to the ports in egress.connect_ports only.",
    remedy: "To permit the port, list it in egress.connect_ports.",
};

const BAD_REQUEST: ProblemType = ProblemType {
    name: "bad-request",
    title: "Not a valid request",
    meaning: "The request is malformed or ambiguous, so it is not forwarded, and the connection is \
              closed.",
    remedy: "Correct what the detail names.",
};

const LOOP: ProblemType = ProblemType {
    name: "loop",
    title: "The request leads back to the proxy",
    meaning: "The destination is this proxy itself, or the request has passed through it before.",
    remedy: "Check the proxy settings of the programs behind the proxy.",
};

const ORIGIN_FAILED: ProblemType = ProblemType {
    name: "origin-failed",
    title: "The origin failed",
    meaning: "The origin could not be resolved or connected to, or its response is not valid.",
    remedy: "The detail names what failed: the origin, its name, or the network of this machine.",
};

const ORIGIN_TIMEOUT: ProblemType = ProblemType {
    name: "origin-timeout",
    title: "The origin took too long",
    meaning: "A timeout of the proxy passed before the origin responded.",
    remedy: "Try again later, or raise the timeout that the detail names.",
};

const PARENT_FAILED: ProblemType = ProblemType {
    name: "parent-failed",
    title: "The parent proxy failed",
    meaning: "The parent proxy, by which the connection to the origin is made, could not be \
              reached, or refused the connection. It says nothing of the origin.",
    remedy: "The detail names the parent and what it answered: have the operator check it, and \
             egress.parent.",
};

const BUSY: ProblemType = ProblemType {
    name: "busy",
    title: "Too much under way",
    meaning: "A limit of the proxy or of its machine is reached.",
    remedy: "Try again after the time in Retry-After, or raise the limit that the detail names.",
};

const AUDIT_UNAVAILABLE: ProblemType = ProblemType {
    name: "audit-unavailable",
    title: "Records cannot be written",
    meaning: "The audit log cannot be written at the moment, and audit.on_failure is set to \
              \"stop\".",
    remedy: "Try again after the time in Retry-After; the proxy's log says what is wrong with the \
             disk.",
};

const CA_NOT_VALID: ProblemType = ProblemType {
    name: "ca-not-valid",
    title: "The proxy's CA is not valid",
    meaning: "The certificate authority of the proxy has expired or is not valid yet, so HTTPS \
              cannot be intercepted.",
    remedy: "Have the operator run `courtesy ca rotate`, or replace https.ca_cert; clients then have \
             to trust the new CA.",
};
