//! The first bytes of a client, by which its protocol is recognized.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::proxy::limits::FIRST_REQUEST_GRACE;

/// Bytes that are read before the protocol is decided. The first alone would do, but the HTTP
/// hyper, once it has part of a head, waits for the empty line, which other protocols never send.
const FIRST_BYTES_MAX: usize = 4096;

/// The first bytes that a client sends; `None`: it sends none in time, or the proxy shuts down.
pub async fn first_bytes<S: AsyncRead + Unpin>(
    stream: &mut S,
    handshake_timeout: Duration,
    shutdown: &CancellationToken,
) -> Option<Vec<u8>> {
    let mut first = vec![0; FIRST_BYTES_MAX];
    let read = tokio::select! {
        read = timeout(handshake_timeout, stream.read(&mut first)) => read,
        // No request is under way, but one may be about to come.
        () = async { shutdown.cancelled().await; sleep(FIRST_REQUEST_GRACE).await } => return None,
    };
    let Ok(Ok(count @ 1..)) = read else { return None };
    first.truncate(count);
    Some(first)
}
