//! The running proxy: listeners, workers that accept what comes by them, and the drain at the end. Each
//! worker is a thread with a runtime of its own; a connection lives and dies there.

mod accept;
mod assemble;
mod change;
mod descriptors;
mod lifecycle;
mod prepare;
mod pulse;
mod totals;
mod worker;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::info;

use accept::Acceptor;
pub use assemble::{Assembly, assemble, put_together, store, way_out};
pub use change::Changed;
pub use lifecycle::Lifecycle;
pub use prepare::{Prepared, SetupError, SetupErrors, prepare};
pub use pulse::Pulse;
use totals::Totals;
use worker::Worker;

use crate::runtime::listener;
use crate::runtime::shutdown::Shutdown;
use crate::watch::Watching;

/// So many workers accept clients, for themselves and for the others. The system wakes all of them for each client
/// that comes; one alone would keep everybody out while it is busy.
const ACCEPTORS_MAX: usize = 2;

/// Sockets that are bound, but not served yet. Their addresses are known: port 0 became a number. Those
/// that this process has bound take no connection before the proxy serves: a client is refused by the
/// system, as before the start, and never accepted and dropped.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    /// Whether they were handed over, and listen already.
    is_listening: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Listeners {
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, BindError> {
        let bind = |address: &SocketAddr| {
            listener::bind(*address).map_err(|source| BindError { address: *address, source })
        };
        let sockets = addresses.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { sockets, is_listening: false })
    }

    /// Those that somebody else has bound and handed to this process.
    pub fn handed_over(listeners: Vec<TcpListener>) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { sockets: listeners, is_listening: true })
    }

    /// From now on connections are taken.
    fn listen(&mut self) -> Result<(), BindError> {
        for socket in self.sockets.iter().filter(|_| !self.is_listening) {
            let in_use = |source| BindError {
                address: socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into()),
                source,
            };
            listener::listen(socket).map_err(in_use)?;
        }
        self.is_listening = true;
        Ok(())
    }

    /// The same ones: who comes by them is accepted once, by whoever is first.
    fn again(&self) -> io::Result<Self> {
        let sockets = self.sockets.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        Ok(Self { sockets, is_listening: self.is_listening })
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}

/// A proxy that serves, until it is told to stop.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    stop: Shutdown,
    workers: Vec<Worker>,
    pulse: Pulse,
    watching: Watching,
    totals: Totals,
    /// How many clients there are descriptors for.
    places: usize,
    assembly: Assembly,
}

impl Server {
    /// Starts the threads that serve `listeners`. An error where an address has been taken meanwhile.
    pub fn start(mut listeners: Listeners, assembly: &Assembly) -> io::Result<Self> {
        let stop = Shutdown::default();
        let addresses = listeners.addresses();
        let acceptors = assembly.workers.min(ACCEPTORS_MAX);
        let accepting =
            (0..acceptors).map(|_| listeners.again()).collect::<io::Result<Vec<_>>>()?;
        // Each of them holds a place for whom it waits, at each listener.
        let waiting = acceptors * listeners.sockets.len();
        let (settings, places) = (assembly.settings(), descriptors::places().max(waiting + 1));
        descriptors::say_if_short(settings.clients.max_connections, places);
        let gate = assembly.gate(&settings);
        let connections = TaskTracker::new();
        let started = (0..assembly.workers).map(|number| {
            Worker::start(number, assembly, &gate, stop.clone(), connections.clone())
        });
        let (workers, posts): (Vec<_>, Vec<_>) =
            started.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let pulse = Pulse::of(workers.iter().map(Worker::named));
        let watching = Watching::start(&assembly.watch, &assembly.audit, &assembly.clock)?;
        let (totals, assembly) = (Totals::start(assembly)?, assembly.clone());
        let mut acceptor = Acceptor {
            door: Arc::clone(&assembly.door),
            places: Arc::new(Semaphore::new(places)),
            share: descriptors::share(places - waiting),
            workers: posts,
            stop: stop.clone(),
            is_short: Arc::default(),
        };
        // Nobody is let in before all is there.
        listeners.listen().map_err(|error| io::Error::new(error.source.kind(), error))?;
        for (worker, listeners) in workers.iter().zip(accepting) {
            worker.accept(acceptor.clone(), listeners);
            acceptor.workers.rotate_left(1);
        }
        Ok(Self { addresses, stop, workers, pulse, watching, totals, places, assembly })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What tells whether its threads run.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Stops accepting, lets requests under way end within the drain timeout, tells the log how many
    /// decisions there were, and ends the threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.trigger();
        for worker in &mut self.workers {
            worker.join();
        }
        // Nothing more is fetched: what has changed comes into the log before the last totals.
        self.watching.end();
        self.totals.end();
        self.assembly.tally.inside.name_rest(self.assembly.settings().under_run);
        // Nobody learns anything any more: what is still to be written has its last chance.
        self.assembly.store.close();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Says where the proxy listens.
pub fn announce(server: &Server) {
    for address in server.addresses() {
        info!(%address, "listening");
    }
}
