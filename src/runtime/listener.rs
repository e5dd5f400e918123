//! A TCP socket that is bound before it listens. In between the system refuses connections, as if
//! no server were there.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// The length of the accept queue, as in the standard library.
const BACKLOG: i32 = 128;

/// The time between two attempts to accept after one that failed, as all do while no descriptors are
/// left.
pub const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A bound socket that does not listen yet. Port 0 becomes an actual number. Fails if another
/// socket listens at the address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // As in the standard library: connections of an earlier process may still be closing.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Starts to listen.
pub fn listen(socket: &TcpListener) -> io::Result<()> {
    SockRef::from(socket).listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};

    use super::*;

    #[test]
    fn a_socket_has_its_address_before_it_takes_connections() {
        for host in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let socket = bind((host, 0).into()).unwrap();
            let address = socket.local_addr().unwrap();
            assert_ne!(address.port(), 0);
            assert_eq!(
                TcpStream::connect(address).unwrap_err().kind(),
                ErrorKind::ConnectionRefused
            );
            listen(&socket).unwrap();
            TcpStream::connect(address).unwrap();
            assert_eq!(bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        }
    }
}
