//! Whether the system's error is about the site or about this machine: what the machine lacks says
//! nothing of a site, and must not be kept as if it did.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;

use super::error::Failure;

/// Sockets opened at once to see whether there are descriptors: as many as a look-up of a name uses.
const PROBES: usize = 3;

/// What it means that no connection to `address` came about.
pub(super) fn connect_failure(address: SocketAddr, error: &io::Error) -> Failure {
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
            // No port of our own is free, or a rule of this machine forbids it.
            Ok(()) => Failure::Exhausted,
            Err(error) if is_exhausted(&error) => Failure::Exhausted,
            Err(_) => Failure::NoRoute,
        },
    }
}

/// Whether a failed look-up of a name failed for want of something here. The system's resolver says "no
/// such name" where it has no descriptor to ask with, so this is tried.
pub(super) fn look_up_is_exhausted(error: &io::Error) -> bool {
    let probe = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    is_exhausted(error)
        || std::array::from_fn::<_, PROBES, _>(|_| probe()).iter().any(Result::is_err)
}

/// The want of descriptors, of memory or of buffers. (EADDRNOTAVAIL, the want of ports, is also said
/// where IPv6 is switched off.)
fn is_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN)
    )
}

/// Whether the system knows a way to `address`. Nothing is sent: to connect a datagram socket is to
/// look for the route. An error that came from the network instead is the word of a router.
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
    fn what_this_machine_lacks_is_told_from_what_the_site_does() {
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
            // There is a route, so a router said it.
            (Errno::HOSTUNREACH, Failure::Unroutable),
            (Errno::NETUNREACH, Failure::Unroutable),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert_eq!(connect_failure(here, &error), failure, "{error}");
        }
    }

    #[test]
    fn an_address_that_no_route_leads_to_is_no_fault_of_the_site() {
        // Class E (RFC 1112 §4): Linux has no route for its broadcast address.
        let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 1));
        let error = io::Error::from_raw_os_error(Errno::NETUNREACH.raw_os_error());
        assert_eq!(connect_failure(nowhere, &error), Failure::NoRoute);
    }
}
