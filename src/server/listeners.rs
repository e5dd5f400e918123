//! The listening sockets of the proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::runtime::listener;

/// Bound sockets that are not served yet. Port 0 has become a number. Those that this process has
/// bound listen only when the proxy serves: until then the system refuses connections.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<TcpListener>,
    /// Inherited sockets, which listen already.
    is_listening: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Listeners {
    /// Binds all `addresses`, or none.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, BindError> {
        let bind = |address: &SocketAddr| {
            listener::bind(*address).map_err(|source| BindError { address: *address, source })
        };
        let sockets = addresses.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { sockets, is_listening: false })
    }

    /// Sockets inherited from the service manager.
    pub fn handed_over(listeners: Vec<TcpListener>) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: listeners, is_listening: true })
    }

    /// Begins to listen.
    pub(super) fn listen(&mut self) -> Result<(), BindError> {
        for socket in self.sockets.iter().filter(|_| !self.is_listening) {
            let in_use = |source| BindError {
                address: socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into()),
                source,
            };
            listener::listen(socket).map_err(in_use)?;
        }
        self.is_listening = true;
        Ok(())
    }

    /// Duplicates the sockets. Each connection is accepted by the first to poll.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let sockets = self.sockets.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        Ok(Self { sockets, is_listening: self.is_listening })
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}
