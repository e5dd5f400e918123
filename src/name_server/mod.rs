//! The name server of `courtesy run --sealed`, whose network has no other. It gives each name that
//! exists a virtual address (tor's VirtualAddrNetwork): a connection to that address is then known
//! to be for the name. Whether a name exists is asked of the proxy's own resolver (`egress/dns`);
//! the addresses of origins never get into the sealed network.

mod response;
mod virtual_addresses;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::egress::{EgressState, Failure};
use crate::types::ClientKey;
use response::{Existence, respond};
pub use virtual_addresses::VirtualAddresses;
use virtual_addresses::{QUERIES_MAX, TCP_IDLE_TIMEOUT, UDP_BYTES_MAX};

/// A name server over one UDP socket and one listener.
#[derive(Clone, Debug)]
pub struct NameServer {
    virtual_addresses: Arc<VirtualAddresses>,
    egress: Arc<EgressState>,
    permits: Arc<Semaphore>,
}

impl NameServer {
    /// A name server that gives the names which the resolver of `egress` finds an address of
    /// `virtual_addresses`.
    pub fn new(virtual_addresses: Arc<VirtualAddresses>, egress: Arc<EgressState>) -> Self {
        Self { virtual_addresses, egress, permits: Arc::new(Semaphore::new(QUERIES_MAX)) }
    }

    /// Serves queries in tasks of the current runtime, until that ends.
    ///
    /// # Errors
    ///
    /// Of the system, when a socket cannot be registered.
    pub fn start(&self, udp: std::net::UdpSocket, tcp: std::net::TcpListener) -> io::Result<()> {
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        let (udp, tcp) = (Arc::new(UdpSocket::from_std(udp)?), TcpListener::from_std(tcp)?);
        tokio::spawn(self.clone().serve_udp(udp));
        tokio::spawn(self.clone().serve_tcp(tcp));
        Ok(())
    }

    async fn serve_udp(self, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; UDP_BYTES_MAX];
        loop {
            // An error is that of an earlier response, whose client has gone.
            let Ok((count, client)) = socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { continue };
            let (server, query) = (self.clone(), buffer[..count].to_vec());
            let socket = Arc::clone(&socket);
            tokio::spawn(async move {
                server.answer_udp(&socket, &query, client).await;
                drop(permit);
            });
        }
    }

    async fn answer_udp(&self, socket: &UdpSocket, query: &[u8], client: SocketAddr) {
        if let Some(response) = self.respond(query).await {
            let _ = socket.send_to(&response, client).await;
        }
    }

    async fn serve_tcp(self, listener: TcpListener) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            let server = self.clone();
            tokio::spawn(async move {
                let _ = server.answer_tcp(stream).await;
                drop(permit);
            });
        }
    }

    /// Answers the queries of one connection, one after the other. Each message has its length
    /// before it (RFC 1035 §4.2.2).
    async fn answer_tcp(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(TCP_IDLE_TIMEOUT, stream.read_u16()).await??;
            let mut query = vec![0; usize::from(length)];
            timeout(TCP_IDLE_TIMEOUT, stream.read_exact(&mut query)).await??;
            let Some(response) = self.respond(&query).await else { return Ok(()) };
            let length = u16::try_from(response.len()).map_err(io::Error::other)?;
            let message = [&length.to_be_bytes()[..], &response].concat();
            timeout(TCP_IDLE_TIMEOUT, stream.write_all(&message)).await??;
        }
    }

    async fn respond(&self, query: &[u8]) -> Option<Vec<u8>> {
        let exists = |name: String| async move {
            match self.egress.look_up(&name, &ClientKey::Proxy).await {
                Ok(()) => Existence::Exists,
                Err(error) if error.failure == Failure::NameNotFound => Existence::NotFound,
                Err(_) => Existence::Failed,
            }
        };
        respond(query, &self.virtual_addresses, exists).await
    }
}
