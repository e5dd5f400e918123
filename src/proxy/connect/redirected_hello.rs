//! Reads the ClientHello of a redirected connection: the name in it is that of the origin.

use std::io::{self, ErrorKind};

use tokio::net::TcpStream;
use tracing::{debug, info};

use super::preread::Append as _;
use super::sni::{ClientHello, Named};
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::instance::CurrentProxy;

/// The name in the ClientHello that begins with `first`; `first` gets all that was read.
pub async fn read_hello(mut stream: &TcpStream, first: &mut Vec<u8>) -> io::Result<Named> {
    let mut hello = ClientHello::new();
    loop {
        if let Some(named) = hello.read(first).map_err(io::Error::other)? {
            return Ok(named);
        }
        if stream.append(first).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Counts a handshake of which there is no ClientHello, as inside a CONNECT; without `read`, it was
/// not whole in time.
pub fn note_no_hello(
    read: Option<io::Result<Named>>,
    authority: &str,
    context: &ConnectionContext,
    current: &CurrentProxy,
) {
    let error = read.and_then(Result::err);
    current.load().metrics.tls.count_failure(error.as_ref());
    let client = context.client.address;
    match error {
        Some(error) => info!(%client, "no TLS handshake with {authority}: {error}"),
        None => debug!(%client, "no whole ClientHello for {authority} in time"),
    }
}
