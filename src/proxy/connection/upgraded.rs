//! A connection that has left HTTP/1, or SOCKS, as its plain socket.

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::client_io::ClientIo;

/// The socket of a client that has asked for a CONNECT: it is there once the client has the
/// response.
#[derive(Debug)]
pub enum PendingSocket {
    /// From the HTTP engine.
    Upgrade(OnUpgrade),
    /// From the code that has written the reply.
    Handed(oneshot::Receiver<TcpStream>),
}

impl PendingSocket {
    /// The bytes that the client sent right after its CONNECT, and its socket. `None`: the
    /// connection has ended.
    pub async fn socket(self) -> Option<(Vec<u8>, TcpStream)> {
        match self {
            Self::Upgrade(upgrade) => into_socket(upgrade.await.ok()?),
            Self::Handed(socket) => Some((Vec::new(), socket.await.ok()?)),
        }
    }
}

fn into_socket(upgraded: Upgraded) -> Option<(Vec<u8>, TcpStream)> {
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<TcpStream>>>>().ok()?;
    let (stream, held) = parts.io.into_inner().into_parts();
    Some(([&parts.read_buf[..], &held[..]].concat(), stream))
}
