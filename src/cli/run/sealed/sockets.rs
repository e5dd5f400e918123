//! The sockets that the proxy serves inside. They stay in the namespace in which they are made,
//! whatever process has them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily as Family, Protocol, SocketFlags, SocketType, socket_with};
use socket2::{Domain, Socket, Type};

use super::refused_connections;

/// The address of the name server, that of systemd-resolved.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// Connections that wait to be accepted, as nginx has it.
const BACKLOG: i32 = 511;

/// The protocols of packet(7), as numbers of the Ethernet (`ETH_P_IP`, `ETH_P_IPV6`).
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// What a socket is for, as one letter: the letters go before the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests to the proxy as a proxy.
    Proxy = b'p' as isize,
    /// Connections to a served port of any address.
    Served = b's' as isize,
    /// Connections to a port of `--reach`.
    Reach = b'r' as isize,
    /// Queries for names.
    NamesUdp = b'u' as isize,
    NamesTcp = b't' as isize,
    /// Packets that say that something was refused.
    Refused = b'x' as isize,
}

impl Purpose {
    const ALL: [Self; 6] =
        [Self::Proxy, Self::Served, Self::Reach, Self::NamesUdp, Self::NamesTcp, Self::Refused];

    /// The purpose with this letter.
    pub fn of(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.letter() == letter)
    }

    /// Its letter.
    pub fn letter(self) -> char {
        char::from(self as u8)
    }
}

/// The sockets, with their purposes.
#[derive(Debug, Default)]
pub struct Sockets(Vec<(Purpose, OwnedFd)>);

impl Sockets {
    /// Makes all of them; those of IPv6 where `has_ipv6`.
    ///
    /// # Errors
    ///
    /// Of the system, with the address.
    pub fn make(served: &[u16], reach: &[u16], has_ipv6: bool) -> io::Result<Self> {
        let mut sockets = Self::default();
        let loopback = Ipv4Addr::LOCALHOST.into();
        sockets.listen(Purpose::Proxy, SocketAddr::new(loopback, 0))?;
        let ports = served.iter().map(|port| (Purpose::Served, *port));
        for (purpose, port) in ports.chain(reach.iter().map(|port| (Purpose::Reach, *port))) {
            sockets.listen(purpose, (Ipv4Addr::UNSPECIFIED, port).into())?;
            if has_ipv6 {
                sockets.listen(purpose, (Ipv6Addr::UNSPECIFIED, port).into())?;
            }
        }
        sockets.0.push((Purpose::NamesUdp, UdpSocket::bind((NAME_SERVER, 53))?.into()));
        sockets.0.push((Purpose::NamesTcp, TcpListener::bind((NAME_SERVER, 53))?.into()));
        for (protocol, filter) in [
            (ETH_P_IP, refused_connections::FILTER_V4),
            (ETH_P_IPV6, refused_connections::FILTER_V6),
        ] {
            // A kernel may be without them; then nothing is counted.
            let socket = packets(protocol, filter);
            sockets.0.extend(socket.ok().map(|socket| (Purpose::Refused, socket)));
        }
        Ok(sockets)
    }

    /// The letters of their purposes, in their order.
    pub fn letters(&self) -> String {
        self.0.iter().map(|(purpose, _)| purpose.letter()).collect()
    }

    /// The descriptors, in their order.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(|(_, socket)| socket.as_fd()).collect()
    }

    fn listen(&mut self, purpose: Purpose, address: SocketAddr) -> io::Result<()> {
        let named = |error| io::Error::other(format!("cannot listen on {address}: {error}"));
        self.0.push((purpose, listen(address).map_err(named)?.into()));
        Ok(())
    }
}

fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// A socket that receives the packets of `protocol` that pass `filter`, from their IP header on.
fn packets(protocol: u16, filter: &[socket2::SockFilter]) -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(u32::from(protocol.to_be())).map(Protocol::from_raw);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(Family::PACKET, SocketType::DGRAM, flags, protocol)?;
    let socket = Socket::from(socket);
    socket.attach_filter(filter)?;
    Ok(socket.into())
}
