//! The first bytes of a client, by which its protocol is recognised.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::proxy::limits::FIRST_REQUEST_GRACE;

/// Bytes that are read before the protocol is decided. The first alone would do, but hyper, once it
/// has part of a head, waits for the empty line, which other protocols never send.
const FIRST_BYTES_MAX: usize = 4096;

/// Why there are no first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBytes {
    /// The client has sent none in time.
    TimedOut,
    /// The client has left, or the proxy shuts down.
    Ended,
}

/// The first bytes that a client sends.
///
/// # Errors
///
/// Why there are none.
pub async fn first_bytes<S: AsyncRead + Unpin>(
    stream: &mut S,
    handshake_timeout: Duration,
    shutdown: &CancellationToken,
) -> Result<Vec<u8>, NoBytes> {
    let read = tokio::select! {
        read = timeout(handshake_timeout, poll_fn(|cx| poll_first(stream, cx))) => read,
        // No request is under way, but one may be about to come.
        () = async { shutdown.cancelled().await; sleep(FIRST_REQUEST_GRACE).await } => {
            return Err(NoBytes::Ended);
        }
    };
    match read.map_err(|_| NoBytes::TimedOut)? {
        Ok(first) if !first.is_empty() => Ok(first),
        _ => Err(NoBytes::Ended),
    }
}

/// Reads once. While the client sends nothing, no buffer is held: many clients may be silent.
fn poll_first(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
) -> Poll<io::Result<Vec<u8>>> {
    let mut buffer = [0; FIRST_BYTES_MAX];
    let mut first = ReadBuf::new(&mut buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut first))?;
    Poll::Ready(Ok(first.filled().to_vec()))
}
