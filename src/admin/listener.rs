//! The listener: one request a connection, bounded in connections, heads and time. No connection keeps another from
//! being answered.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::runtime::listener::{self, ACCEPT_RETRY_INTERVAL};

/// Connections to the admin listener at one time; one more is served, and the oldest is closed for
/// it.
const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Bytes of the head of a request to the admin listener: the least that the engine takes.
const ADMIN_HEAD_BYTES_MAX: usize = 8 << 10;

/// How long the head of a request may take.
const ADMIN_HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a response may take: a log may have to be read for it. A page that is added to is opened again then.
const ADMIN_CONNECTION_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// A socket that is bound, but not served yet; one that this process has bound takes no connections
/// before. Port 0 has become a number.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// Whether it was handed over, and listens already.
    is_listening: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (listen.admin); give --admin another address, or \"off\"")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Listener {
    /// Binds the admin listener to `address`.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = listener::bind(address).and_then(|socket| {
            let address = socket.local_addr()?;
            Ok(Self { socket, address, is_listening: false })
        });
        bound.map_err(|source| BindError { address, source })
    }

    /// A socket that the service manager has bound.
    pub fn inherited(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, is_listening: true })
    }

    /// Begins to listen.
    pub fn listen(&mut self) -> io::Result<()> {
        if !self.is_listening {
            let in_use = |source: io::Error| {
                io::Error::new(source.kind(), BindError { address: self.address, source })
            };
            listener::listen(&self.socket).map_err(in_use)?;
        }
        self.is_listening = true;
        Ok(())
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener {
    /// Answers by `pages` until shutdown; the connections are tasks of `tasks`.
    pub async fn serve(self, pages: Router, tasks: TaskTracker, stop: CancellationToken) {
        let listener = match tokio::net::TcpListener::from_std(self.socket) {
            Ok(listener) => listener,
            Err(error) => return warn!("the admin listener cannot be served: {error}"),
        };
        let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
        let mut connections = Newest::default();
        let converse = |stream| {
            let pages = pages.clone();
            let connection = tasks.spawn(async move {
                let _ = timeout(ADMIN_CONNECTION_TIME_MAX, converse(stream, pages)).await;
            });
            connections.admit(connection.abort_handle(), ADMIN_CONNECTIONS_MAX);
        };
        accept_each("the admin listener", &stop, accept, converse).await;
    }
}

async fn converse(stream: TcpStream, pages: Router) {
    // An error here is not logged: the client has its response, or has left.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(ADMIN_HEAD_TIME_MAX)
        .max_buf_size(ADMIN_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages))
        .await;
}

/// Passes each connection of `accept` to `converse`. `to` names the listener in the log.
pub(super) async fn accept_each<T, F: Future<Output = io::Result<T>>>(
    to: &str,
    stop: &CancellationToken,
    accept: impl Fn() -> F,
    mut converse: impl FnMut(T),
) {
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok(connection) => converse(connection),
            Err(error) => {
                warn!("cannot accept a connection to {to}: {error}");
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// The connections of a listener on which new ones never wait, so that a probe is always answered: beyond a maximum, the
/// oldest is closed. Of a browser or a scraper it is one that it opens again.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// In the order in which they came.
    connections: VecDeque<AbortHandle>,
}

impl Newest {
    /// Notes a connection, and closes the oldest where there would be more than `max`.
    pub fn admit(&mut self, connection: AbortHandle, max: usize) {
        self.connections.retain(|other| !other.is_finished());
        while self.connections.len() >= max {
            let Some(oldest) = self.connections.pop_front() else { break };
            oldest.abort();
        }
        self.connections.push_back(connection);
    }
}
