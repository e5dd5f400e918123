//! The problem types of RFC 9457 that the proxy answers with: one row each, with what it means and
//! what to do about it. The README's table and the pages behind the `type` URIs are made of them.

/// The name under which the proxy answers for itself. `.internal` is reserved for private use, so
/// no origin is ever shadowed.
pub const OWN_NAME: &str = "courtesy.internal";

/// What kind of answer the proxy had to make itself.
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
    Busy,
    AuditUnavailable,
    CaNotValid,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

impl Problem {
    pub const ALL: [Self; 19] = [
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
        Self::Busy,
        Self::AuditUnavailable,
        Self::CaNotValid,
    ];

    pub const fn row(self) -> Row {
        let (name, title, meaning, remedy) = match self {
            Self::Disallowed => (
                "disallowed",
                "Disallowed by robots.txt",
                "A rule of the site's robots.txt disallows this URL to this agent.",
                "Leave the URL out, or ask the site for permission and write it down as an exemption.",
            ),
            Self::RobotsUnreachable => (
                "robots-unreachable",
                "robots.txt cannot be had",
                "The site's robots.txt cannot be fetched, so everything on it is disallowed (RFC 9309 §2.3.1.4).",
                "Come back when Retry-After says: the file will be tried again then.",
            ),
            Self::RobotsAccessDenied => (
                "robots-access-denied",
                "robots.txt is kept from us",
                "The site answers 401 or 403 for its robots.txt, and the profile in use takes that as a closed door.",
                "Ask the site, or choose a profile that follows RFC 9309 §2.3.1.3.",
            ),
            Self::HostNotFound => (
                "host-not-found",
                "Host not found",
                "The host's name does not exist, so nothing can be fetched from it, its robots.txt neither.",
                "Leave the host out: no rule refuses it. If it should exist, look at its name and at the DNS server that this machine asks.",
            ),
            Self::OriginRefused => (
                "origin-refused",
                "Destination not permitted",
                "The host is one that the proxy does not connect to: its address is private, special-purpose or denied, or its name is not permitted.",
                "If it is meant to be reached, change the setting that the detail names; --allow-private opens what is private.",
            ),
            Self::Undecided => (
                "undecided",
                "Not decided",
                "Whether robots.txt allows this could not be found out in time, or takes too many steps, and undecided is denied.",
                "Try again, or a shorter URL; if it persists, raise robots.fetch_timeout or look at the proxy's load.",
            ),
            Self::AgentRequired => (
                "agent-required",
                "User-Agent required",
                "The request has no User-Agent, and agents.require is set.",
                "Send a User-Agent that names the crawler and a page about it.",
            ),
            Self::ClientNotAllowed => (
                "client-not-allowed",
                "Not for this client",
                "The proxy serves loopback and the clients that it is told to serve.",
                "Have the operator list the client's address block in clients.allow.",
            ),
            Self::CredentialsRequired => (
                "credentials-required",
                "Name and password required",
                "The proxy serves its users, and the request has no name and password of one.",
                "Write them into the proxy's address, http://NAME:PASSWORD@HOST:PORT; `courtesy users` makes users.",
            ),
            Self::PathNotSeen => (
                "path-not-seen",
                "Paths cannot be seen",
                "Some paths of this host are disallowed, and in classify mode the proxy cannot see which path is asked for.",
                "Use the intercept mode, list the host in https.tunnel, or set https.mixed to \"tunnel\".",
            ),
            Self::PortNotAllowed => (
                "port-not-allowed",
                "Port not allowed",
                "CONNECT goes only to the ports that it is allowed to go to.",
                "If it is meant to be reached, list the port in egress.connect_ports.",
            ),
            Self::BadRequest => (
                "bad-request",
                "Not a valid request",
                "The request is malformed or ambiguous, so it is not passed on, and the connection is closed.",
                "Mend what the detail names.",
            ),
            Self::NotServed => (
                "not-served",
                "Not served",
                "The method, scheme or expectation is none that this proxy serves.",
                "Use http:// or https:// URLs in absolute form; see the README for what works.",
            ),
            Self::Loop => (
                "loop",
                "The request leads back to the proxy",
                "The destination is this proxy itself, or the request has been through it before.",
                "Check the proxy settings of what stands behind the proxy.",
            ),
            Self::OriginFailed => (
                "origin-failed",
                "The origin failed",
                "The origin could not be resolved, connected to or understood.",
                "The detail names what failed: the origin, its name, or this machine's way to it.",
            ),
            Self::OriginTimeout => (
                "origin-timeout",
                "The origin took too long",
                "A deadline of the proxy passed before the origin answered.",
                "Try again later, or raise the deadline that the detail names.",
            ),
            Self::Busy => (
                "busy",
                "Too much under way",
                "A bound of the proxy or of its machine is reached.",
                "Come back when Retry-After says, or raise the bound that the detail names.",
            ),
            Self::AuditUnavailable => (
                "audit-unavailable",
                "Records cannot be written",
                "The audit log cannot be written at the moment, and audit.on_failure is set to \"stop\".",
                "Come back when Retry-After says; what is wrong with the disk is in the proxy's log.",
            ),
            Self::CaNotValid => (
                "ca-not-valid",
                "The proxy's CA is not valid",
                "The certificate authority that signs for the proxy has expired or is not valid yet, so HTTPS cannot be intercepted.",
                "Have the operator run `courtesy ca rotate`, or replace https.ca_cert; clients then have to trust the new CA.",
            ),
        };
        Row { name, title, meaning, remedy }
    }

    /// The `type` of the problem (RFC 9457 §3.1.1); through the proxy, the page can be fetched.
    pub fn uri(self) -> String {
        format!("http://{OWN_NAME}/problems/{}", self.row().name)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.row().name == name)
    }
}
