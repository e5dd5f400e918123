//! A connection that has left HTTP after a permitted request (WebSocket and others): octets both
//! ways, until both sides have ended or neither says anything for too long: for much less long, once
//! the proxy stops.

use std::io;
use std::time::Duration;

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::body::Body;
use super::fields::{self, Via};
use super::forward::Client;
use crate::egress::Arriving;
use crate::limits::{TUNNEL_BUFFER_OCTETS, TUNNEL_DRAIN_SILENCE};

/// Passes the 101 on, and then the octets.
pub fn switch(
    mut response: Response<Arriving>,
    client_side: OnUpgrade,
    idle_timeout: Duration,
    via: &Via,
    client: Client<'_>,
) -> Response<Body> {
    let origin_side = hyper::upgrade::on(&mut response);
    let (mut parts, _) = response.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    fields::remove_hop_by_hop(&mut parts.headers);
    fields::remove_forgeries(&mut parts.headers);
    via.append(&mut parts.headers, parts.version);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    let stop = client.stop.clone();
    client.control.follow_with(async move {
        if let (Ok(client), Ok(origin)) = tokio::join!(client_side, origin_side) {
            tunnel(TokioIo::new(client), TokioIo::new(origin), idle_timeout, stop).await;
        }
    });
    Response::from_parts(parts, Body::empty())
}

/// A tunnel to an origin that is connected already, once the client has its 200.
pub async fn blind(client: OnUpgrade, origin: TcpStream, idle_timeout: Duration, stop: CancellationToken) {
    if let Ok(client) = client.await {
        tunnel(TokioIo::new(client), origin, idle_timeout, stop).await;
    }
}

/// Octets both ways, until both sides have ended or neither has said anything for `idle_timeout`.
async fn tunnel<C, O>(client: C, origin: O, idle_timeout: Duration, stop: CancellationToken)
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_origin, to_origin) = tokio::io::split(origin);
    // Traffic in one direction keeps the other open: both sides tell when they last moved.
    let (moved, _) = watch::channel(());
    let out = pump(from_client, to_origin, &moved, idle_timeout);
    let back = pump(from_origin, to_client, &moved, idle_timeout);
    let both = async { tokio::try_join!(out, back) };
    tokio::select! {
        ended = both => if let Err(error) = ended {
            debug!("a tunnel ended: {error}");
        },
        () = unused(&stop, &moved) => debug!("a tunnel that nobody used is closed: the proxy stops"),
    }
}

/// Returns when the proxy stops and neither side says anything any more: a tunnel may be kept open for
/// hours without a word, and would hold the drain for all of its time.
async fn unused(stop: &CancellationToken, moved: &watch::Sender<()>) {
    stop.cancelled().await;
    let mut moved = moved.subscribe();
    while let Ok(Ok(())) = timeout(TUNNEL_DRAIN_SILENCE, moved.changed()).await {}
}

/// Copies until the end of `from`, then ends `to`.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &watch::Sender<()>,
    idle_timeout: Duration,
) -> io::Result<()> {
    let mut other = moved.subscribe();
    let mut buffer = vec![0; TUNNEL_BUFFER_OCTETS];
    loop {
        let count = read(&mut from, &mut buffer, &mut other, idle_timeout).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        let deadline = deadline(idle_timeout);
        timeout_at(deadline, to.write_all(&buffer[..count])).await.map_err(|_| io::ErrorKind::TimedOut)??;
        moved.send_replace(());
    }
}

/// Reads with a deadline that starts anew whenever the connection moves in either direction.
async fn read(
    from: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    moved: &mut watch::Receiver<()>,
    idle_timeout: Duration,
) -> io::Result<usize> {
    loop {
        let deadline = deadline(idle_timeout);
        tokio::select! {
            count = from.read(buffer) => return count,
            Ok(()) = moved.changed() => {}
            () = tokio::time::sleep_until(deadline) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn deadline(idle_timeout: Duration) -> Instant {
    Instant::from_std(crate::clock::monotonic() + idle_timeout)
}
