//! A connection that has left HTTP after a permitted request: to another protocol (WebSocket and
//! others), or for a tunnel.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use crate::audit::Reason;
use crate::clients::Held;
use crate::egress::ResponseBody;
use crate::proxy::connect::preread::{Preread, mismatch};
use crate::proxy::connect::sni::UNRECOGNIZED_NAME;
use crate::proxy::connect::tunnel::{self, IdleTimer, Pipes, write_all};
use crate::proxy::connection::client_io::ClientIo;
use crate::proxy::decision::gate::HostPermit;
use crate::proxy::decision::recheck::Recheck;
use crate::proxy::exchange::body::Body;
use crate::proxy::exchange::connection_state::ConnectionState;
use crate::proxy::limits::LINGER;
use crate::proxy::request::hop_by_hop;
use crate::proxy::request::via::Via;
use crate::runtime::box_future::box_future;
use crate::runtime::shutdown::Shutdown;

/// Passes the 101 on, and then the bytes.
pub fn switch(
    mut response: Response<Box<ResponseBody>>,
    client_side: OnUpgrade,
    idle_timeout: Duration,
    via: &Via,
    (state, stop): (&Arc<ConnectionState>, &Shutdown),
    (recheck, held): (Recheck, Held),
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
    let stop = stop.clone();
    state.upgrade(async move {
        let _held = held;
        if let (Ok(client), Ok(origin)) = tokio::join!(client_side, origin_side) {
            let idle = IdleTimer::new(idle_timeout, stop);
            let copying = tunnel::copy(TokioIo::new(client), TokioIo::new(origin), &idle);
            if let Some(Err(error)) = recheck.while_permitted(copying).await {
                debug!("an upgraded connection ended: {error}");
            }
        }
    });
    Response::from_parts(parts, Body::empty())
}

/// A tunnel that a CONNECT has been granted.
#[derive(Debug)]
pub struct Tunnel {
    pub permit: HostPermit,
    pub recheck: Recheck,
    pub idle: IdleTimer,
    pub pipes: Arc<Pipes>,
    pub handshake_timeout: Duration,
}

impl Tunnel {
    /// Carries bytes between a client that has its 200 and `origin`, which is connected already.
    pub async fn run(self, client: OnUpgrade, origin: TcpStream) {
        let Ok(client) = client.await else { return };
        let Ok((first, client)) = own_stream(client) else { return };
        let server = origin;
        let origin = self.permit.origin();
        let preread = Preread { host: origin.host(), handshake_timeout: self.handshake_timeout };
        let first = box_future(|| preread.read(&client, first));
        let relaying = tunnel::relay(&client, first, &server, &self.idle, &self.pipes);
        let Some(ended) = self.recheck.while_permitted(relaying).await else { return };
        match ended.map_err(mismatch) {
            Ok(()) => {}
            Err(Ok(mismatch)) => {
                drop(server);
                let (gate, info) = (self.recheck.gate(), self.recheck.info());
                gate.record_inside(origin, info, Reason::SniMismatch, mismatch.name()).await;
                let alert = write_all(&client, &UNRECOGNIZED_NAME, &self.idle);
                let _ = timeout(LINGER, alert).await;
            }
            Err(Err(error)) => debug!(%origin, "a tunnel ended: {error}"),
        }
    }
}

/// What the client sent right behind its CONNECT, and its own stream, if that is what was there before.
pub fn own_stream(left: Upgraded) -> Result<(Vec<u8>, TcpStream), Upgraded> {
    let parts = left.downcast::<TokioIo<Box<ClientIo<TcpStream>>>>()?;
    let (stream, held) = parts.io.into_inner().into_parts();
    Ok(([&parts.read_buf[..], &held[..]].concat(), stream))
}
