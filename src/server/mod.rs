//! The running proxy: listeners, one acceptor that hands connections to the workers, and the drain
//! at the end. Each worker is a thread with a runtime of its own; a connection lives and dies there.

mod assemble;
mod totals;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use assemble::{Assembly, SetupError, assemble, store, way_out};
use totals::Totals;
use worker::Worker;

use crate::clients::Door;
use crate::limits::ACCEPT_PAUSE;
use crate::store::Store;

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

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}

/// A proxy that serves, until it is told to stop.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    stop: CancellationToken,
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<Worker>,
    totals: Totals,
    store: Arc<Store>,
}

impl Server {
    /// Starts the threads that serve `listeners`.
    pub fn start(listeners: Listeners, assembly: &Assembly) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let addresses = listeners.addresses();
        let workers = (0..assembly.workers)
            .map(|number| Worker::start(number, assembly, stop.clone()))
            .collect::<io::Result<Vec<_>>>()?;
        let senders: Vec<_> = workers.iter().map(Worker::sender).collect();
        let door = Arc::clone(&assembly.door);
        let acceptor = {
            let stop = stop.clone();
            std::thread::Builder::new()
                .name("accept".into())
                .spawn(move || accept_all(listeners, &senders, &door, stop))?
        };
        let totals = Totals::start(Arc::clone(&assembly.gate))?;
        let store = Arc::clone(&assembly.store);
        Ok(Self { addresses, stop, acceptor: Some(acceptor), workers, totals, store })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops accepting, lets requests under way end within the drain timeout, tells the log how many
    /// decisions there were, and ends the threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.cancel();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for worker in &mut self.workers {
            worker.join();
        }
        self.totals.end();
        // Nobody learns anything any more: what is still to be written has its last chance.
        self.store.close();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept_all(listeners: Listeners, workers: &[worker::Sender], door: &Arc<Door>, stop: CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else {
        warn!("no runtime for accepting connections");
        return;
    };
    runtime.block_on(async {
        let mut loops = tokio::task::JoinSet::new();
        for listener in listeners.0 {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => {
                    loops.spawn(accept(listener, workers.to_vec(), Arc::clone(door), stop.clone()));
                }
                Err(error) => warn!("a listener cannot be served: {error}"),
            }
        }
        while loops.join_next().await.is_some() {}
    });
}

async fn accept(
    listener: tokio::net::TcpListener,
    workers: Vec<worker::Sender>,
    door: Arc<Door>,
    stop: CancellationToken,
) {
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted.and_then(|(stream, client)| detach(stream).map(|stream| (stream, client))) {
            Ok((stream, client)) => {
                let Some(reception) = door.receive(client.ip()) else { continue };
                turn = (turn + 1) % workers.len();
                // A worker that is gone has panicked; its connections are lost, the others go on.
                let _ = workers[turn].send((stream, client, reception));
            }
            Err(error) => {
                // Most often no descriptors are left: waiting helps, trying at once does not.
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes the connection off this runtime, for another to take on.
fn detach(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.into_std()
}

/// Says where the proxy listens.
pub fn announce(server: &Server) {
    for address in server.addresses() {
        info!(%address, "listening");
    }
}
