//! The network inside: loopback alone, with a route by which it takes every address (rtnetlink(7)).
//! The requests are made here and not by `ip`: a program that is executed under an ordinary user has
//! no rights in the namespace any more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{
    AddressFamily as Family, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send,
    socket_with,
};
use socket2::{Domain, Socket, Type};

use super::reach::Service;
use super::refused_connections;
use crate::cli::exit::{Exit, Failure, OrExit};

/// The index of loopback: it is the first interface of a namespace, and here the only one.
const LOOPBACK: u32 = 1;

/// The table of local routes (`RT_TABLE_LOCAL`).
const TABLE_LOCAL: u8 = 255;

/// Addresses beside those of names (198.18.0.0/16, fd00:c0::/96), in the same blocks.
const OWN_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc0, 0, 1, 0, 0, 0, 1);

/// Bytes of a response that are read; an acknowledgement is far smaller.
const RESPONSE_BYTES_MAX: usize = 8192;

/// Sets loopback up, and routes all addresses to it. Whether IPv6 is there, too, is returned.
pub fn set_up() -> io::Result<bool> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(Family::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut link = LinkMessage::default();
    link.header.index = LOOPBACK;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    request(&socket, RouteNetlinkMessage::SetLink(link))?;
    request(&socket, RouteNetlinkMessage::NewRoute(local_default(AddressFamily::Inet)))?;
    request(&socket, RouteNetlinkMessage::NewAddress(address(AddressFamily::Inet, OWN_V4.into())))?;
    let v6 = [
        RouteNetlinkMessage::NewRoute(local_default(AddressFamily::Inet6)),
        RouteNetlinkMessage::NewAddress(address(AddressFamily::Inet6, OWN_V6.into())),
    ];
    Ok(v6.into_iter().all(|message| request(&socket, message).is_ok()))
}

/// An address of this machine. With those of loopback alone, getaddrinfo(3) takes it for one without a
/// network, and looks for no address of one family (`AI_ADDRCONFIG`).
fn address(family: AddressFamily, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family;
    message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
    message.header.index = LOOPBACK;
    message.attributes.push(AddressAttribute::Local(address));
    message.attributes.push(AddressAttribute::Address(address));
    message
}

/// `local default dev lo`.
fn local_default(family: AddressFamily) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header.address_family = family;
    route.header.table = TABLE_LOCAL;
    route.header.protocol = RouteProtocol::Boot;
    route.header.scope = RouteScope::Host;
    route.header.kind = RouteType::Local;
    route.attributes.push(RouteAttribute::Oif(LOOPBACK));
    route
}

/// Sends one request, and waits for its acknowledgement.
fn request(socket: &OwnedFd, message: RouteNetlinkMessage) -> io::Result<()> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    send(socket, &bytes, SendFlags::empty())?;
    let mut buffer = vec![0; RESPONSE_BYTES_MAX];
    let (count, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
    let response = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[..count]);
    match response.map_err(io::Error::other)?.payload {
        NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        other => Err(io::Error::other(format!("an answer of netlink: {other:?}"))),
    }
}

// The sockets that the proxy serves inside. They stay in the namespace in which they are made,
// whatever process has them.

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

/// Ports whose connections are served: those of HTTP and HTTPS, and their usual alternatives.
pub const SERVED_PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// Ports that are served, at most: each takes two descriptors of the one message.
const PORTS_MAX: usize = 100;

/// The served ports, in the order of their numbers: [`SERVED_PORTS`] and the `named` ones, without
/// those of which the negative is named. None may be a port of the `services` outside.
pub fn served_ports(named: &[i32], services: &[Service]) -> Result<Vec<u16>, Failure> {
    let mut served: Vec<_> = SERVED_PORTS.to_vec();
    for named in named {
        let port = u16::try_from(named.unsigned_abs()).ok().filter(|port| *port > 0);
        let port = port
            .ok_or_else(|| anyhow::anyhow!("--ports: {named} is no port"))
            .or_exit(Exit::Usage)?;
        served.retain(|it| *it != port);
        served.extend((*named > 0).then_some(port));
    }
    served.sort_unstable();
    let reached = services.iter().find(|service| served.contains(&service.port));
    let message = match reached {
        Some(Service { host, port }) => Some(format!(
            "--reach {host}:{port}: that port is served by the proxy; leave it out with --ports -{port}"
        )),
        None if served.len() + services.len() > PORTS_MAX => {
            Some(format!("--ports and --reach: more than {PORTS_MAX} ports"))
        }
        None => None,
    };
    message.map_or(Ok(served), |it| Err(anyhow::anyhow!(it)).or_exit(Exit::Usage))
}
