//! A connection that switches to another protocol after a permitted request (RFC 9110 §7.8), as to
//! WebSocket.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tracing::debug;

use crate::clients::MemoryPermit;
use crate::egress::ResponseBody;
use crate::proxy::connect::tunnel::{self, IdleTimer};
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::request::hop_by_hop;
use crate::proxy::request::via::Via;
use tokio_util::sync::CancellationToken;

/// Forwards the 101, and then bytes both ways.
pub fn switch(
    mut response: Response<Box<ResponseBody>>,
    client_side: OnUpgrade,
    idle_timeout: Duration,
    via: &Via,
    (state, shutdown): (&Arc<ConnectionState>, &CancellationToken),
    (revocation, permit): (Revocation, MemoryPermit),
) -> Response<Body> {
    let origin_side = hyper::upgrade::on(&mut response);
    let (mut parts, _) = response.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    hop_by_hop::clean_response(&mut parts.headers);
    via.append(&mut parts.headers, parts.version);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    let shutdown = shutdown.clone();
    state.upgrade(async move {
        let _permit = permit;
        if let (Ok(client), Ok(origin)) = tokio::join!(client_side, origin_side) {
            let idle = IdleTimer::new(idle_timeout, shutdown);
            let copying = tunnel::copy(TokioIo::new(client), TokioIo::new(origin), &idle);
            if let Some(Err(error)) = revocation.while_permitted(copying).await {
                debug!("an upgraded connection ended: {error}");
            }
        }
    });
    Response::from_parts(parts, Body::empty())
}
