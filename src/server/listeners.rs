//! The listening sockets of the proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::proxy::RedirectKind;
use crate::runtime::listener;

/// Bound sockets that are not served yet. Port 0 has become a number. Those that this process has
/// bound listen only when the proxy serves: until then the system refuses connections.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<BoundListener>,
}

/// One listening socket.
#[derive(Debug)]
pub(super) struct BoundListener {
    pub socket: TcpListener,
    /// On a transparent listener: how connections to origins are redirected to it. `None`: clients
    /// connect to the proxy.
    pub redirect: Option<RedirectKind>,
    /// Inherited sockets listen already.
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
        let sockets = addresses.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { sockets: bound_listeners(sockets, None, false) })
    }

    /// Binds all `addresses`, or none, for connections that are redirected to them.
    pub fn bind_transparent(
        addresses: &[SocketAddr],
        redirect: RedirectKind,
    ) -> Result<Self, BindError> {
        let Self { sockets } = Self::bind(addresses)?;
        let transparent = |bound| BoundListener { redirect: Some(redirect.clone()), ..bound };
        Ok(Self { sockets: sockets.into_iter().map(transparent).collect() })
    }

    /// Sockets that another process has bound, such as the service manager.
    pub fn inherited(listeners: Vec<TcpListener>) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: bound_listeners(listeners, None, true) })
    }

    /// The same, for connections that are redirected to them.
    pub fn inherited_transparent(
        listeners: Vec<TcpListener>,
        redirect: RedirectKind,
    ) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: bound_listeners(listeners, Some(redirect), true) })
    }

    /// These and `more`; these come first.
    pub fn with(mut self, more: Self) -> Self {
        self.sockets.extend(more.sockets);
        self
    }

    /// Begins to listen.
    pub(super) fn listen(&mut self) -> Result<(), BindError> {
        for listener in self.sockets.iter_mut().filter(|listener| !listener.is_listening) {
            let socket = &listener.socket;
            let in_use = |source| BindError {
                address: socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into()),
                source,
            };
            listener::listen(socket).map_err(in_use)?;
            listener.is_listening = true;
        }
        Ok(())
    }

    /// Duplicates the sockets. Each connection is accepted by the first to poll.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let clone = |listener: &BoundListener| {
            let BoundListener { socket, redirect, is_listening } = listener;
            let (socket, redirect) = (socket.try_clone()?, redirect.clone());
            Ok(BoundListener { socket, redirect, is_listening: *is_listening })
        };
        Ok(Self { sockets: self.sockets.iter().map(clone).collect::<io::Result<_>>()? })
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect()
    }
}

fn bound_listeners(
    sockets: Vec<TcpListener>,
    redirect: Option<RedirectKind>,
    is_listening: bool,
) -> Vec<BoundListener> {
    let of = |socket| BoundListener { socket, redirect: redirect.clone(), is_listening };
    sockets.into_iter().map(of).collect()
}
