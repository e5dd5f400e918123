//! Moves bytes both ways between a client and an origin: [`relay`] between two sockets by
//! splice(2), [`copy`] between streams of any kind, TLS for example.

mod splice;

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::redirect_kind::canonical;
use crate::egress::OriginSocket;
use crate::proxy::TUNNEL_BUFFER_BYTES;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
pub use splice::{Pipes, relay};

/// The idle timeout of a tunnel once the proxy shuts down. A tunnel may stay open for hours without
/// data, and would otherwise take all of the drain timeout.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// An end of a tunnel.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Client,
    Origin,
}

/// Ends a tunnel that moves no data. Data in either direction keeps both open.
#[derive(Debug)]
pub struct IdleTimer {
    timeout: Duration,
    shutdown: CancellationToken,
    last_activity: Lock<Instant>,
    /// The [`Side`] that sent last.
    last_sender: AtomicU8,
}

impl IdleTimer {
    /// Ends after `timeout` without data, and after a second without data once `shutdown` is
    /// triggered.
    pub fn new(timeout: Duration, shutdown: CancellationToken) -> Self {
        let last_activity = Lock::new(clock::monotonic());
        Self { timeout, shutdown, last_activity, last_sender: AtomicU8::new(Side::Client as u8) }
    }

    /// Starts the timeout again: data was read or written.
    pub fn note_activity(&self) {
        *self.last_activity.lock() = clock::monotonic();
    }

    /// Makes `side` the last sender; true if it was the other one before.
    pub fn note_sender(&self, side: Side) -> bool {
        self.last_sender.swap(side as u8, Ordering::Relaxed) != side as u8
    }

    /// Runs both directions of a tunnel until both end, one fails, or no data moves for too long.
    ///
    /// # Errors
    ///
    /// The error of the direction that failed first. The idle timeout is no error.
    pub async fn run(
        &self,
        to_origin: impl Future<Output = io::Result<()>>,
        to_client: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let both = async { tokio::try_join!(to_origin, to_client).map(drop) };
        tokio::select! {
            ended = both => ended,
            () = self.expired() => Ok(()),
        }
    }

    /// Returns at the idle timeout. One timer serves both directions; data does not reset it, so
    /// that a byte costs no timer operation.
    async fn expired(&self) {
        tokio::select! {
            () = self.idle_for(self.timeout) => {
                debug!("a tunnel without data for {:?} is closed", self.timeout);
            }
            () = async { self.shutdown.cancelled().await; self.idle_for(DRAIN_IDLE_TIMEOUT).await } => {
                debug!("an idle tunnel is closed: the proxy shuts down");
            }
        }
    }

    async fn idle_for(&self, limit: Duration) {
        loop {
            let idle = clock::monotonic().duration_since(*self.last_activity.lock());
            match limit.checked_sub(idle) {
                None | Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
            }
        }
    }
}

/// Copies both ways until both streams end, one fails, or `idle` expires.
///
/// # Errors
///
/// The first error of either stream.
pub async fn copy<C, O>(client: C, origin: O, idle: &IdleTimer) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_origin, to_origin) = tokio::io::split(origin);
    let to_origin = copy_one_way(from_client, to_origin, idle);
    idle.run(to_origin, copy_one_way(from_origin, to_client, idle)).await
}

/// Copies until the end of `from`, then ends `to`.
///
/// # Errors
///
/// The first error of either.
pub async fn copy_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    idle: &IdleTimer,
) -> io::Result<()> {
    let mut buffer = vec![0; TUNNEL_BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        idle.note_activity();
        to.write_all(&buffer[..count]).await?;
        // TLS may hold a part of it back.
        to.flush().await?;
        idle.note_activity();
    }
}

/// Calls `read` on a socket that may have data.
///
/// # Errors
///
/// Those of `read`, but for [`ErrorKind::WouldBlock`], which is `None`.
pub fn read_ready<T>(
    from: &TcpStream,
    read: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<Option<T>> {
    match from.try_io(Interest::READABLE, || read(from.as_fd())) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        read => read.map(Some),
    }
}

/// Calls `write` on a socket as soon as it takes data.
///
/// # Errors
///
/// Those of `write`, but for [`ErrorKind::WouldBlock`], after which it waits.
pub async fn write_ready<T>(
    to: &TcpStream,
    mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<T> {
    to.async_io(Interest::WRITABLE, || write(to.as_fd())).await
}

/// Writes all of `bytes`. Each write is activity for `idle`.
///
/// # Errors
///
/// The error of the write that failed.
pub async fn write_all(to: &TcpStream, bytes: &[u8], idle: &IdleTimer) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let written = write_ready(to, |to| SockRef::from(&to).send(left)).await?;
        left = &left[written..];
        idle.note_activity();
    }
    Ok(())
}

// The ends of the proxy's own tunnels to origins. Where the rules of the network do not exempt its
// user, such a tunnel comes back to a transparent listener, names the same origin, and would be
// opened once more, until no connection is left. HTTP ends such a loop by `Via`; inside a tunnel
// there is none.

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

    #[test]
    fn the_sender_changes_when_a_side_sends_after_the_other() {
        let idle = IdleTimer::new(Duration::ZERO, CancellationToken::new());
        let sent = [
            (Side::Client, false),
            (Side::Origin, true),
            (Side::Origin, false),
            (Side::Client, true),
        ];
        for (side, is_change) in sent {
            assert_eq!(idle.note_sender(side), is_change, "{side:?}");
        }
    }

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
