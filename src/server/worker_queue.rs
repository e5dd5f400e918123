//! The queue by which acceptors send connections to a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::clients::AdmissionResult;
use crate::proxy::RedirectKind;

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
