//! The failures of egress, with the proxy error types of RFC 9209 §2.3.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;

use crate::pace::{NoExchange, NoTurn, RequestFailure};
use crate::types::origin::Origin;

/// The kind of failure. Each maps to one proxy error type of RFC 9209 §2.3
/// ([`Failure::proxy_error`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name does not exist.
    NameNotFound,
    /// The name has no address, or the resolver failed.
    Dns,
    DnsTimeout,
    /// The destination is this proxy itself.
    Loop,
    /// Every address of the host is refused by the egress policy.
    AddressProhibited,
    /// The operator's lists of hosts prohibit this one.
    HostProhibited,
    /// A router on the path has no route to any permitted address.
    Unroutable,
    /// This machine has no route to any permitted address.
    NoRoute,
    /// This machine or the proxy lacks resources: descriptors, ports, memory, a permit for a DNS
    /// lookup.
    Exhausted,
    ConnectionRefused,
    ConnectionTimeout,
    /// Closed or reset before a response came.
    ConnectionTerminated,
    /// The client's request body broke off, or is not framed correctly.
    RequestIncomplete,
    /// The client's request body did not come in time.
    RequestTimeout,
    /// The limit on exchanges with this origin was reached, and none ended in time.
    ConnectionLimit,
    TlsCertificate,
    TlsProtocol,
    /// Not HTTP, or ambiguous framing.
    Protocol,
    /// The response head exceeds the limit.
    HeaderTooLarge,
    /// The response ended before it was complete.
    Incomplete,
    /// The origin took too long to respond.
    ResponseTimeout,
    /// The parent proxy failed, or refused the connection.
    Parent,
    /// The parent proxy took too long.
    ParentTimeout,
    /// The request did not get its turn: see [`Error::no_turn`].
    NoTurn,
}

impl Failure {
    /// Whether the client's side failed, so that nothing was learnt about the origin.
    pub const fn is_clients(self) -> bool {
        matches!(self, Self::RequestIncomplete | Self::RequestTimeout)
    }

    /// Whether a parent proxy failed: what it answers says nothing of the origin.
    pub const fn is_parents(self) -> bool {
        matches!(self, Self::Parent | Self::ParentTimeout)
    }

    /// Whether the cause is the state of the proxy, of its machine or of its parent proxy, so that
    /// nothing was learnt about the origin: the failure must be neither cached nor counted as an
    /// outage.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::ConnectionLimit | Self::NoRoute | Self::Exhausted | Self::NoTurn)
            || self.is_parents()
    }

    /// Whether the origin took too long to accept the connection or to respond.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectionTimeout | Self::ResponseTimeout)
    }

    /// What it means for the pace of the origin.
    pub const fn of_pace(self) -> RequestFailure {
        match self {
            Self::ConnectionTimeout | Self::ResponseTimeout => RequestFailure::Timeout,
            Self::ConnectionRefused | Self::ConnectionTerminated => RequestFailure::ConnectionLost,
            _ => RequestFailure::Other,
        }
    }

    /// Whether a setting prohibits the request: a denial, not a failure.
    pub const fn is_prohibition(self) -> bool {
        matches!(self, Self::AddressProhibited | Self::HostProhibited)
    }

    /// The proxy error types of RFC 9209 §2.3, in the order of [`Self::place`].
    pub const PROXY_ERRORS: [&str; 20] = [
        "dns_error",
        "dns_timeout",
        "proxy_loop_detected",
        "destination_ip_prohibited",
        "http_request_denied",
        "destination_ip_unroutable",
        "connection_refused",
        "connection_timeout",
        "connection_terminated",
        "http_request_error",
        "connection_limit_reached",
        "tls_certificate_error",
        "tls_protocol_error",
        "http_protocol_error",
        "http_response_header_section_size",
        "http_response_incomplete",
        "http_response_timeout",
        "proxy_internal_error",
        "destination_unavailable",
        "proxy_configuration_error",
    ];

    /// The index of its type in [`Self::PROXY_ERRORS`].
    pub const fn place(self) -> usize {
        match self {
            Self::NameNotFound | Self::Dns => 0,
            Self::DnsTimeout => 1,
            Self::Loop => 2,
            Self::AddressProhibited => 3,
            Self::HostProhibited => 4,
            Self::Unroutable | Self::NoRoute => 5,
            Self::ConnectionRefused => 6,
            Self::ConnectionTimeout => 7,
            Self::ConnectionTerminated => 8,
            Self::RequestIncomplete | Self::RequestTimeout => 9,
            Self::ConnectionLimit => 10,
            Self::TlsCertificate => 11,
            Self::TlsProtocol => 12,
            Self::Protocol => 13,
            Self::HeaderTooLarge => 14,
            Self::Incomplete => 15,
            Self::ResponseTimeout => 16,
            Self::Exhausted => 17,
            Self::NoTurn => 18,
            Self::Parent | Self::ParentTimeout => 19,
        }
    }

    /// The proxy error type with its parameters: the `rcode` tells a name that does not exist from
    /// a resolver that failed (RFC 9209 §2.3.2).
    pub const fn proxy_error_parameters(self) -> &'static str {
        match self {
            Self::NameNotFound => "dns_error; rcode=\"NXDOMAIN\"",
            other => other.proxy_error(),
        }
    }

    /// The proxy error type of RFC 9209 §2.3.
    pub const fn proxy_error(self) -> &'static str {
        Self::PROXY_ERRORS[self.place()]
    }
}

/// A failure of one request, with an explanation for people.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Error {
    pub failure: Failure,
    pub detail: String,
    /// Why the request did not get its turn, if that is the failure.
    pub no_turn: Option<Box<NoTurn>>,
    /// What the parent proxy did, if that is the failure.
    pub parent: Option<Box<ParentFailure>>,
}

impl Error {
    /// A failure with its explanation.
    pub fn new(failure: Failure, detail: impl Into<String>) -> Self {
        Self { failure, detail: detail.into(), no_turn: None, parent: None }
    }

    /// The origin has its full number of exchanges, and none ended within `limit`.
    pub fn no_exchange(origin: &Origin, none: NoExchange, limit: Duration) -> Self {
        let detail = format!(
            "{} exchanges with {origin} are under way and none ended within {limit:?}",
            none.max
        );
        Self::new(Failure::ConnectionLimit, detail)
    }

    /// The request did not get its turn.
    pub fn no_turn(no_turn: NoTurn) -> Self {
        let error = Self::new(Failure::NoTurn, no_turn.to_string());
        Self { no_turn: Some(Box::new(no_turn)), ..error }
    }
}

// Tells errors of the site from shortages on this machine. A shortage says nothing about the site,
// and must not be cached as if it did.

/// Sockets opened at once to test for free descriptors: as many as a DNS lookup uses.
const PROBES: usize = 3;

/// The failure for an error of connect(2) to `address`.
pub fn connect_failure(address: SocketAddr, error: &io::Error) -> Failure {
    if is_exhausted(error) {
        return Failure::Exhausted;
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::ConnectionRefused,
        ErrorKind::TimedOut => Failure::ConnectionTimeout,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Failure::ConnectionTerminated,
        _ => match route(address) {
            Ok(()) if error.kind() == ErrorKind::HostUnreachable => Failure::Unroutable,
            Ok(()) if error.kind() == ErrorKind::NetworkUnreachable => Failure::Unroutable,
            // No local port is free, or a firewall rule of this machine forbids the connection.
            Ok(()) => Failure::Exhausted,
            Err(error) if is_exhausted(&error) => Failure::Exhausted,
            Err(_) => Failure::NoRoute,
        },
    }
}

/// Whether a DNS lookup failed for a shortage on this machine. The resolver may report another failure
/// when it has no descriptor to ask with, so this opens some itself.
pub fn lookup_is_exhausted(error: Option<&io::Error>) -> bool {
    let probe = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    error.is_some_and(is_exhausted)
        || std::array::from_fn::<_, PROBES, _>(|_| probe()).iter().any(Result::is_err)
}

/// Whether it is a shortage of descriptors, memory or buffers. (EADDRNOTAVAIL, a shortage of ports,
/// also occurs when IPv6 is switched off.)
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN)
    )
}

/// Looks for a route to `address`. Sends nothing: connect(2) of a datagram socket only looks up the
/// route. When there is a route, the error came from a router on the way.
pub fn route(address: SocketAddr) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    };
    socket?.connect(address)
}

/// What a parent did in place of a connection. It says nothing of the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFailure {
    /// Scheme, host and port of the parent, without credentials.
    pub parent: String,
    /// The status that it answered with, if it did so by HTTP.
    pub status: Option<u16>,
    /// After how long it may be asked again: as it says, or when its back-off ends.
    pub retry_after: Option<Duration>,
}

/// Why a parent opened no tunnel to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelFailure {
    /// In words.
    pub reason: String,
    pub fault: Fault,
    /// The status of its answer to CONNECT.
    pub status: Option<u16>,
    /// Its `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// What is at fault when a parent has made no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The parent itself: other targets would fail as well.
    Parent,
    /// The parent refuses the name and password, or requires some.
    Credentials,
    /// The parent refuses CONNECT to this port, or to this host.
    Port,
    /// The parent has answered: it does not connect to this target, or not now.
    Target,
    /// The parent or the target: there was no answer. A target that takes no connections must not
    /// have the parent taken for one that is down.
    Unknown,
}

impl TunnelFailure {
    /// The parent itself is at fault.
    pub fn parent(reason: impl Into<String>) -> Self {
        Self::new(Fault::Parent, reason)
    }

    /// There was no answer.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::new(Fault::Unknown, reason)
    }

    /// Without a status.
    pub fn new(fault: Fault, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault, status: None, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_on_this_machine_differ_from_errors_of_the_site() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        for (errno, failure) in [
            (Errno::MFILE, Failure::Exhausted),
            (Errno::NFILE, Failure::Exhausted),
            (Errno::NOBUFS, Failure::Exhausted),
            (Errno::NOMEM, Failure::Exhausted),
            (Errno::ADDRNOTAVAIL, Failure::Exhausted),
            (Errno::PERM, Failure::Exhausted),
            (Errno::CONNREFUSED, Failure::ConnectionRefused),
            (Errno::CONNRESET, Failure::ConnectionTerminated),
            (Errno::TIMEDOUT, Failure::ConnectionTimeout),
            // There is a route, so the error came from a router.
            (Errno::HOSTUNREACH, Failure::Unroutable),
            (Errno::NETUNREACH, Failure::Unroutable),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert_eq!(connect_failure(here, &error), failure, "{error}");
        }
    }

    #[test]
    fn a_missing_route_is_no_failure_of_the_site() {
        // Class E (RFC 1112 §4): Linux has no route for its broadcast address.
        let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 1));
        let error = io::Error::from_raw_os_error(Errno::NETUNREACH.raw_os_error());
        assert_eq!(connect_failure(nowhere, &error), Failure::NoRoute);
    }
}
