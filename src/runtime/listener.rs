//! A TCP socket that has its address before it takes connections. Between the two the system refuses
//! clients, as if nothing were there.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections that wait in the system's queue to be accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// A socket with this address, which takes no connections yet. Port 0 becomes a number. An error where
/// another socket listens there.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // As the standard library does: connections of a process before this one may still be closing.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// From now on it takes connections.
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
