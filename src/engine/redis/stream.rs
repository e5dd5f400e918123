//! A byte stream to a server: TCP, TLS over it, or a Unix socket.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::settings::Address;
use crate::engine::error::{Error, ErrorKind};

/// Bytes in both directions.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Connects.
pub(super) async fn connect(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |error: std::io::Error| ErrorKind::Connection.with(format!("{address}: {error}"));
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
        Address::Tcp { host, port, is_tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            if *is_tls { secure(stream, host, tls).await } else { Ok(Box::new(stream)) }
        }
    }
}

async fn secure(
    stream: TcpStream,
    host: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |reason: String| ErrorKind::Tls.with(format!("{host}: {reason}"));
    let tls = tls.ok_or_else(|| failed("TLS is not set up".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
    let secured = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
    Ok(Box::new(secured.map_err(|error| failed(error.to_string()))?))
}
