//! The listener: one request a connection, so that one deadline bounds everything about it. No
//! connection keeps another from being answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use http::Request;
use http::header::DATE;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::parts::{ADMIN_DEADLINE, MonitoredParts};
use super::routes;
use crate::runtime::clock;
use crate::runtime::listener::{self, ACCEPT_RETRY_INTERVAL};

/// Connections to the admin listener at one time; one more is served, and the oldest is closed for
/// it.
const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Bytes of the head of a request to the admin listener: the least that the engine takes.
const ADMIN_HEAD_BYTES_MAX: usize = 8 << 10;

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
    pub(super) fn listen(&mut self) -> io::Result<()> {
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

/// Accepts until shutdown; the connections are tasks of `tasks`.
pub(super) async fn serve(
    listener: Listener,
    parts: Arc<MonitoredParts>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let listener = match tokio::net::TcpListener::from_std(listener.socket) {
        Ok(listener) => listener,
        Err(error) => return warn!("the admin listener cannot be served: {error}"),
    };
    let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
    let mut connections = Newest::default();
    let converse = |stream| {
        let parts = Arc::clone(&parts);
        let connection = tasks.spawn(async move {
            let _ = timeout(ADMIN_DEADLINE, converse(stream, parts)).await;
        });
        connections.admit(connection.abort_handle(), ADMIN_CONNECTIONS_MAX);
    };
    accept_each("the admin listener", &stop, accept, converse).await;
}

async fn converse(stream: TcpStream, parts: Arc<MonitoredParts>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut answer = routes::answer(&request, &parts);
        answer.headers_mut().insert(DATE, clock::http_date());
        async move { Ok::<_, Infallible>(answer) }
    });
    // An error here is not logged: the client has its response, or has left.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .auto_date_header(false)
        .header_read_timeout(None)
        .max_buf_size(ADMIN_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
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

/// The connections of a listener on which new ones never wait: beyond a maximum, the oldest is closed.
/// A connection serves one request, which takes moments, so the oldest sends none, or does not read its
/// response.
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
