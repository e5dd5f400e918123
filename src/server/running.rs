//! The running proxy: starts its threads, drains and stops them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::accept::{AcceptedConnection, Acceptor, WorkerQueue};
use super::components::Components;
use super::engine::changed_files;
use super::lifecycle::Liveness;
use super::listeners::{self, Listeners};
use super::pace_keeper::PaceKeeper;
use super::prepare::{self, Prepared, SetupErrors, finish, note};
use super::publisher::Publisher;
use super::totals::Totals;
use super::witness::Witness;
use super::worker::Worker;
use crate::admin::{OPERATOR_TOKEN, VIEWER_TOKEN};
use crate::ca;
use crate::config::Settings;
use crate::runtime::clock::monotonic;
use crate::store::disk::Disk;
use crate::watch::Watching;

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
    publisher: Publisher,
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
        let permits = listeners::places().max(waiting + 1);
        listeners::say_if_short(components.settings().clients.max_connections, permits);
        let (workers, queues) = start_workers(components, &stop)?;
        let liveness = Liveness::of(workers.iter().map(Worker::name_and_runtime));
        let watching = Watching::start(&components.watch, &components.audit, &components.clock)?;
        let totals = Totals::start(components)?;
        let publisher = Publisher::start(components)?;
        let witness = components.witness().map(Arc::new);
        let pace_keeper = start_pace_keeper(components, witness.clone())?;
        let acceptor = Acceptor {
            admission: Arc::clone(&components.admission),
            descriptor_permits: Arc::new(Semaphore::new(permits)),
            max_per_client: listeners::max_per_client(permits - waiting),
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
            publisher,
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
        self.publisher.end();
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
    let of_pace = (components.local.as_ref(), components.egress.lanes());
    PaceKeeper::start(of_pace, (witness, components.membership()))
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

// Applies new settings to a running proxy. All that can fail comes first: invalid settings change
// nothing. The store, its fetches in flight, the log, the leaves and the connections of clients
// persist.

/// What a reload changed besides the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Another CA signs.
    pub ca: bool,
    /// The settings that name files whose content has changed.
    pub contents: Vec<&'static str>,
}

impl Server {
    /// Applies `settings`, with the CA in `ca` if that is to be read again, and returns what has
    /// changed in the files that they name. They apply from the next request of every connection;
    /// requests in flight end as they began, and the bounds of a connection itself (its timeouts,
    /// the size of a head) stay. The settings of [`Settings::keep_restart_required`] are ignored.
    pub fn reload(
        &self,
        settings: Settings,
        ca: Option<ca::Source>,
    ) -> Result<Changed, SetupErrors> {
        let (components, mut found) = (&self.components, Vec::new());
        let prepared = prepare::read(&settings, &mut found);
        let ca = ca
            .and_then(|source| Some((note(components.leaves.read(&source), &mut found)?, source)));
        let Prepared { tls, parents, clients, listener_tls, secret, viewer_secret, engine, .. } =
            finish(prepared, found)?;
        let own = components.own_with(engine.as_ref());
        let egress_config = components.egress_config(&settings, tls, parents, own);
        components.audit.change(settings.audit())?;

        // From here on nothing fails.
        let ca = ca.is_some_and(|(authority, source)| components.leaves.take_up(source, authority));
        let former = components.listener_tls.swap(Arc::new(listener_tls.clone()));
        let listener_certificate = !listener_tls.is_as(&former);
        let egress = components.egress.change(egress_config);
        components.egress.lanes().change(settings.pace());
        let mut contents = Vec::new();
        if let (Some(running), Some(engine)) = (&components.redis, engine) {
            contents = changed_files(&settings.engine, &running.settings(), &engine);
            running.change(engine);
        }
        components.store.change(settings.store(), components.fetcher(&settings));
        if let Some(Disk(file)) = components.store.disk() {
            file.resize(settings.store.max_size);
        }
        let users = components.admission.change(clients);
        components.admission.memory().change(settings.body_memory());
        let token = components.token.change(secret);
        let viewer_token = components.viewer_token.change(viewer_secret);
        if settings.clients.max_connections != components.settings().clients.max_connections {
            listeners::say_if_short(settings.clients.max_connections, self.permits);
        }
        components.watch.change(settings.audit.redact_query);
        let gate = components.gate(&settings);
        for worker in &self.workers {
            worker.change(|former| {
                components.proxy(&settings, &gate, Arc::clone(&former.forwarding.egress))
            });
        }
        let has_other_roots = egress.roots && !settings.tls.extra_roots.is_empty();
        components.settings.store(Arc::new(settings));
        let others = [
            ("https.ca_cert", ca),
            ("listen.tls_cert", listener_certificate),
            ("tls.extra_roots", has_other_roots),
            ("clients.users_file", users),
            (OPERATOR_TOKEN, token),
            (VIEWER_TOKEN, viewer_token),
            ("egress.parent_credentials_file", egress.parent_credentials),
        ];
        contents.extend(others.into_iter().filter(|(_, is_other)| *is_other).map(|(key, _)| key));
        Ok(Changed { ca, contents })
    }
}
