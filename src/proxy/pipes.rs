//! Pipes between sockets: with them the system moves octets from one connection to the other without a
//! way through this process (splice(2)), which is most of what a tunnel costs. A pipe is used only
//! while something is in it, so that a few serve any number of tunnels.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep;

use super::gather::Gathering;
use super::tunnel::{Side, Silence};
use crate::limits::{PIPE_OCTETS, PIPES_MAX, STREAM_GATHERS, TUNNEL_BUFFER_OCTETS};

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
        loop {
            from.readable().await?;
            let moved = match self.take() {
                Some((pipe, _place)) => self.splice(pipe, from, to, silence).await?,
                None => copy(from, to, silence).await?,
            };
            match moved {
                Some(0) => return SockRef::from(to).shutdown(Shutdown::Write),
                Some(octets) => gathering.came(octets, silence.is_reply(side)),
                None if gathering.is_drained() => sleep(STREAM_GATHERS).await,
                None => {}
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
        let filled = from.try_io(Interest::READABLE, || splice(from, &pipe.into, PIPE_OCTETS));
        let Some(count) = unless_blocked(filled)? else {
            self.put(pipe);
            return Ok(None);
        };
        silence.broken();
        let mut left = count;
        while left > 0 {
            left -= to.async_io(Interest::WRITABLE, || splice(&pipe.out, to, left)).await?;
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
        let _ = fcntl_setpipe_size(&into, PIPE_OCTETS);
        Some(Self { out, into })
    }
}

fn splice(from: impl std::os::fd::AsFd, to: impl std::os::fd::AsFd, count: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::splice(from, None, to, None, count, flags)?)
}

/// [`Pipes::splice`], through this process.
async fn copy(from: &TcpStream, to: &TcpStream, silence: &Silence) -> io::Result<Option<usize>> {
    let mut buffer = vec![0; TUNNEL_BUFFER_OCTETS];
    let Some(count) = unless_blocked(from.try_read(&mut buffer))? else { return Ok(None) };
    silence.broken();
    write_all(to, &buffer[..count], silence).await?;
    Ok(Some(count))
}

/// Writes all of `octets`, each piece that goes breaking the silence.
pub async fn write_all(to: &TcpStream, octets: &[u8], silence: &Silence) -> io::Result<()> {
    let mut left = octets;
    while !left.is_empty() {
        to.writable().await?;
        let written = unless_blocked(to.try_write(left))?.unwrap_or_default();
        left = &left[written..];
        if written > 0 {
            silence.broken();
        }
    }
    Ok(())
}

fn unless_blocked(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
