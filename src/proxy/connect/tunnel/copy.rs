//! A tunnel between two streams of any kind, through this process.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::idle::IdleTimer;
use crate::proxy::limits::TUNNEL_BUFFER_BYTES;

/// Copies both ways until both streams end, one fails, or `idle` expires.
///
/// # Errors
///
/// The first error of either stream.
pub async fn copy<C, O>(client: C, origin: O, idle: &IdleTimer) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_origin, to_origin) = tokio::io::split(origin);
    let to_origin = copy_one_way(from_client, to_origin, idle);
    idle.run(to_origin, copy_one_way(from_origin, to_client, idle)).await
}

/// Copies until the end of `from`, then ends `to`.
///
/// # Errors
///
/// The first error of either.
pub async fn copy_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    idle: &IdleTimer,
) -> io::Result<()> {
    let mut buffer = vec![0; TUNNEL_BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        idle.note_activity();
        to.write_all(&buffer[..count]).await?;
        // TLS may hold a part of it back.
        to.flush().await?;
        idle.note_activity();
    }
}
