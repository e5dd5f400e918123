//! One thread, one runtime, its own idle connections to origins. A panic costs the connection that it
//! happens on, and no other.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::Listeners;
use super::accept::Acceptor;
use super::assemble::Assembly;
use crate::clients::ConnectionPermit;
use crate::egress::Egress;
use crate::proxy::{self, Channel, Current, Gate, Proxy};
use crate::runtime::clock;
use crate::runtime::shutdown::Shutdown;

/// How often idle connections to origins are looked through for those whose time is over.
const POOL_SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A client that has been let in, on its way to a worker.
#[derive(Debug)]
pub struct Arrival {
    pub stream: std::net::TcpStream,
    pub client: SocketAddr,
    pub reception: ConnectionPermit,
    /// Descriptors for it, and for what it asks for; none when it is turned away.
    pub place: Option<OwnedSemaphorePermit>,
}

/// The way to a worker. Unbounded, and yet bounded: the door counts every connection until it is over.
#[derive(Debug)]
pub struct Post<T> {
    sender: mpsc::UnboundedSender<(T, Held)>,
    connections: Arc<AtomicUsize>,
}

/// One connection more, until it is dropped.
#[derive(Debug)]
struct Held(Arc<AtomicUsize>);

impl<T> Post<T> {
    fn new() -> (Self, mpsc::UnboundedReceiver<(T, Held)>) {
        let (sender, arrivals) = mpsc::unbounded_channel();
        (Self { sender, connections: Arc::default() }, arrivals)
    }

    /// How many connections the worker has, those included that are on their way.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Gives `arrival` back when the worker is gone.
    pub fn send(&self, arrival: T) -> Result<(), T> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let held = Held(Arc::clone(&self.connections));
        self.sender.send((arrival, held)).map_err(|returned| returned.0.0)
    }
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), connections: Arc::clone(&self.connections) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Worker {
    name: String,
    handle: Handle,
    current: Current,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Serves what is sent, until nobody can send any more: then what is under way may end, within the
    /// drain timeout. `connections` are those of all workers: each goes on until the last has ended, for
    /// its connections to origins may be lent, and all wait for what it fetches.
    pub fn start(
        number: usize,
        assembly: &Assembly,
        gate: &Arc<Gate>,
        stop: Shutdown,
        connections: TaskTracker,
    ) -> io::Result<(Self, Post<Arrival>)> {
        let (post, arrivals) = Post::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let egress = Arc::new(Egress::new(Arc::clone(&assembly.egress)));
        let proxy = assembly.proxy(&assembly.settings(), gate, egress);
        let current: Current = Arc::new(ArcSwap::from_pointee(proxy));
        let (served, settings) = (Arc::clone(&current), Arc::clone(&assembly.settings));
        let (name, handle) = (format!("worker-{number}"), runtime.handle().clone());
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let receive =
                |(arrival, held)| receive(arrival, held, Arc::clone(&served), stop.clone());
            let tend = || {
                let proxy = served.load();
                proxy.forwarding.egress.sweep();
                proxy.tally.inside.name_distrusting(clock::monotonic(), settings.load().under_run);
            };
            served.load().forwarding.egress.settle();
            runtime.block_on(async {
                serve(arrivals, &connections, receive, tend).await;
                drain(&connections, settings.load().limits.drain_timeout).await;
            });
            // What still runs (tunnels, a fetch) does not keep the process.
            runtime.shutdown_background();
        })?;
        Ok((Self { name, handle, current, thread: Some(thread) }, post))
    }

    /// Has `acceptor` accept on its thread what comes by `listeners`.
    pub fn accept(&self, acceptor: Acceptor, listeners: Listeners) {
        self.handle.spawn(async move { acceptor.begin(listeners) });
    }

    /// Its thread's name, and what runs there.
    pub fn named(&self) -> (String, Handle) {
        (self.name.clone(), self.handle.clone())
    }

    /// From the next request on, the one that `next` makes of the former answers.
    pub fn change(&self, next: impl FnOnce(&Proxy) -> Proxy) {
        let proxy = next(&self.current.load());
        self.current.store(Arc::new(proxy));
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

/// Hands what arrives to `receive`, each a task of its own among `connections`, and calls `tend` from time
/// to time, until nothing more can arrive.
async fn serve<T, F: Future<Output = ()> + Send + 'static>(
    mut arrivals: mpsc::UnboundedReceiver<T>,
    connections: &TaskTracker,
    receive: impl Fn(T) -> F,
    tend: impl Fn(),
) {
    let mut sweep = tokio::time::interval(POOL_SWEEP_INTERVAL);
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => drop(connections.spawn(receive(arrival))),
                None => return,
            },
            // A panic in a task is the task's; one here would be the end of every connection.
            _ = sweep.tick() => drop(catch_unwind(AssertUnwindSafe(&tend))),
        }
    }
}

async fn drain(connections: &TaskTracker, patience: Duration) {
    connections.close();
    if timeout(patience, connections.wait()).await.is_err() {
        warn!(
            open = connections.len(),
            "connections were still open after {patience:?} and are closed"
        );
    }
}

/// Serves one client that has been let in. The place inside is kept until all is over, what runs
/// inside a CONNECT included.
async fn receive(arrival: Arrival, held: Held, proxy: Current, stop: Shutdown) {
    let Arrival { stream, client, reception, place } = arrival;
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let channel = Arc::new(Channel::of_client(client, stop, proxy));
    proxy::serve(stream, channel, reception.reject_reason.map(Into::into)).await;
    drop((reception, place, held));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_from_when_it_is_sent_until_it_is_over() {
        let (post, mut arrivals) = Post::new();
        assert_eq!((post.send('a'), post.send('b'), post.connections()), (Ok(()), Ok(()), 2));
        let first = arrivals.try_recv().unwrap();
        assert_eq!((first.0, post.connections()), ('a', 2));
        drop(first);
        assert_eq!(post.connections(), 1);
        drop(arrivals);
        assert_eq!((post.send('c'), post.connections()), (Err('c'), 0), "the worker is gone");
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_connection_and_nothing_else() {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let served = Arc::new(AtomicUsize::new(0));
        for number in 0..10 {
            sender.send(number).unwrap();
        }
        drop(sender);
        let receive = |number| {
            let served = Arc::clone(&served);
            async move {
                assert!(number % 2 == 0, "an odd one");
                served.fetch_add(1, Ordering::SeqCst);
            }
        };
        let connections = TaskTracker::new();
        serve(arrivals, &connections, receive, || panic!("while it tends")).await;
        drain(&connections, Duration::from_secs(20)).await;
        assert_eq!((served.load(Ordering::SeqCst), connections.len()), (5, 0));
    }
}
