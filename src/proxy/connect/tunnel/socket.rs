//! Reads and writes a socket by system calls of the caller's choice.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::idle::IdleTimer;

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
