//! A worker: one thread, one runtime, its own idle connections to origins. A panic closes only the
//! connection on which it occurs.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::accept::{AcceptedConnection, Acceptor, ConnectionCount, WorkerQueue};
use super::components::Components;
use super::listeners::Listeners;
use crate::egress::Egress;
use crate::proxy::{self, ConnectionContext, CurrentProxy, Gate, Proxy};
use crate::runtime::{box_future, clock};

/// How often expired idle connections to origins are closed.
const POOL_SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// One worker thread.
#[derive(Debug)]
pub struct Worker {
    name: String,
    handle: Handle,
    current: CurrentProxy,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Serves the connections that are queued, until the queue is closed: then requests in flight
    /// may end, within the drain timeout. `connections` are those of all workers: each worker runs
    /// until the last has ended, because its connections to origins may be lent, and others wait
    /// for its fetches.
    pub fn start(
        number: usize,
        components: &Components,
        gate: &Arc<Gate>,
        stop: CancellationToken,
        connections: TaskTracker,
    ) -> io::Result<(Self, WorkerQueue<AcceptedConnection>)> {
        let (queue, receiver) = WorkerQueue::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let egress = Arc::new(Egress::new(Arc::clone(&components.egress)));
        let proxy = components.proxy(&components.settings(), gate, egress);
        let current: CurrentProxy = Arc::new(ArcSwap::from_pointee(proxy));
        let (current_proxy, settings) = (Arc::clone(&current), Arc::clone(&components.settings));
        let (name, handle) = (format!("worker-{number}"), runtime.handle().clone());
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let serve = |(connection, count)| {
                serve_connection(connection, count, Arc::clone(&current_proxy), stop.clone())
            };
            let run_housekeeping = || {
                let proxy = current_proxy.load();
                proxy.forwarding.egress.sweep();
                proxy.metrics.tls.log_distrusting(clock::monotonic(), settings.load().under_run);
            };
            current_proxy.load().forwarding.egress.set_for_thread();
            runtime.block_on(async {
                serve_queue(receiver, &connections, serve, run_housekeeping).await;
                drain(&connections, settings.load().limits.drain_timeout).await;
            });
            // What still runs (tunnels, a fetch) does not keep the process.
            runtime.shutdown_background();
        })?;
        Ok((Self { name, handle, current, thread: Some(thread) }, queue))
    }

    /// Runs `acceptor` on its thread, for `listeners`.
    pub fn accept(&self, acceptor: Acceptor, listeners: Listeners) {
        self.handle.spawn(async move { acceptor.spawn(listeners) });
    }

    /// The name and the runtime of its thread.
    pub fn name_and_runtime(&self) -> (String, Handle) {
        (self.name.clone(), self.handle.clone())
    }

    /// Replaces the proxy by the one that `next` makes of it, from the next request on.
    pub fn change(&self, next: impl FnOnce(&Proxy) -> Proxy) {
        let proxy = next(&self.current.load());
        self.current.store(Arc::new(proxy));
    }

    /// Joins the thread, which ends within the drain timeout.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("a worker has panicked");
        }
    }
}

/// Serves each queued connection in a task of `connections`, and runs the housekeeping
/// periodically, until the queue is closed.
async fn serve_queue<T, F: Future<Output = ()> + Send + 'static>(
    mut queue: mpsc::UnboundedReceiver<T>,
    connections: &TaskTracker,
    serve: impl Fn(T) -> F,
    run_housekeeping: impl Fn(),
) {
    let mut sweep = tokio::time::interval(POOL_SWEEP_INTERVAL);
    loop {
        tokio::select! {
            connection = queue.recv() => match connection {
                Some(connection) => drop(connections.spawn(serve(connection))),
                None => return,
            },
            // A panic in a task is the task's; one here would be the end of every connection.
            _ = sweep.tick() => drop(catch_unwind(AssertUnwindSafe(&run_housekeeping))),
        }
    }
}

async fn drain(connections: &TaskTracker, drain_timeout: Duration) {
    connections.close();
    if timeout(drain_timeout, connections.wait()).await.is_err() {
        warn!(
            open = connections.len(),
            "connections were still open after {drain_timeout:?} and are closed"
        );
    }
}

/// Serves one connection, or rejects it. It counts as open until it ends, including what runs
/// inside a CONNECT.
async fn serve_connection(
    connection: AcceptedConnection,
    count: ConnectionCount,
    proxy: CurrentProxy,
    stop: CancellationToken,
) {
    let AcceptedConnection { stream, client, redirect, admission, descriptor_permit } = connection;
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let rejection = admission.reject_reason().map(Into::into);
    match redirect {
        None => {
            let context = Arc::new(ConnectionContext::of_client(client, stop));
            proxy::serve_client(stream, context, proxy, rejection).await;
        }
        Some(redirect) => {
            let context = ConnectionContext::of_transparent_client(client, stop);
            box_future(|| proxy::transparent::serve(stream, redirect, context, proxy, rejection))
                .await;
        }
    }
    drop((admission, descriptor_permit, count));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_panic_ends_its_own_connection_and_nothing_else() {
        let (sender, queue) = mpsc::unbounded_channel();
        let served = Arc::new(AtomicUsize::new(0));
        for number in 0..10 {
            sender.send(number).unwrap();
        }
        drop(sender);
        let serve = |number| {
            let served = Arc::clone(&served);
            async move {
                assert!(number % 2 == 0, "an odd one");
                served.fetch_add(1, Ordering::SeqCst);
            }
        };
        let connections = TaskTracker::new();
        serve_queue(queue, &connections, serve, || panic!("in the housekeeping")).await;
        drain(&connections, Duration::from_secs(20)).await;
        assert_eq!((served.load(Ordering::SeqCst), connections.len()), (5, 0));
    }
}
