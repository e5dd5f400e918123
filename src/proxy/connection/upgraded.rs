//! A connection, or a stream of one, that has left HTTP or SOCKS.

use http::Version;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::client_io::ClientIo;
use super::client_socket::{ClientSocket, SecuredClient};
use super::client_stream::ClientStream;

/// The bytes that a client has sent already, and its socket.
pub type FirstBytes = (Vec<u8>, TcpStream);

/// The socket of a client that has asked for a CONNECT: it is there once the client has the
/// response.
#[derive(Debug)]
pub enum PendingSocket {
    /// A connection of HTTP/1, from hyper.
    Upgrade(OnUpgrade),
    /// A stream of HTTP/2, from hyper.
    Stream(OnUpgrade),
    /// Sent by the code that serves SOCKS or a transparent listener, after its reply.
    Channel(oneshot::Receiver<FirstBytes>),
}

impl PendingSocket {
    /// For a CONNECT of this version.
    pub fn of(version: Version, upgrade: OnUpgrade) -> Self {
        if version == Version::HTTP_2 { Self::Stream(upgrade) } else { Self::Upgrade(upgrade) }
    }

    /// Whether it is a stream of a connection that goes on.
    pub const fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// The bytes that the client sent right after its CONNECT, and its socket. `None`: the
    /// connection has ended.
    pub async fn socket(self) -> Option<(Vec<u8>, ClientSocket)> {
        match self {
            Self::Upgrade(upgrade) => into_socket(upgrade.await.ok()?),
            Self::Stream(upgrade) => {
                let stream = TokioIo::new(upgrade.await.ok()?);
                Some((Vec::new(), ClientSocket::Http2(stream)))
            }
            Self::Channel(socket) => {
                let (first, stream) = socket.await.ok()?;
                Some((first, ClientSocket::Tcp(stream)))
            }
        }
    }
}

fn into_socket(upgraded: Upgraded) -> Option<(Vec<u8>, ClientSocket)> {
    let upgraded = match take::<TcpStream>(upgraded) {
        Ok((first, stream)) => return Some((first, ClientSocket::Tcp(stream))),
        Err(upgraded) => upgraded,
    };
    let (first, stream) = take::<SecuredClient>(upgraded).ok()?;
    Some((first, ClientSocket::Tls(stream)))
}

/// The stream of hyper that has served an `S`, behind the bytes that were read of it.
fn take<S: ClientStream + Send + 'static>(upgraded: Upgraded) -> Result<(Vec<u8>, S), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<S>>>>()?;
    let (stream, buffer) = parts.io.into_inner().into_parts();
    Ok(([&parts.read_buf[..], &buffer[..]].concat(), stream))
}
