//! A connection that switches to another protocol after a permitted request (RFC 9110 §7.8), as to
//! WebSocket.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Response, Version, request};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tracing::debug;

use super::permission::breach;
use crate::clients::MemoryPermit;
use crate::egress::{self, ResponseBody};
use crate::proxy::connect::tunnel::{self, IdleTimer};
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::request::header_set::HeaderSet;
use crate::proxy::request::hop_by_hop;
use crate::proxy::request::upgrade_protocol::{self, Protocol};
use crate::proxy::request::via::Via;
use tokio_util::sync::CancellationToken;

/// The upgrade that a request asks for, if it asks for one that is permitted.
pub struct RequestedUpgrade {
    /// The protocols, as the value of `Upgrade`.
    pub protocol: Option<HeaderValue>,
    /// The client's connection, once it has been sent the 101.
    on_upgrade: Option<OnUpgrade>,
}

impl RequestedUpgrade {
    /// Takes the upgrade to one of the `permitted` protocols out of `head`.
    pub fn take(head: &mut request::Parts, header_set: HeaderSet, permitted: &[Protocol]) -> Self {
        let asks = header_set.has(HeaderSet::UPGRADE) && head.version == Version::HTTP_11;
        let wanted = || upgrade_protocol::wanted(&head.headers, permitted);
        let protocol = if asks { wanted() } else { None };
        let on_upgrade = protocol.as_ref().and_then(|_| head.extensions.remove::<OnUpgrade>());
        Self { protocol, on_upgrade }
    }

    /// The client's connection, for the protocol that the origin switches to. A 101 switches only
    /// to what was requested (RFC 9110 §7.8). `is_complete`: the origin has the whole request.
    pub fn accept<B>(
        self,
        response: &Response<B>,
        is_complete: bool,
    ) -> Result<OnUpgrade, egress::Error> {
        let Self { protocol, on_upgrade } = self;
        let is_requested = protocol.is_some_and(|requested| {
            upgrade_protocol::switches_to_one_of(&requested, response.headers())
        });
        let Some(on_upgrade) = on_upgrade.filter(|_| is_requested) else {
            return Err(breach("the origin switched to a protocol that was not requested"));
        };
        if !is_complete {
            // The rest of the content would be taken for the new protocol.
            return Err(breach(
                "the origin switched to another protocol before it had the whole request",
            ));
        }
        Ok(on_upgrade)
    }
}

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
