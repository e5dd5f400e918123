//! The first bytes of a client, by which its protocol is recognized.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::proxy::limits::FIRST_REQUEST_GRACE;

/// Bytes that are read before the protocol is decided. The first alone would do, but the HTTP
/// hyper, once it has part of a head, waits for the empty line, which other protocols never send.
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
    let mut first = vec![0; FIRST_BYTES_MAX];
    let read = tokio::select! {
        read = timeout(handshake_timeout, stream.read(&mut first)) => read,
        // No request is under way, but one may be about to come.
        () = async { shutdown.cancelled().await; sleep(FIRST_REQUEST_GRACE).await } => {
            return Err(NoBytes::Ended);
        }
    };
    let Ok(count @ 1..) = read.map_err(|_| NoBytes::TimedOut)? else { return Err(NoBytes::Ended) };
    first.truncate(count);
    Ok(first)
}
