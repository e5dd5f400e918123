//! The address that a client has connected to, on a connection that the network has led to the
//! proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::name_server::VirtualAddresses;
use crate::proxy::observe::connection_metrics::ListenerKind;
use crate::types::origin::Host;

/// How the address that a client has connected to is known.
#[derive(Clone, Debug)]
pub enum OriginalDestination {
    /// The kernel knows the address before it was rewritten (nftables `redirect`;
    /// `SO_ORIGINAL_DST`, ip(7)).
    Redirected,
    /// The connection's own local address: the network routes all addresses to this listener. Some
    /// are the virtual address of a name.
    Routed(Arc<VirtualAddresses>),
}

impl OriginalDestination {
    /// The address that the client at the other end of `stream` has connected to.
    ///
    /// # Errors
    ///
    /// Of the system; or the client has connected to the listener itself, which would be a loop.
    pub fn of(&self, stream: &TcpStream) -> io::Result<SocketAddr> {
        let local = canonical(stream.local_addr()?);
        if matches!(self, Self::Routed(_)) {
            return Ok(local);
        }
        let socket = SockRef::from(stream);
        let original =
            if local.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
        let original = original?.as_socket().map(canonical);
        let not_redirected = || io::Error::other("it was not redirected, but made to the listener");
        original.filter(|original| *original != local).ok_or_else(not_redirected)
    }

    /// The listener of this kind.
    pub(super) const fn listener_kind(&self) -> ListenerKind {
        match self {
            Self::Redirected => ListenerKind::Transparent,
            Self::Routed(_) => ListenerKind::Sealed,
        }
    }

    /// The name whose virtual address `address` is.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Host> {
        match self {
            Self::Redirected => None,
            Self::Routed(virtual_addresses) => virtual_addresses.name_of(address).map(Host::Name),
        }
    }
}

/// An IPv4 address as such, also on a socket of IPv6.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
