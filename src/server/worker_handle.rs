//! The queue by which acceptors send connections to a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::clients::ConnectionPermit;
use crate::proxy::OriginalDestination;

/// An accepted connection, on its way to a worker.
#[derive(Debug)]
pub struct Accepted {
    pub stream: std::net::TcpStream,
    pub client: SocketAddr,
    /// How the address is known that the client has connected to, on a transparent listener.
    pub transparent: Option<OriginalDestination>,
    pub admitted: ConnectionPermit,
    /// Descriptors for the connection and for its requests; none if it is rejected.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// The queue of a worker. The channel is unbounded: admission limits the connections, each of which
/// counts until it has ended.
#[derive(Debug)]
pub struct WorkerHandle<T> {
    sender: mpsc::UnboundedSender<(T, ConnectionCount)>,
    connections: Arc<AtomicUsize>,
}

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionCount(Arc<AtomicUsize>);

impl<T> WorkerHandle<T> {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<(T, ConnectionCount)>) {
        let (sender, arrivals) = mpsc::unbounded_channel();
        (Self { sender, connections: Arc::default() }, arrivals)
    }

    /// The number of the worker's connections, queued ones included.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Queues `arrival`; gives it back when the worker has ended.
    pub fn send(&self, arrival: T) -> Result<(), T> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let held = ConnectionCount(Arc::clone(&self.connections));
        self.sender.send((arrival, held)).map_err(|returned| returned.0.0)
    }
}

impl<T> Clone for WorkerHandle<T> {
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
    fn a_connection_counts_from_when_it_is_sent_until_it_is_over() {
        let (worker, mut arrivals) = WorkerHandle::new();
        assert_eq!((worker.send('a'), worker.send('b'), worker.connections()), (Ok(()), Ok(()), 2));
        let first = arrivals.try_recv().unwrap();
        assert_eq!((first.0, worker.connections()), ('a', 2));
        drop(first);
        assert_eq!(worker.connections(), 1);
        drop(arrivals);
        assert_eq!((worker.send('c'), worker.connections()), (Err('c'), 0), "the worker is gone");
    }
}
