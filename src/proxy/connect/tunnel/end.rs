//! An end of a tunnel. The system tells of each piece that comes, and wakes us for it; while a stream gathers, nobody
//! wants to know.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::replace;
use std::net::{self, Shutdown};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// A socket, for one that reads it and one that writes, both of one task.
#[derive(Debug)]
pub struct End(Mutex<Socket>);

#[derive(Debug)]
enum Socket {
    /// The system tells the runtime what happens to it.
    Watched(TcpStream),
    Unwatched(net::TcpStream),
    /// The system would not change that.
    Lost,
}

impl From<TcpStream> for End {
    fn from(stream: TcpStream) -> Self {
        Self(Mutex::new(Socket::Watched(stream)))
    }
}

impl End {
    /// Waits until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.socket().watched()?.poll_read_ready(cx)).await
    }

    /// Waits so long, and is not woken for what comes in the meantime. Who waits for room to write is woken when it is
    /// over, for that is of the same task, and has it watched again.
    pub async fn gather(&self, time: Duration) -> io::Result<()> {
        self.socket().unwatch()?;
        sleep(time).await;
        Ok(())
    }

    /// Bytes that have come.
    pub fn waiting(&self) -> io::Result<u64> {
        Ok(ioctl_fionread(self.socket().get()?)?)
    }

    /// Reads by `read`, or `None` where there is nothing.
    pub fn read<T>(
        &self,
        read: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        match self.socket().attempt(Interest::READABLE, read) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    /// Writes by `write`, when there is room.
    pub async fn write<T>(
        &self,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        poll_fn(|cx| {
            loop {
                let mut socket = self.socket();
                match socket.attempt(Interest::WRITABLE, &mut write) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    written => return Poll::Ready(written),
                }
                ready!(socket.watched()?.poll_write_ready(cx))?;
            }
        })
        .await
    }

    /// Says that nothing more will be written.
    pub fn shut(&self) -> io::Result<()> {
        SockRef::from(&self.socket().get()?).shutdown(Shutdown::Write)
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket {
    /// From now on, if it was not before.
    fn watched(&mut self) -> io::Result<&TcpStream> {
        *self = match replace(self, Self::Lost) {
            Self::Unwatched(socket) => Self::Watched(TcpStream::from_std(socket)?),
            same => same,
        };
        match self {
            Self::Watched(stream) => Ok(stream),
            _ => Err(lost()),
        }
    }

    fn unwatch(&mut self) -> io::Result<()> {
        *self = match replace(self, Self::Lost) {
            Self::Watched(stream) => Self::Unwatched(stream.into_std()?),
            same => same,
        };
        Ok(())
    }

    fn get(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Watched(stream) => Ok(stream.as_fd()),
            Self::Unwatched(socket) => Ok(socket.as_fd()),
            Self::Lost => Err(lost()),
        }
    }

    /// Where it would block, the runtime waits for it to be ready again.
    fn attempt<T>(
        &self,
        interest: Interest,
        operation: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Self::Watched(stream) => stream.try_io(interest, || operation(stream.as_fd())),
            _ => operation(self.get()?),
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("the system would not change whether it watches the socket")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    /// More than two sockets hold.
    const BYTES: usize = 16 << 20;

    async fn connection() -> (End, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (End::from(near), listener.accept().await.unwrap().0)
    }

    fn is_watched(end: &End) -> bool {
        matches!(*end.socket(), Socket::Watched(_))
    }

    fn byte(end: &End) -> Option<u8> {
        let mut byte = [0];
        let count = end.read(|from| Ok(rustix::io::read(from, &mut byte)?)).unwrap();
        count.map(|count| byte[..count][0])
    }

    #[tokio::test]
    async fn what_comes_while_it_gathers_is_there_and_the_next_is_waited_for() {
        let (end, mut far) = connection().await;
        far.write_all(b"1").await.unwrap();
        end.readable().await.unwrap();
        assert_eq!((byte(&end), byte(&end), is_watched(&end)), (Some(b'1'), None, true));
        let come = async {
            end.gather(Duration::from_millis(1)).await.unwrap();
            while end.waiting().unwrap() < 2 {
                end.gather(Duration::from_millis(1)).await.unwrap();
            }
        };
        let (come, sent) = tokio::join!(timeout(LONG, come), far.write_all(b"23"));
        assert!(come.is_ok() && sent.is_ok() && !is_watched(&end));
        assert_eq!([byte(&end), byte(&end), byte(&end)], [Some(b'2'), Some(b'3'), None]);
        let wait = async { timeout(LONG, end.readable()).await.expect("it is woken") };
        let send = async {
            tokio::task::yield_now().await;
            far.write_all(b"4").await
        };
        let (came, sent) = tokio::join!(wait, send);
        assert!(came.is_ok() && sent.is_ok() && is_watched(&end));
        assert_eq!(byte(&end), Some(b'4'));
    }

    #[tokio::test]
    async fn who_waits_for_room_goes_on_though_the_other_direction_gathers() {
        let (end, mut far) = connection().await;
        let piece = [0; 1 << 16];
        let write = async {
            let mut written = 0;
            while written < BYTES {
                written += end.write(|to| SockRef::from(&to).send(&piece)).await.unwrap();
            }
            end.shut().unwrap();
        };
        let drain = async {
            for _ in 0..5 {
                end.gather(Duration::from_millis(1)).await.unwrap();
            }
            let (mut room, mut read) = (vec![0; 1 << 16], 0);
            while let Ok(count @ 1..) = far.read(&mut room).await {
                read += count;
            }
            read
        };
        let all = timeout(LONG, async { tokio::join!(write, drain).1 }).await;
        assert!(all.is_ok_and(|read| read >= BYTES));
    }
}
