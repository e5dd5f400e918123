//! Pipes between sockets: with them the system moves octets from one connection to the other without a
//! way through this process (splice(2)), which is most of what a tunnel costs. A pipe is used only
//! while something is in it, so that a few serve any number of tunnels.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::tunnel::Silence;
use crate::limits::{PIPE_OCTETS, PIPES_MAX, TUNNEL_BUFFER_OCTETS};

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
    /// Passes on until the end of `from`, then ends `to`.
    pub async fn pump(&self, from: &TcpStream, to: &TcpStream, silence: &Silence) -> io::Result<()> {
        loop {
            from.readable().await?;
            let moved = match self.take() {
                Some((pipe, _place)) => self.splice(pipe, from, to, silence).await?,
                None => copy(from, to, silence).await?,
            };
            if moved == Some(0) {
                return SockRef::from(to).shutdown(Shutdown::Write);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::super::tunnel;
    use super::*;

    /// More than sockets with small buffers and a pipe hold.
    const OCTETS: usize = 2 << 20;

    /// The two ends of a connection that holds little.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let far = listener.accept().await.unwrap().0;
        for end in [&near, &far] {
            SockRef::from(end).set_send_buffer_size(1 << 14).unwrap();
            SockRef::from(end).set_recv_buffer_size(1 << 14).unwrap();
        }
        (near, far)
    }

    #[tokio::test]
    async fn more_tunnels_than_pipes_carry_every_octet_both_ways() {
        let (pipes, (go, _)) = (Arc::new(Pipes::default()), watch::channel(false));
        let mut tunnels = tokio::task::JoinSet::new();
        for number in 0..PIPES_MAX * 2 {
            let (pipes, mut may_read) = (Arc::clone(&pipes), go.subscribe());
            tunnels.spawn(async move {
                let ((mut client, near), (far, mut origin)) = (connection().await, connection().await);
                let silence = Silence::new(Duration::from_secs(60), CancellationToken::new());
                let tunnel = tunnel::splice(&near, b"", &far, &silence, &pipes);
                let octets: Vec<u8> = (0..OCTETS).map(|place| (place / 7 + number) as u8).collect();
                let ends = async {
                    let sent = async {
                        client.write_all(&octets).await.unwrap();
                        client.shutdown().await.unwrap();
                        let mut answer = String::new();
                        client.read_to_string(&mut answer).await.unwrap();
                        assert_eq!(answer, "received");
                    };
                    let received = async {
                        may_read.wait_for(|go| *go).await.unwrap();
                        let mut received = Vec::new();
                        origin.read_to_end(&mut received).await.unwrap();
                        assert!(received == octets, "tunnel {number}");
                        origin.write_all(b"received").await.unwrap();
                        origin.shutdown().await.unwrap();
                    };
                    tokio::join!(sent, received);
                };
                tokio::join!(tunnel, ends);
            });
        }
        while pipes.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        go.send_replace(true);
        while let Some(tunnel) = tunnels.join_next().await {
            tunnel.unwrap();
        }
        assert_eq!(pipes.places.available_permits(), PIPES_MAX);
        assert!(pipes.empty.lock().unwrap().len() <= PIPES_MAX);
    }

    #[tokio::test]
    async fn a_pipe_that_a_tunnel_ended_with_is_never_used_again() {
        let pipes = Pipes::default();
        let ((mut client, near), (far, _origin)) = (connection().await, connection().await);
        let silence = Silence::new(Duration::from_secs(60), CancellationToken::new());
        let write = async { while client.write_all(&[1; 1 << 16]).await.is_ok() {} };
        let stuck = async {
            while pipes.places.available_permits() == PIPES_MAX {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = tunnel::splice(&near, b"", &far, &silence, &pipes) => panic!("nobody has ended it"),
            () = write => panic!("nobody has ended it"),
            () = stuck => {}
        }
        assert_eq!(pipes.places.available_permits(), PIPES_MAX);
        for pipe in pipes.empty.lock().unwrap().drain(..) {
            assert_eq!(
                rustix::io::read(&pipe.out, &mut [0; 1]),
                Err(rustix::io::Errno::AGAIN),
                "it is empty"
            );
        }
    }
    #[tokio::test]
    async fn what_was_read_before_goes_first_and_waits_no_longer_than_the_rest() {
        let pipes = Pipes::default();
        let ((mut client, near), (far, mut origin)) = (connection().await, connection().await);
        let silence = Silence::new(Duration::from_secs(60), CancellationToken::new());
        client.write_all(b"then").await.unwrap();
        client.shutdown().await.unwrap();
        let read = async {
            let mut received = String::new();
            origin.read_to_string(&mut received).await.unwrap();
            origin.shutdown().await.unwrap();
            received
        };
        let (received, ()) = tokio::join!(read, tunnel::splice(&near, b"first, ", &far, &silence, &pipes));
        assert_eq!(received, "first, then");

        // Nobody reads it: the silence ends the tunnel, and nothing waits for ever.
        let ((_client, near), (far, _origin)) = (connection().await, connection().await);
        let silence = Silence::new(Duration::from_millis(50), CancellationToken::new());
        tunnel::splice(&near, &vec![0; OCTETS], &far, &silence, &pipes).await;
    }
}
