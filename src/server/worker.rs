//! One thread, one runtime, its own idle connections to origins.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::assemble::Assembly;
use crate::clients::Reception;
use crate::limits::POOL_SWEEP_INTERVAL;
use crate::proxy::{self, Channel, Proxy};

/// A client that has been let in, on its way to a worker.
pub type Arrival = (std::net::TcpStream, SocketAddr, Reception);
pub type Sender = mpsc::UnboundedSender<Arrival>;

#[derive(Debug)]
pub struct Worker {
    sender: Sender,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start(number: usize, assembly: &Assembly, stop: CancellationToken) -> io::Result<Self> {
        // Unbounded, and yet bounded: the door counts every connection until it is over.
        let (sender, arrivals) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let proxy = Arc::new(assembly.proxy());
        let drain_timeout = assembly.drain_timeout;
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            runtime.block_on(serve(arrivals, &proxy, stop, drain_timeout));
            // What still runs (tunnels, a fetch) does not keep the process.
            runtime.shutdown_background();
        })?;
        Ok(Self { sender, thread: Some(thread) })
    }

    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Waits for the thread, which ends by itself within the drain timeout.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("a worker has panicked");
        }
    }
}

async fn serve(
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    proxy: &Arc<Proxy>,
    stop: CancellationToken,
    drain_timeout: Duration,
) {
    let connections = TaskTracker::new();
    let mut sweep = tokio::time::interval(POOL_SWEEP_INTERVAL);
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => {
                    connections.spawn(receive(arrival, Arc::clone(proxy), stop.clone()));
                }
                None => break,
            },
            _ = sweep.tick() => proxy.forwarding.egress.sweep(),
            () = stop.cancelled() => break,
        }
    }
    connections.close();
    if timeout(drain_timeout, connections.wait()).await.is_err() {
        warn!(open = connections.len(), "connections were still open after {drain_timeout:?} and are closed");
    }
}

/// Serves one client that has been let in. The place inside is kept until all is over, what runs
/// inside a CONNECT included.
async fn receive((stream, client, reception): Arrival, proxy: Arc<Proxy>, stop: CancellationToken) {
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let channel = Arc::new(Channel::of_client(client.ip(), stop));
    proxy::serve(stream, channel, proxy, reception.turned_away.map(Into::into)).await;
    drop(reception);
}
