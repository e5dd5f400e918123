//! A connection that has left HTTP/1, as its plain socket.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::client_io::ClientIo;

/// The bytes that the client sent right after its CONNECT, and its socket.
///
/// # Errors
///
/// `upgraded`, if it is no plain connection of a client.
pub fn into_socket(upgraded: Upgraded) -> Result<(Vec<u8>, TcpStream), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<TcpStream>>>>()?;
    let (stream, held) = parts.io.into_inner().into_parts();
    Ok(([&parts.read_buf[..], &held[..]].concat(), stream))
}
