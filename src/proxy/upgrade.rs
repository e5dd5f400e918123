//! A connection that has left HTTP after a permitted request: to another protocol (WebSocket and
//! others), or for a tunnel.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::body::Body;
use super::fields;
use super::forward::Client;
use super::pipes::Pipes;
use super::tunnel::{self, Silence};
use super::via::Via;
use super::wire::Wire;
use crate::egress::Arriving;

/// Passes the 101 on, and then the octets.
pub fn switch(
    mut response: Response<Box<Arriving>>,
    client_side: OnUpgrade,
    idle_timeout: Duration,
    via: &Via,
    client: Client<'_>,
) -> Response<Body> {
    let origin_side = hyper::upgrade::on(&mut response);
    let (mut parts, _) = response.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    fields::pass_back(&mut parts.headers);
    via.append(&mut parts.headers, parts.version);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    let stop = client.stop.clone();
    client.control.follow_with(async move {
        if let (Ok(client), Ok(origin)) = tokio::join!(client_side, origin_side) {
            let silence = Silence::new(idle_timeout, stop);
            tunnel::copy(TokioIo::new(client), TokioIo::new(origin), &silence).await;
        }
    });
    Response::from_parts(parts, Body::empty())
}

/// A tunnel to an origin that is connected already, once the client has its 200.
pub async fn blind(client: OnUpgrade, origin: TcpStream, silence: Silence, pipes: Arc<Pipes>) {
    let Ok(client) = client.await else { return };
    match own_stream(client) {
        Ok((early, client)) => tunnel::splice(client, &early, origin, &silence, &pipes).await,
        Err(client) => tunnel::copy(TokioIo::new(client), origin, &silence).await,
    }
}

/// What the client sent right behind its CONNECT, and its own stream, if that is what was there before.
pub fn own_stream(left: Upgraded) -> Result<(Vec<u8>, TcpStream), Upgraded> {
    let parts = left.downcast::<TokioIo<Box<Wire<TcpStream>>>>()?;
    let (stream, held) = parts.io.into_inner().into_parts();
    Ok(([&parts.read_buf[..], &held[..]].concat(), stream))
}
