//! Accepts connections on a worker's thread. The worker keeps a connection, unless another worker
//! has clearly fewer. While descriptors are short, accepting pauses: new clients wait in the
//! system's queue, and the descriptors that are left serve the clients that are connected.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::listeners::{BoundListener, Listeners};
use crate::clients::{AdmissionResult, ClientAdmission};
use crate::proxy::{CLIENT_UNSENT_BYTES_MAX, RedirectKind};
use crate::runtime::listener::ACCEPT_RETRY_INTERVAL;

/// The lead at which a worker hands connections to another is an eighth of the fewest, at most
/// this.
const IMBALANCE_MAX: usize = 4;

/// The state that the loops of all listeners share.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub admission: Arc<ClientAdmission>,
    /// One permit for each connection that there are file descriptors for.
    pub descriptor_permits: Arc<Semaphore>,
    /// Connections that one client may have.
    pub max_per_client: usize,
    /// The workers; that of this thread first.
    pub workers: Vec<WorkerQueue<AcceptedConnection>>,
    pub stop: CancellationToken,
    /// Accepting has failed and not succeeded since. Shared by all loops: it is logged once.
    pub is_failing: Arc<AtomicBool>,
}

impl Acceptor {
    /// Spawns the accept loop of each listener on the current thread, until shutdown. Dropping the
    /// acceptor closes the workers' queues.
    pub fn spawn(self, listeners: Listeners) {
        for listener in listeners.sockets {
            match Listener::new(listener) {
                Ok(listener) => drop(tokio::spawn(self.clone().accept_all(listener))),
                Err(error) => warn!("a listener cannot be served: {error}"),
            }
        }
    }

    async fn accept_all(self, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, client, permit)) => {
                    if self.is_failing.swap(false, Relaxed) {
                        info!("connections are accepted again");
                    }
                    self.admit((stream, client), listener.redirect.clone(), permit);
                }
                // The client left, or a signal interrupted the call: waiting would not help.
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // Most often no descriptors are left: waiting helps, trying at once does not.
                    if !self.is_failing.swap(true, Relaxed) {
                        warn!(
                            "cannot accept connections, tried again every {ACCEPT_RETRY_INTERVAL:?}: {error}"
                        );
                    }
                    tokio::select! {
                        () = sleep(ACCEPT_RETRY_INTERVAL) => {}
                        () = self.stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// Accepts a connection once there are descriptors for it.
    async fn accept(
        &self,
        listener: &Listener,
    ) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let permits = Arc::clone(&self.descriptor_permits);
        let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
        let (stream, client) = listener.accept().await?;
        Ok((stream, client, permit))
    }

    /// Admits the client of the connection, or rejects it, and sends the connection to a worker. A
    /// failure closes this connection only.
    fn admit(
        &self,
        (stream, client): (TcpStream, SocketAddr),
        redirect: Option<RedirectKind>,
        descriptor_permit: OwnedSemaphorePermit,
    ) {
        let admission = catch_unwind(AssertUnwindSafe(|| {
            self.admission.admit_connection(client.ip(), self.max_per_client)
        }));
        let Ok(Some(admission)) = admission else { return };
        // Rejected connections have their own reserve of descriptors.
        let descriptor_permit = admission.reject_reason().is_none().then_some(descriptor_permit);
        self.send_to_worker(AcceptedConnection {
            stream,
            client,
            redirect,
            admission,
            descriptor_permit,
        });
    }

    /// Sends `connection` to the chosen worker, or to any other that runs.
    fn send_to_worker(&self, mut connection: AcceptedConnection) {
        let chosen = choose_worker(self.workers.iter().map(WorkerQueue::connections));
        for at in chosen.into_iter().chain(0..self.workers.len()) {
            match self.workers[at].send(connection) {
                Ok(()) => return,
                // That worker has ended.
                Err(returned) => connection = returned,
            }
        }
        warn!("no worker is left to serve a connection");
    }
}

/// Chooses the worker for a connection: the first, because waking another thread costs more than an
/// accept. If it has an eighth more connections than the one with the fewest, or [`IMBALANCE_MAX`]
/// more, the latter is chosen, so that a few long-lived connections are spread evenly.
fn choose_worker(connections: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let first = connections.clone().next()?;
    let (fewest, at) = connections.zip(0..).min()?;
    Some(if first <= fewest + (fewest / 8).min(IMBALANCE_MAX) { 0 } else { at })
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// A listening socket. The connections that it accepts are registered with no runtime yet: Tokio's
/// listener would register each with the runtime of this thread, even if another worker serves it.
struct Listener {
    socket: AsyncFd<TcpListener>,
    redirect: Option<RedirectKind>,
    /// Whether all clients are processes of this machine, whatever their addresses.
    is_local: bool,
}

impl Listener {
    /// Sets the options of the listener; the connections that it accepts inherit them (tcp(7)).
    #[expect(
        deprecated,
        reason = "its unsafe successor is for types that do not own their descriptor"
    )]
    fn new(BoundListener { socket, redirect, .. }: BoundListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let options = socket2::SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_tcp_notsent_lowat(CLIENT_UNSENT_BYTES_MAX)?;
        let is_local = is_local(socket.local_addr()?.ip(), redirect.as_ref());
        let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self { socket, redirect, is_local })
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, client) = self.socket.async_io(Interest::READABLE, accept).await?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, client.port()));
        Ok((stream, if self.is_local { loopback } else { client }))
    }
}

/// Whether only processes of this machine reach a listener at `address`. What is redirected keeps
/// the address of the interface that it would have left by, and no packet from another machine gets
/// to loopback (`route_localnet`); where all addresses are routed here, there is no other machine.
const fn is_local(address: IpAddr, redirect: Option<&RedirectKind>) -> bool {
    match redirect {
        Some(RedirectKind::Nat) => address.to_canonical().is_loopback(),
        Some(RedirectKind::Routed(_)) => true,
        None => false,
    }
}

/// Accepts a non-blocking connection in one system call; the standard library takes two.
fn accept(socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, client) = acceptfrom_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let client = client.ok_or_else(|| io::Error::other("a client without an address"))?;
    Ok((stream.into(), client.try_into()?))
}

/// A connection that has been accepted and not served yet.
#[derive(Debug)]
pub struct AcceptedConnection {
    pub stream: std::net::TcpStream,
    pub client: SocketAddr,
    /// On a transparent listener: how the connection was redirected to it.
    pub redirect: Option<RedirectKind>,
    /// Whether it is served; counts it among the open connections.
    pub admission: AdmissionResult,
    /// File descriptors for the connection and for its requests; none if it is rejected.
    pub descriptor_permit: Option<OwnedSemaphorePermit>,
}

/// The sending end of a worker's queue. The channel is unbounded: admission limits the connections,
/// each of which counts until it has ended.
#[derive(Debug)]
pub struct WorkerQueue<T> {
    sender: mpsc::UnboundedSender<(T, ConnectionCount)>,
    connections: Arc<AtomicUsize>,
}

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionCount(Arc<AtomicUsize>);

impl<T> WorkerQueue<T> {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<(T, ConnectionCount)>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender, connections: Arc::default() }, receiver)
    }

    /// The number of the worker's connections, queued ones included.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Queues `connection`; returns it if the worker has ended.
    pub fn send(&self, connection: T) -> Result<(), T> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let count = ConnectionCount(Arc::clone(&self.connections));
        self.sender.send((connection, count)).map_err(|returned| returned.0.0)
    }
}

impl<T> Clone for WorkerQueue<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), connections: Arc::clone(&self.connections) }
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_keeps_its_connection_unless_another_has_clearly_fewer() {
        for (connections, expected) in [
            (&[][..], None),
            (&[7], Some(0)),
            (&[0, 0], Some(0)),
            (&[1, 0], Some(1)),
            (&[7, 6], Some(1)),
            (&[9, 8], Some(0)),
            (&[10, 8], Some(1)),
            (&[36, 40, 32], Some(0)),
            (&[37, 40, 32], Some(2)),
            // Connections that idle do not keep new ones here.
            (&[2504, 2500, 2600], Some(0)),
            (&[2505, 2500, 2600], Some(1)),
            (&[3, 1, 2, 1], Some(1)),
        ] {
            assert_eq!(choose_worker(connections.iter().copied()), expected, "{connections:?}");
        }
    }

    #[tokio::test]
    async fn accepted_connections_have_the_options_of_their_listener() {
        let mut bound = Listeners::bind(&[(Ipv4Addr::LOCALHOST, 0).into()]).unwrap();
        bound.listen().unwrap();
        let listener = Listener::new(bound.sockets.remove(0)).unwrap();
        let address = listener.socket.get_ref().local_addr().unwrap();
        let (client, accepted) =
            tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (_client, (stream, _)) = (client.unwrap(), accepted.unwrap());
        assert!(stream.nodelay().unwrap());
        let nothing_to_read = stream.peek(&mut [0]).unwrap_err();
        assert_eq!(nothing_to_read.kind(), ErrorKind::WouldBlock, "a worker may take it on");
        let options = socket2::SockRef::from(&stream);
        assert_eq!(options.tcp_notsent_lowat().unwrap(), CLIENT_UNSENT_BYTES_MAX);
    }

    #[test]
    fn a_connection_counts_from_when_it_is_sent_until_it_is_over() {
        let (worker, mut receiver) = WorkerQueue::new();
        assert_eq!((worker.send('a'), worker.send('b'), worker.connections()), (Ok(()), Ok(()), 2));
        let first = receiver.try_recv().unwrap();
        assert_eq!((first.0, worker.connections()), ('a', 2));
        drop(first);
        assert_eq!(worker.connections(), 1);
        drop(receiver);
        assert_eq!((worker.send('c'), worker.connections()), (Err('c'), 0), "the worker is gone");
    }
}
