//! Bytes both ways, until both sides have ended or neither says anything for too long: for much less
//! long, once the proxy stops.

pub mod batching;
pub mod splice;

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::debug;

use crate::proxy::connect::opening::Opening;
use crate::proxy::connect::tunnel::splice::{Pipes, write_all};
use crate::proxy::limits::TUNNEL_BUFFER_BYTES;
use crate::runtime::clock;
use crate::runtime::shutdown::Shutdown;

/// How long neither side of a tunnel may say anything once the proxy stops.
const TUNNEL_DRAIN_SILENCE: Duration = Duration::from_secs(1);

/// How long a tunnel may be silent. Traffic in one direction keeps the other open, too.
#[derive(Debug)]
pub struct Silence {
    limit: Duration,
    stop: Shutdown,
    since: Mutex<Instant>,
    /// Who said something last.
    spoke: AtomicU8,
}

/// The ends of a tunnel.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Client,
    Origin,
}

impl Silence {
    /// At most `limit`, and hardly at all once `stop` is said: a tunnel may be kept open for hours
    /// without a word, and would hold the drain for all of its time.
    pub fn new(limit: Duration, stop: Shutdown) -> Self {
        Self {
            limit,
            stop,
            since: Mutex::new(clock::monotonic()),
            spoke: AtomicU8::new(Side::Client as u8),
        }
    }

    /// Something was said.
    pub fn broken(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = clock::monotonic();
    }

    /// Notes that `side` has said something, and whether the other had since it last did.
    pub fn is_reply(&self, side: Side) -> bool {
        self.spoke.swap(side as u8, Ordering::Relaxed) != side as u8
    }

    /// Returns when it has lasted too long. One timer for both directions, which is not set anew with
    /// each byte.
    async fn too_long(&self) {
        tokio::select! {
            () = self.lasted(self.limit) => debug!("a tunnel without data for {:?} is closed", self.limit),
            () = async { self.stop.wait().await; self.lasted(TUNNEL_DRAIN_SILENCE).await } => {
                debug!("a tunnel that nobody used is closed: the proxy stops");
            }
        }
    }

    async fn lasted(&self, limit: Duration) {
        loop {
            let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
            match limit.checked_sub(clock::monotonic().duration_since(since)) {
                None | Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
            }
        }
    }
}

/// Between two sockets, by way of the system alone but for the client's first bytes: of those, `first` have
/// been read already, and `opening` says whether they may go to the origin.
pub async fn relay(
    client: &TcpStream,
    first: Vec<u8>,
    origin: &TcpStream,
    opening: &Opening<'_>,
    silence: &Silence,
    pipes: &Pipes,
) -> io::Result<()> {
    let out = async {
        // It is given back before the rest.
        let first = Box::pin(opening.read(client, first)).await?;
        write_all(origin, &first, silence).await?;
        drop(first);
        pipes.pump(Side::Client, client, origin, silence).await
    };
    let back = pipes.pump(Side::Origin, origin, client, silence);
    both(out, back, silence).await
}

/// Between two streams of any kind.
pub async fn copy<C, O>(client: C, origin: O, silence: &Silence) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_origin, to_origin) = tokio::io::split(origin);
    both(pump(from_client, to_origin, silence), pump(from_origin, to_client, silence), silence)
        .await
}

async fn both(
    out: impl Future<Output = io::Result<()>>,
    back: impl Future<Output = io::Result<()>>,
    silence: &Silence,
) -> io::Result<()> {
    let both = async { tokio::try_join!(out, back).map(drop) };
    tokio::select! {
        ended = both => ended,
        () = silence.too_long() => Ok(()),
    }
}

/// Copies until the end of `from`, then ends `to`.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    silence: &Silence,
) -> io::Result<()> {
    let mut buffer = vec![0; TUNNEL_BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        silence.broken();
        to.write_all(&buffer[..count]).await?;
        silence.broken();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_what_a_side_says_first_after_the_other() {
        let silence = Silence::new(Duration::ZERO, Shutdown::default());
        let said = [
            (Side::Client, false),
            (Side::Origin, true),
            (Side::Origin, false),
            (Side::Client, true),
        ];
        for (side, is_reply) in said {
            assert_eq!(silence.is_reply(side), is_reply, "{side:?}");
        }
    }
}
