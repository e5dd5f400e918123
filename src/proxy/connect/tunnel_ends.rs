//! The proxy's own ends of its tunnels to origins. Where the rules of the network do not exempt its
//! user, such a tunnel comes back to a transparent listener, names the same origin, and would be
//! opened once more, until no connection is left. HTTP ends such a loop by `Via`; inside a tunnel
//! there is none.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::TcpStream;
use tracing::warn;

use super::original_destination::canonical;
use crate::egress::OriginSocket;
use crate::runtime::lock::Lock;

/// The addresses of all workers' ends: as many as there are tunnels.
#[derive(Debug, Default)]
pub struct TunnelEnds {
    open: Lock<HashSet<SocketAddr>>,
    /// A loop has been logged. It is the same for every connection until the rules are right.
    is_logged: AtomicBool,
}

/// The end of one tunnel, until it is dropped.
#[derive(Debug)]
pub struct TunnelEnd {
    ends: Arc<TunnelEnds>,
    /// `None`: the connection has none any more, or is by TLS with a parent.
    address: Option<SocketAddr>,
}

impl TunnelEnds {
    /// Notes the proxy's end of `origin`, through which no byte has gone yet.
    pub fn note(self: &Arc<Self>, origin: &OriginSocket) -> TunnelEnd {
        let address = match origin {
            OriginSocket::Tcp(stream) => stream.local_addr().ok().map(canonical),
            OriginSocket::Tls(_) => None,
        };
        address.map(|address| self.open.lock().insert(address));
        TunnelEnd { ends: Arc::clone(self), address }
    }

    /// Whether the client of `stream` is one of them: a loop. The client of a redirected connection
    /// keeps its address.
    pub fn has_client_of(&self, stream: &TcpStream) -> bool {
        let client = stream.peer_addr().ok().map(canonical);
        client.is_some_and(|client| self.open.lock().contains(&client))
    }

    /// Logs a loop, once.
    pub fn log_loop(&self) {
        if !self.is_logged.swap(true, Relaxed) {
            warn!(
                "a connection of this proxy to an origin was redirected to itself: its user has to be exempt \
                 (`courtesy redirect apply --uid`)"
            );
        }
    }
}

impl Drop for TunnelEnd {
    fn drop(&mut self) {
        self.address.map(|address| self.ends.open.lock().remove(&address));
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_tunnel_that_comes_back_is_known_as_long_as_it_is_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [own, other] = [TcpStream::connect(address).await, TcpStream::connect(address).await];
        let (own, _other) = (OriginSocket::Tcp(own.unwrap()), other.unwrap());
        let [(first, _), (second, _)] =
            [listener.accept().await, listener.accept().await].map(|accepted| accepted.unwrap());
        let ends = Arc::new(TunnelEnds::default());
        let known = || [&first, &second].map(|stream| ends.has_client_of(stream));
        assert_eq!(known(), [false, false]);
        let end = ends.note(&own);
        assert_eq!(known(), [true, false]);
        drop(end);
        assert_eq!(known(), [false, false]);
    }
}
