//! The running proxy: listeners, one acceptor that hands connections to the workers, and the drain
//! at the end. Each worker is a thread with a runtime of its own; a connection lives and dies there.

mod accept;
mod assemble;
mod change;
mod descriptors;
mod pulse;
mod totals;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::info;

use accept::Acceptor;
pub use assemble::{Assembly, SetupError, assemble, store, way_out};
pub use change::Changed;
pub use pulse::Pulse;
use totals::Totals;
use worker::Worker;

use crate::halt::Halt;

/// Listeners that are bound, but not served yet. Their addresses are known: port 0 became a number.
#[derive(Debug)]
pub struct Listeners(Vec<TcpListener>);

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
            let listener = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            listener.map_err(|source| BindError { address: *address, source })
        };
        addresses.iter().map(bind).collect::<Result<_, _>>().map(Self)
    }

    /// Those that somebody else has bound and handed to this process.
    pub fn handed_over(listeners: Vec<TcpListener>) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self(listeners))
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}

/// A proxy that serves, until it is told to stop.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    stop: Halt,
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<Worker>,
    pulse: Pulse,
    totals: Totals,
    /// How many clients there are descriptors for.
    places: usize,
    assembly: Assembly,
}

impl Server {
    /// Starts the threads that serve `listeners`.
    pub fn start(listeners: Listeners, assembly: &Assembly) -> io::Result<Self> {
        let stop = Halt::default();
        let addresses = listeners.addresses();
        // Each listener holds a place for whom it waits.
        let (settings, places) = (assembly.settings(), descriptors::places().max(listeners.0.len() + 1));
        descriptors::say_if_short(settings.clients.max_connections, places);
        let gate = assembly.gate(&settings);
        let connections = TaskTracker::new();
        let started = (0..assembly.workers)
            .map(|number| Worker::start(number, assembly, &gate, stop.clone(), connections.clone()));
        let (workers, senders): (Vec<_>, Vec<_>) =
            started.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let acceptor = Acceptor {
            door: Arc::clone(&assembly.door),
            places: Arc::new(Semaphore::new(places)),
            share: descriptors::share(places),
            workers: senders,
            stop: stop.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let accepting = ("accept".to_owned(), runtime.handle().clone());
        let pulse = Pulse::of(workers.iter().map(Worker::named).chain([accepting]));
        let accept = move || acceptor.run(&runtime, listeners);
        let acceptor = std::thread::Builder::new().name("accept".into()).spawn(accept)?;
        let totals = Totals::start(assembly)?;
        let (acceptor, assembly) = (Some(acceptor), assembly.clone());
        Ok(Self { addresses, stop, acceptor, workers, pulse, totals, places, assembly })
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
        self.stop.say();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for worker in &mut self.workers {
            worker.join();
        }
        self.totals.end();
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
