//! Tells errors of the site from shortages on this machine. A shortage says nothing about the site,
//! and must not be cached as if it did.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

use super::error::Failure;

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

/// Whether a DNS lookup failed for a shortage on this machine. The system's resolver reports "no
/// such name" when it has no descriptor to ask with, so this opens some itself.
pub fn lookup_is_exhausted(error: &io::Error) -> bool {
    let probe = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    is_exhausted(error)
        || std::array::from_fn::<_, PROBES, _>(|_| probe()).iter().any(Result::is_err)
}

/// Whether it is a shortage of descriptors, memory or buffers. (EADDRNOTAVAIL, a shortage of ports,
/// also occurs when IPv6 is switched off.)
fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN)
    )
}

/// Looks for a route to `address`. Sends nothing: connect(2) of a datagram socket only looks up the
/// route. When there is a route, the error came from a router on the way.
fn route(address: SocketAddr) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    };
    socket?.connect(address)
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
