//! The two ways in which a network redirects connections to the proxy, and how the address that the
//! client has connected to is learnt in each.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::name_server::VirtualAddresses;
use crate::proxy::observe::request_metrics::ListenerKind;
use crate::types::origin::Host;

/// How the network redirects connections to a listener. It decides where the original destination
/// is found, which is the address that the client has connected to.
#[derive(Clone, Debug)]
pub enum RedirectKind {
    /// By rewriting the destination (nftables `redirect`): the kernel has the original one
    /// (`SO_ORIGINAL_DST`, ip(7)).
    Nat,
    /// By routing all addresses to this listener, as in a sealed run: the connection's local
    /// address is the original destination. Some are the virtual address of a name.
    Routed(Arc<VirtualAddresses>),
}

impl RedirectKind {
    /// The address that the client at the other end of `stream` has connected to.
    ///
    /// # Errors
    ///
    /// Of the system; or the client has connected to the listener itself, which would be a loop.
    pub fn original_destination(&self, stream: &TcpStream) -> io::Result<SocketAddr> {
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

    /// The kind of listener that such connections are counted under.
    pub(super) const fn listener_kind(&self) -> ListenerKind {
        match self {
            Self::Nat => ListenerKind::Transparent,
            Self::Routed(_) => ListenerKind::Sealed,
        }
    }

    /// The name whose virtual address `address` is.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Host> {
        match self {
            Self::Nat => None,
            Self::Routed(virtual_addresses) => virtual_addresses.name_of(address).map(Host::Name),
        }
    }
}

/// An IPv4 address as such, also on a socket of IPv6.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
