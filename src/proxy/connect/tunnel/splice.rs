//! A tunnel between two sockets. The system moves the bytes from one to the other through a pipe
//! (splice(2)), without a copy in this process, which is most of what a tunnel costs. A pipe is
//! taken only while data is in it, so that a few pipes serve any number of tunnels.

#[cfg(test)]
mod tests;

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::{IdleTimer, Side, read_ready, write_all, write_ready};
use crate::proxy::TUNNEL_BUFFER_BYTES;
use crate::runtime::lock::Lock;

/// Pipes of the process, two descriptors each. Tunnels that move data while all are taken copy it.
pub const PIPES_MAX: usize = 16;

/// Bytes that a pipe holds: what one turn of a tunnel moves.
const PIPE_BYTES: usize = 256 * 1024;

/// A stream with fewer bytes to read is left to batch: half of what a turn moves.
const BATCH_BYTES: u64 = PIPE_BYTES as u64 / 2;

/// How long a stream is left to batch: short beside the round trip of most networks. Data that
/// follows the end of a stream in the same direction waits no longer than this, rounded up by the
/// timer.
const BATCH_TIME: Duration = Duration::from_millis(1);

/// The pipes of all workers.
#[derive(Debug)]
pub struct Pipes {
    empty: Lock<Vec<Pipe>>,
    permits: Semaphore,
}

#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Default for Pipes {
    fn default() -> Self {
        Self { empty: Lock::default(), permits: Semaphore::new(PIPES_MAX) }
    }
}

/// Moves bytes both ways until both sockets end, one fails, or `idle` expires. `first` yields the
/// client's first bytes, which this process reads, when they may go to the origin.
///
/// # Errors
///
/// The error of `first`, or the first error of either socket.
pub async fn relay(
    client: &TcpStream,
    first: Pin<Box<impl Future<Output = io::Result<Vec<u8>>>>>,
    origin: &TcpStream,
    idle: &IdleTimer,
    pipes: &Pipes,
) -> io::Result<()> {
    let to_origin = async {
        // Boxed, so that its memory is free while the tunnel runs.
        let first = first.await?;
        write_all(origin, &first, idle).await?;
        drop(first);
        pipes.pump(Side::Client, client, origin, idle).await
    };
    idle.run(to_origin, pipes.pump(Side::Origin, origin, client, idle)).await
}

impl Pipes {
    /// Moves what `side` sends until it ends, then ends `to`.
    async fn pump(
        &self,
        side: Side,
        from: &TcpStream,
        to: &TcpStream,
        idle: &IdleTimer,
    ) -> io::Result<()> {
        let mut batching = Batching::default();
        from.readable().await?;
        loop {
            // Without this, an endless stream to a fast reader would never yield the worker.
            consume_budget().await;
            let moved = match self.take() {
                Some((pipe, _permit)) => self.splice(pipe, from, to, idle).await?,
                None => copy(from, to, idle).await?,
            };
            match moved {
                Some(0) => return SockRef::from(to).shutdown(Shutdown::Write),
                Some(bytes) => batching.note_moved(bytes, idle.note_sender(side)),
                None => {}
            }
            // Reading a stream as soon as a piece of it is there moves little, again and again.
            let is_drained =
                moved.is_none() || batching.is_stream() && ioctl_fionread(from)? < BATCH_BYTES;
            if is_drained && batching.end_piece() {
                sleep(BATCH_TIME).await;
            } else if moved.is_none() {
                from.readable().await?;
            }
        }
    }

    /// An empty pipe, and the permit to use it. `None` when all are taken, or no descriptor is
    /// left.
    fn take(&self) -> Option<(Pipe, SemaphorePermit<'_>)> {
        let permit = self.permits.try_acquire().ok()?;
        let kept = self.empty.lock().pop();
        Some((kept.or_else(Pipe::open)?, permit))
    }

    /// Moves what can be read now, and waits until `to` has taken it. `None`: there was nothing.
    async fn splice(
        &self,
        pipe: Pipe,
        from: &TcpStream,
        to: &TcpStream,
        idle: &IdleTimer,
    ) -> io::Result<Option<usize>> {
        let Some(count) = read_ready(from, |from| splice(from, &pipe.into, PIPE_BYTES))? else {
            self.put(pipe);
            return Ok(None);
        };
        idle.note_activity();
        let mut left = count;
        while left > 0 {
            left -= write_ready(to, |to| splice(&pipe.out, to, left)).await?;
            idle.note_activity();
        }
        // A pipe with data in it is dropped, and closed, when the tunnel fails before this.
        self.put(pipe);
        Ok(Some(count))
    }

    fn put(&self, pipe: Pipe) {
        self.empty.lock().push(pipe);
    }
}

impl Pipe {
    fn open() -> Option<Self> {
        let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        // When the system grants no more, the default size does.
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        Some(Self { out, into })
    }
}

fn splice(from: impl AsFd, to: impl AsFd, count: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::splice(from, None, to, None, count, flags)?)
}

/// [`Pipes::splice`] by a copy through this process.
async fn copy(from: &TcpStream, to: &TcpStream, idle: &IdleTimer) -> io::Result<Option<usize>> {
    let mut buffer = vec![0; TUNNEL_BUFFER_BYTES];
    let Some(count) = read_ready(from, |from| Ok(rustix::io::read(from, &mut buffer)?))? else {
        return Ok(None);
    };
    idle.note_activity();
    write_all(to, &buffer[..count], idle).await?;
    Ok(Some(count))
}

// When to wait for more bytes before moving any. A stream at full speed is cheapest in few large
// portions: moving each piece at once wakes this process, and both systems, many times as often.
// An exchange of messages must not wait. It differs from a stream in that one side sends little at
// a time, or the sides alternate. (A message as long as a stream counts as one: the next may wait
// a millisecond.)

/// Bytes one way, with none the other way, from which on they are a stream and may be batched.
const STREAM_BYTES_MIN: usize = 1 << 20;

/// Bytes that each piece of a stream has at least. Slower data is moved at once.
const STREAM_PIECE_BYTES_MIN: usize = 16 << 10;

/// The traffic in one direction.
#[derive(Debug, Default)]
pub struct Batching {
    /// Bytes since the socket was drained.
    piece: usize,
    /// Bytes of the pieces before this one, while each was large enough for a stream.
    stream: usize,
}

impl Batching {
    /// Counts bytes that were moved. `is_reply`: the other side sent since this one last did.
    pub const fn note_moved(&mut self, bytes: usize, is_reply: bool) {
        if is_reply {
            (self.piece, self.stream) = (0, 0);
        }
        self.piece += bytes;
    }

    /// Whether this is a stream, which may be batched.
    pub const fn is_stream(&self) -> bool {
        self.piece >= STREAM_PIECE_BYTES_MIN && self.stream + self.piece >= STREAM_BYTES_MIN
    }

    /// Ends a piece, as the socket is (nearly) drained. True: wait before the next read.
    pub const fn end_piece(&mut self) -> bool {
        let is_stream = self.is_stream();
        self.stream =
            if self.piece >= STREAM_PIECE_BYTES_MIN { self.stream + self.piece } else { 0 };
        self.piece = 0;
        is_stream
    }
}

#[cfg(test)]
mod batching_tests {
    use super::*;

    const PIECE: usize = STREAM_PIECE_BYTES_MIN;
    const PIECES: usize = STREAM_BYTES_MIN / PIECE;

    /// The number of the first piece after which to wait; each piece comes in two portions.
    fn pieces_until_batched(pieces: impl IntoIterator<Item = (usize, bool)>) -> Option<usize> {
        let mut batching = Batching::default();
        let batched = pieces.into_iter().position(|(bytes, is_reply)| {
            batching.note_moved(1, is_reply);
            batching.note_moved(bytes - 1, false);
            batching.end_piece()
        });
        batched.map(|before| before + 1)
    }

    #[test]
    fn a_stream_is_batched_and_an_exchange_of_messages_never_is() {
        let streams = [PIECE, PIECE + 1, 10 * PIECE];
        for bytes in streams {
            let enough = STREAM_BYTES_MIN.div_ceil(bytes);
            assert_eq!(
                pieces_until_batched(vec![(bytes, false); 2 * PIECES]),
                Some(enough),
                "{bytes}"
            );
        }
        assert_eq!(
            pieces_until_batched(vec![(PIECE - 1, false); 9 * PIECES]),
            None,
            "little at a time"
        );
        assert_eq!(
            pieces_until_batched(vec![(STREAM_BYTES_MIN - 1, true); 99]),
            None,
            "one side asks"
        );
        let interrupted = (0..9 * PIECES).map(|number| (PIECE, number % (PIECES - 1) == 0));
        assert_eq!(pieces_until_batched(interrupted), None, "replies before it is a stream");
    }

    #[test]
    fn a_stream_starts_anew_after_a_small_piece_or_a_reply() {
        let mut batching = Batching::default();
        for (little, is_reply) in [(1, false), (PIECE, true)] {
            batching.note_moved(STREAM_BYTES_MIN, false);
            assert!(batching.end_piece());
            batching.note_moved(PIECE, false);
            assert!(batching.end_piece(), "it goes on");
            batching.note_moved(little, is_reply);
            assert!(!batching.end_piece());
        }
    }
}
