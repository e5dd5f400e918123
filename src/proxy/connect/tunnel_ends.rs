//! The ends of the proxy's own tunnels to origins. Where the rules of the network do not exempt its
//! user, such a tunnel comes back to a transparent listener, names the same origin, and would be
//! opened once more, until no connection is left. HTTP ends such a loop by `Via`; inside a tunnel
//! there is none.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::TcpStream;
use tracing::warn;

use super::redirect_kind::canonical;
use crate::egress::OriginSocket;
use crate::runtime::lock::Lock;

/// The proxy's address and that of the origin. The proxy's alone would not do: the system may give
/// its port to a client as well, for another destination.
type Ends = [SocketAddr; 2];

/// The ends of all workers' tunnels.
#[derive(Debug, Default)]
pub struct TunnelEnds {
    open: Lock<HashSet<Ends>>,
    /// A loop has been logged. It is the same for every connection until the rules are right.
    is_logged: AtomicBool,
}

/// The ends of one tunnel, until it is dropped.
#[derive(Debug)]
pub struct TunnelEnd {
    ends: Arc<TunnelEnds>,
    /// `None`: the connection has none any more, or is by TLS with a parent.
    open: Option<Ends>,
}

impl TunnelEnds {
    /// Notes the ends of `origin`, through which no byte has gone yet.
    pub fn note(self: &Arc<Self>, origin: &OriginSocket) -> TunnelEnd {
        let open = match origin {
            OriginSocket::Tcp(stream) => ends(stream.local_addr(), stream.peer_addr()),
            OriginSocket::Tls(_) => None,
        };
        open.map(|open| self.open.lock().insert(open));
        TunnelEnd { ends: Arc::clone(self), open }
    }

    /// Whether the client of `stream` is the proxy itself: a loop. The client of a redirected
    /// connection keeps its address; `destination` is the one that it has connected to.
    pub fn is_loop(&self, stream: &TcpStream, destination: SocketAddr) -> bool {
        ends(stream.peer_addr(), Ok(destination)).is_some_and(|it| self.open.lock().contains(&it))
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
        self.open.map(|open| self.ends.open.lock().remove(&open));
    }
}

fn ends(here: io::Result<SocketAddr>, there: io::Result<SocketAddr>) -> Option<Ends> {
    Some([canonical(here.ok()?), canonical(there.ok()?)])
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
        let known = || [&first, &second].map(|stream| ends.is_loop(stream, address));
        assert_eq!(known(), [false, false]);
        let end = ends.note(&own);
        assert_eq!(known(), [true, false]);
        assert!(!ends.is_loop(&first, "192.0.2.1:443".parse().unwrap()), "another destination");
        drop(end);
        assert_eq!(known(), [false, false]);
    }
}
