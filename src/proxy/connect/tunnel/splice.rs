//! Pipes between sockets: with them the system moves bytes from one connection to the other without a
//! way through this process (splice(2)), which is most of what a tunnel costs. A pipe is used only
//! while something is in it, so that a few serve any number of tunnels.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use crate::proxy::connect::tunnel::batching::Gathering;
use crate::proxy::connect::tunnel::{Side, Silence};
use crate::proxy::limits::TUNNEL_BUFFER_BYTES;

/// Pipes between sockets, each two descriptors. Where more tunnels have something under way at once, the
/// others copy.
pub(crate) const PIPES_MAX: usize = 16;

/// Bytes that a pipe holds: what one turn of a tunnel moves.
const PIPE_BYTES: usize = 256 * 1024;

/// Where fewer bytes of a stream are there, it is let gather: half of what a turn moves.
const STREAM_GATHERED_BYTES: u64 = PIPE_BYTES as u64 / 2;

/// How long a stream gathers: a moment beside the way there and back through most networks. What follows the
/// end of one in the same direction waits no longer than that, rounded up by the timer.
const STREAM_GATHERS: Duration = Duration::from_millis(1);

/// The pipes of all workers.
#[derive(Debug)]
pub struct Pipes {
    empty: Mutex<Vec<Pipe>>,
    places: Semaphore,
}

#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Default for Pipes {
    fn default() -> Self {
        Self { empty: Mutex::default(), places: Semaphore::new(PIPES_MAX) }
    }
}

impl Pipes {
    /// Passes on what `side` says until it ends, then ends the other's.
    pub async fn pump(
        &self,
        side: Side,
        from: &TcpStream,
        to: &TcpStream,
        silence: &Silence,
    ) -> io::Result<()> {
        let mut gathering = Gathering::default();
        from.readable().await?;
        loop {
            // A stream that never ends, to a side that always takes it, would have the worker for itself.
            consume_budget().await;
            let moved = match self.take() {
                Some((pipe, _place)) => self.splice(pipe, from, to, silence).await?,
                None => copy(from, to, silence).await?,
            };
            match moved {
                Some(0) => return SockRef::from(to).shutdown(Shutdown::Write),
                Some(bytes) => gathering.came(bytes, silence.is_reply(side)),
                None => {}
            }
            // Who takes at once what has just come of a stream takes little, again and again.
            let is_little = moved.is_none()
                || gathering.is_stream() && ioctl_fionread(from)? < STREAM_GATHERED_BYTES;
            match is_little && gathering.is_drained() {
                true => sleep(STREAM_GATHERS).await,
                false if moved.is_none() => from.readable().await?,
                false => {}
            }
        }
    }

    /// An empty pipe, and the right to use it. None when there are enough in use, or no descriptors.
    fn take(&self) -> Option<(Pipe, SemaphorePermit<'_>)> {
        let place = self.places.try_acquire().ok()?;
        let kept = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Some((kept.or_else(Pipe::open)?, place))
    }

    /// What there is to read now, however long `to` takes for it. `None`: there was nothing.
    async fn splice(
        &self,
        pipe: Pipe,
        from: &TcpStream,
        to: &TcpStream,
        silence: &Silence,
    ) -> io::Result<Option<usize>> {
        let Some(count) = read_ready(from, |from| splice(from, &pipe.into, PIPE_BYTES))? else {
            self.put(pipe);
            return Ok(None);
        };
        silence.broken();
        let mut left = count;
        while left > 0 {
            left -= write_ready(to, |to| splice(&pipe.out, to, left)).await?;
            silence.broken();
        }
        // One that was left before, with something in it, was closed.
        self.put(pipe);
        Ok(Some(count))
    }

    fn put(&self, pipe: Pipe) {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).push(pipe);
    }
}

impl Pipe {
    fn open() -> Option<Self> {
        let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        // Where the system grants no more, what there is by default does.
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        Some(Self { out, into })
    }
}

fn splice(from: impl AsFd, to: impl AsFd, count: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::splice(from, None, to, None, count, flags)?)
}

/// [`Pipes::splice`], through this process.
async fn copy(from: &TcpStream, to: &TcpStream, silence: &Silence) -> io::Result<Option<usize>> {
    let mut buffer = vec![0; TUNNEL_BUFFER_BYTES];
    let Some(count) = read_ready(from, |from| Ok(rustix::io::read(from, &mut buffer)?))? else {
        return Ok(None);
    };
    silence.broken();
    write_all(to, &buffer[..count], silence).await?;
    Ok(Some(count))
}

/// Writes all of `bytes`, each piece that goes breaking the silence.
pub async fn write_all(to: &TcpStream, bytes: &[u8], silence: &Silence) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let written = write_ready(to, |to| SockRef::from(&to).send(left)).await?;
        left = &left[written..];
        silence.broken();
    }
    Ok(())
}

/// Reads with `read` what has come; `None` when nothing has.
pub fn read_ready<T>(
    from: &TcpStream,
    read: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<Option<T>> {
    match from.try_io(Interest::READABLE, || read(from.as_fd())) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        read => read.map(Some),
    }
}

/// Writes with `write` as soon as there is room.
async fn write_ready<T>(
    to: &TcpStream,
    mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<T> {
    to.async_io(Interest::WRITABLE, || write(to.as_fd())).await
}
