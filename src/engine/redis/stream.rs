//! The bytes to and from a server: TCP, TLS over it, or a Unix socket; what comes are replies, each
//! of a bounded length.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::reply_meter::ReplyMeter;
use super::settings::{Address, RedisConfig};
use crate::engine::error::{Error, ErrorKind};

/// Bytes in both directions.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why a stream gave no more bytes, where it was not the network.
pub(super) type StreamFault = Arc<OnceLock<Error>>;

/// Connects. A reply of more than `reply_max` bytes, and what is no reply, ends the stream; the
/// fault says why.
pub(super) async fn connect(
    address: &Address,
    config: &RedisConfig,
    reply_max: usize,
) -> Result<(Replies, StreamFault), Error> {
    let failed = |error: io::Error| ErrorKind::Connection.with(format!("{address}: {error}"));
    let stream: Box<dyn Stream> = match address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(failed)?),
        Address::Tcp { host, port, is_tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            if *is_tls { secure(stream, address, host, config).await? } else { Box::new(stream) }
        }
    };
    let fault = StreamFault::default();
    let (meter, address) = (ReplyMeter::new(reply_max), address.clone());
    Ok((Replies { stream, meter, address, fault: Arc::clone(&fault) }, fault))
}

async fn secure(
    stream: TcpStream,
    address: &Address,
    host: &str,
    config: &RedisConfig,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |reason: String| ErrorKind::Tls.with(format!("{host}: {reason}"));
    let tls = config.tls.as_ref().ok_or_else(|| failed("TLS is not set up".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
    // Part of the time to connect: a server without TLS may wait for the end of a line.
    let limit = config.connect_timeout.mul_f64(0.75);
    let handshake = TlsConnector::from(Arc::clone(&tls.client)).connect(name, stream);
    match timeout(limit, handshake).await {
        Ok(Ok(secured)) => Ok(Box::new(secured)),
        Ok(Err(error)) if is_other_protocol(&error) => Err(no_tls(address, None)),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(no_tls(address, Some(limit))),
    }
}

/// Whether what came was no TLS at all.
fn is_other_protocol(error: &io::Error) -> bool {
    let source = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
    matches!(source, Some(rustls::Error::InvalidMessage(_)))
}

fn no_tls(address: &Address, waited: Option<Duration>) -> Error {
    let said = waited.map_or_else(
        || "does not speak TLS".to_owned(),
        |waited| format!("has not answered the TLS handshake within {waited:?}"),
    );
    ErrorKind::Settings.with(format!(
        "{address} {said}: write redis:// in engine.url, or the port on which the server speaks TLS"
    ))
}

/// The stream of one connection.
pub(super) struct Replies {
    stream: Box<dyn Stream>,
    meter: ReplyMeter,
    address: Address,
    fault: StreamFault,
}

impl AsyncRead for Replies {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        match self.meter.read(&buf.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(fault) => {
                let error = fault.of_server(&self.address);
                let text = error.to_string();
                // The first one is the cause.
                let _ = self.fault.set(error);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
            }
        }
    }
}

impl AsyncWrite for Replies {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
