//! SOCKS5 on the proxy's port (RFC 1928, RFC 1929): its CONNECT is handled as the CONNECT of HTTP,
//! and the stream after the reply as what is inside one. BIND and UDP ASSOCIATE are refused.

mod message;
mod reply;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{HeaderValue, PROXY_AUTHORIZATION};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use crate::clients::RejectReason;
use crate::proxy::connection::close_in_stages;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::connection::upgraded::FirstBytes;
use crate::proxy::instance::{CurrentProxy, Proxy};
use crate::runtime::box_future;
/// The first byte of a SOCKS5 connection.
pub use message::VERSION;
use message::{Command, Credentials, Method};
use reply::Reply;

/// Serves SOCKS5 on `stream`, of which nothing has been read. With `is_rejected`, no method of
/// authentication is accepted.
pub async fn serve(
    mut stream: TcpStream,
    context: Arc<ConnectionContext>,
    current: CurrentProxy,
    is_rejected: bool,
) {
    let opened = box_future(|| open(&mut stream, &context, &current, is_rejected)).await;
    match opened {
        Ok(Some(socket)) => {
            let after = context.state.take_after_upgrade();
            drop((context, current));
            if let Some(after) = after
                && socket.send((Vec::new(), stream)).is_ok()
            {
                after.await;
            }
        }
        // The last reply arrives before the end.
        Ok(None) => close_in_stages(stream).await,
        Err(error) => {
            debug!(client = %context.client.address, "a SOCKS connection ended: {error}");
        }
    }
}

/// Negotiates, and handles the request. `Some`: the client has its reply, and what follows runs
/// once it is sent the stream.
async fn open(
    stream: &mut TcpStream,
    context: &ConnectionContext,
    current: &CurrentProxy,
    is_rejected: bool,
) -> io::Result<Option<oneshot::Sender<FirstBytes>>> {
    let proxy = current.load_full();
    let limit = proxy.handshake_timeout;
    let offered = within(limit, message::read_methods(stream)).await?;
    let chosen = Method::choose(&offered, proxy.admission.has_users());
    let chosen = chosen.filter(|_| !is_rejected);
    stream.write_all(&message::chosen_method(chosen)).await?;
    let mut headers = HeaderMap::new();
    match chosen {
        None => return Ok(None),
        Some(Method::None) => {}
        Some(Method::Password) => {
            let credentials = within(limit, message::read_credentials(stream)).await?;
            let verified = verify(&proxy, context, &credentials, &mut headers).await;
            stream.write_all(&message::auth_status(verified.is_ok())).await?;
            if let Err(reason) = verified {
                debug!(client = %context.client.address, "{reason}");
                return Ok(None);
            }
        }
    }
    let (reply, socket) = match within(limit, message::read_request(stream)).await? {
        Command::Connect(authority) => {
            let (sender, receiver) = oneshot::channel();
            match proxy.connect_synthetic(&authority, headers, receiver, context, current).await {
                Ok(()) => (Reply::Succeeded, Some(sender)),
                Err(refusal) => (Reply::to(&refusal), None),
            }
        }
        Command::Other => (Reply::CommandNotSupported, None),
        Command::OtherAddress => (Reply::AddressNotSupported, None),
    };
    stream.write_all(&reply.bytes()).await?;
    Ok(socket)
}

/// Verifies a name and a password as those of `Proxy-Authorization`, and writes that header.
async fn verify(
    proxy: &Proxy,
    context: &ConnectionContext,
    Credentials { name, password }: &Credentials,
    headers: &mut HeaderMap,
) -> Result<(), RejectReason> {
    // In Basic the name would end at the colon (RFC 7617 §2): another one.
    if name.contains(&b':') {
        return Err(RejectReason::WrongCredentials);
    }
    let encoded = STANDARD.encode([&name[..], b":", password].concat());
    let mut value = HeaderValue::try_from(format!("Basic {encoded}"))
        .map_err(|_| RejectReason::WrongCredentials)?;
    value.set_sensitive(true);
    headers.insert(PROXY_AUTHORIZATION, value);
    proxy.admission.authenticate(context.client.address, headers).await.map(drop)
}

/// A message of the client, which has `limit` for it (`limits.handshake_timeout`).
async fn within<T>(limit: Duration, message: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(ErrorKind::TimedOut, "the SOCKS message is incomplete");
    timeout(limit, message).await.map_err(|_| late())?
}
