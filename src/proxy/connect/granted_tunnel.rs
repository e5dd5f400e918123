//! A tunnel that a CONNECT has been granted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::preread::{Preread, mismatch};
use super::sni::{Mismatch, UNRECOGNIZED_NAME};
use super::tunnel::{self, IdleTimer, Pipes, copy_one_way, write_all};
use crate::audit::Reason;
use crate::egress::OriginSocket;
use crate::proxy::connection::client_socket::ClientSocket;
use crate::proxy::connection::upgraded::PendingSocket;
use crate::proxy::decision::gate::HostPermit;
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::limits::LINGER;
use crate::runtime::box_future;

/// A tunnel that a CONNECT has been granted.
#[derive(Debug)]
pub struct Tunnel {
    pub permit: HostPermit,
    pub revocation: Revocation,
    pub idle: IdleTimer,
    pub pipes: Arc<Pipes>,
    /// For the first bytes inside the tunnel.
    pub handshake_timeout: Duration,
}

impl Tunnel {
    /// Moves bytes between a client that has received its 200 and `origin`, which is connected.
    pub async fn run(self, client: PendingSocket, origin: OriginSocket) {
        let Some((first, client)) = client.socket().await else { return };
        match (client, origin) {
            (ClientSocket::Tcp(client), OriginSocket::Tcp(origin)) => {
                self.relay(first, client, origin).await;
            }
            (client, origin) => self.copy(first, client, origin).await,
        }
    }

    /// Between two sockets.
    async fn relay(self, first: Vec<u8>, client: TcpStream, origin: TcpStream) {
        let preread = self.preread();
        let first = box_future(|| preread.read(&client, first));
        let relaying = tunnel::relay(&client, first, &origin, &self.idle, &self.pipes);
        let Some(ended) = self.revocation.while_permitted(relaying).await else { return };
        if let Some(mismatch) = self.mismatch(ended) {
            drop(origin);
            self.record(&mismatch).await;
            let alert = write_all(&client, &UNRECOGNIZED_NAME, &self.idle);
            let _ = timeout(LINGER, alert).await;
        }
    }

    /// Between two streams of which one is no socket.
    async fn copy(self, first: Vec<u8>, client: ClientSocket, origin: OriginSocket) {
        let (mut from_client, mut to_client) = split(client);
        let ended = {
            let (from_origin, mut to_origin) = split(origin);
            let to_origin = async {
                let first = self.preread().read(&mut from_client, first).await?;
                to_origin.write_all(&first).await?;
                to_origin.flush().await?;
                drop(first);
                copy_one_way(&mut from_client, to_origin, &self.idle).await
            };
            let to_client = copy_one_way(from_origin, &mut to_client, &self.idle);
            let copying = self.idle.run(to_origin, to_client);
            let Some(ended) = self.revocation.while_permitted(copying).await else { return };
            ended
        };
        if let Some(mismatch) = self.mismatch(ended) {
            self.record(&mismatch).await;
            let _ = timeout(LINGER, to_client.write_all(&UNRECOGNIZED_NAME)).await;
            let _ = timeout(LINGER, to_client.shutdown()).await;
        }
    }

    fn preread(&self) -> Preread<'_> {
        let host = self.permit.origin().host();
        Preread { host, handshake_timeout: self.handshake_timeout }
    }

    /// The mismatch by which the tunnel has ended, if it was one.
    fn mismatch(&self, ended: io::Result<()>) -> Option<Mismatch> {
        match mismatch(ended.err()?) {
            Ok(mismatch) => Some(mismatch),
            Err(error) => {
                debug!(origin = %self.permit.origin(), "a tunnel ended: {error}");
                None
            }
        }
    }

    async fn record(&self, mismatch: &Mismatch) {
        let (gate, info) = (self.revocation.gate(), self.revocation.info());
        let origin = self.permit.origin();
        gate.record_inside(origin, info, Reason::SniMismatch, mismatch.name()).await;
    }
}
