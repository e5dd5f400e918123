//! A tunnel that a CONNECT has been granted.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::preread::{Preread, mismatch};
use super::sni::UNRECOGNIZED_NAME;
use super::tunnel::{self, IdleTimer, Pipes, write_all};
use crate::audit::Reason;
use crate::proxy::connection::upgraded::PendingSocket;
use crate::proxy::decision::gate::HostPermit;
use crate::proxy::decision::recheck::Recheck;
use crate::proxy::limits::LINGER;
use crate::runtime::box_future::box_future;

/// A tunnel that a CONNECT has been granted.
#[derive(Debug)]
pub struct Tunnel {
    pub permit: HostPermit,
    pub recheck: Recheck,
    pub idle: IdleTimer,
    pub pipes: Arc<Pipes>,
    /// For the first bytes inside the tunnel.
    pub handshake_timeout: Duration,
}

impl Tunnel {
    /// Moves bytes between a client that has received its 200 and `origin`, which is connected.
    pub async fn run(self, client: PendingSocket, origin: TcpStream) {
        let Some((first, client)) = client.socket().await else { return };
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
