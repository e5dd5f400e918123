//! The network inside: loopback alone, with a route by which it takes every address (rtnetlink(7)).
//! The requests are made here and not by `ip`: a program that is executed under an ordinary user has
//! no rights in the namespace any more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily as Family, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

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
