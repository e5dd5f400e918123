//! The running proxy: starts its threads, drains and stops them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::accept::Acceptor;
use super::components::Components;
use super::descriptors;
use super::listeners::Listeners;
use super::liveness::Liveness;
use super::pace_keeper::PaceKeeper;
use super::totals::Totals;
use super::witness::Witness;
use super::worker::Worker;
use super::worker_queue::{AcceptedConnection, WorkerQueue};
use crate::runtime::clock::monotonic;
use crate::watch::Watching;
use tokio_util::sync::CancellationToken;

/// Workers that accept connections, for themselves and for others. The system wakes all of them for
/// each connection; a single one would block accepting while it is busy.
const ACCEPTORS_MAX: usize = 2;

/// How long the end of the proxy waits for its disks where requests took all of the drain timeout.
const CLOSE_TIME_MIN: Duration = Duration::from_secs(1);

/// A running proxy.
#[derive(Debug)]
pub struct Server {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) stop: CancellationToken,
    pub(super) workers: Vec<Worker>,
    pub(super) liveness: Liveness,
    pub(super) watching: Watching,
    pub(super) totals: Totals,
    pace_keeper: PaceKeeper,
    witness: Option<Arc<Witness>>,
    /// The number of clients that there are descriptors for.
    pub(super) permits: usize,
    pub(super) components: Components,
}

impl Server {
    /// Starts the threads that serve `listeners`. An error where an address has been taken
    /// meanwhile.
    pub fn start(mut listeners: Listeners, components: &Components) -> io::Result<Self> {
        let (stop, addresses) = (CancellationToken::new(), listeners.addresses());
        let acceptors = components.workers.min(ACCEPTORS_MAX);
        let accepting =
            (0..acceptors).map(|_| listeners.try_clone()).collect::<io::Result<Vec<_>>>()?;
        // Each acceptor takes a permit at each listener, for the connection that it waits for.
        let waiting = acceptors * listeners.sockets.len();
        let permits = descriptors::places().max(waiting + 1);
        descriptors::say_if_short(components.settings().clients.max_connections, permits);
        let (workers, queues) = start_workers(components, &stop)?;
        let liveness = Liveness::of(workers.iter().map(Worker::name_and_runtime));
        let watching = Watching::start(&components.watch, &components.audit, &components.clock)?;
        let totals = Totals::start(components)?;
        let witness = components.witness().map(Arc::new);
        let pace_keeper = start_pace_keeper(components, witness.clone())?;
        let acceptor = Acceptor {
            admission: Arc::clone(&components.admission),
            descriptor_permits: Arc::new(Semaphore::new(permits)),
            max_per_client: descriptors::max_per_client(permits - waiting),
            workers: queues,
            stop: stop.clone(),
            is_failing: Arc::default(),
        };
        // Listening comes last: the first client finds everything started.
        listeners.listen().map_err(|error| io::Error::new(error.source.kind(), error))?;
        start_accepting(acceptor, &workers, accepting);
        let components = components.clone();
        Ok(Self {
            addresses,
            stop,
            workers,
            liveness,
            watching,
            totals,
            pace_keeper,
            witness,
            permits,
            components,
        })
    }

    /// The addresses of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The witness of the log, if there is one.
    pub fn witness(&self) -> Option<Arc<Witness>> {
        self.witness.clone()
    }

    /// The liveness of its threads.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Stops accepting, waits for requests in flight within the drain timeout, writes the totals,
    /// and stops the threads. Returns until when the log may still wait for its disk.
    pub fn stop(mut self) -> Instant {
        self.end()
    }

    fn end(&mut self) -> Instant {
        let drain_end = monotonic() + self.components.settings().limits.drain_timeout;
        self.stop.cancel();
        for worker in &mut self.workers {
            worker.join();
        }
        // Of a disk that hangs, all parts together wait for the rest of that time.
        let deadline = drain_end.max(monotonic() + CLOSE_TIME_MIN);
        // Nothing more is fetched: what has changed comes into the log before the last totals.
        self.watching.end(deadline);
        self.totals.end();
        self.pace_keeper.end(deadline);
        self.components.request_metrics.tls.log_rest(self.components.settings().under_run);
        // The workers have ended: the store writes what is left.
        self.components.store.close_by(deadline);
        deadline
    }
}

/// Starts the workers, which share one gate, each with its queue.
fn start_workers(
    components: &Components,
    stop: &CancellationToken,
) -> io::Result<(Vec<Worker>, Vec<WorkerQueue<AcceptedConnection>>)> {
    let gate = components.gate(&components.settings());
    let connections = TaskTracker::new();
    let start =
        |number| Worker::start(number, components, &gate, stop.clone(), connections.clone());
    let started = (0..components.workers).map(start).collect::<io::Result<Vec<_>>>()?;
    Ok(started.into_iter().unzip())
}

fn start_pace_keeper(
    components: &Components,
    witness: Option<Arc<Witness>>,
) -> io::Result<PaceKeeper> {
    let of_pace = (&components.store, components.egress.lanes());
    let of_engine = (witness, components.membership());
    PaceKeeper::start(of_pace, &components.clock, of_engine)
}

/// Accepts on the first workers, each for one copy of the listeners. Each prefers itself.
fn start_accepting(mut acceptor: Acceptor, workers: &[Worker], accepting: Vec<Listeners>) {
    for (worker, listeners) in workers.iter().zip(accepting) {
        worker.accept(acceptor.clone(), listeners);
        acceptor.workers.rotate_left(1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Logs the addresses of the listeners.
pub fn announce(server: &Server) {
    for address in server.addresses() {
        info!(%address, "listening");
    }
}
