//! The acceptor: one thread that lets clients in and hands each to a worker, the next one in turn.
//! Where descriptors are short it pauses: who comes then waits in the system's queue, and who is in
//! finds descriptors for the origins he asks for.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Listeners;
use super::worker::{Arrival, Sender};
use crate::clients::Door;
use crate::limits::{ACCEPT_PAUSE, CLIENT_UNSENT_OCTETS_MAX};

/// What every listener's loop needs.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub door: Arc<Door>,
    /// As many as there are descriptors for.
    pub places: Arc<Semaphore>,
    /// How many of them one client may have.
    pub share: usize,
    pub workers: Vec<Sender>,
    pub stop: CancellationToken,
}

impl Acceptor {
    /// Until it is told to stop. The workers' ends go with it: they know that nobody comes any more.
    pub fn run(self, runtime: &Runtime, listeners: Listeners) {
        runtime.block_on(async {
            let mut loops = tokio::task::JoinSet::new();
            for listener in listeners.0 {
                match prepare(listener) {
                    Ok(listener) => {
                        loops.spawn(self.clone().accept_all(listener));
                    }
                    Err(error) => warn!("a listener cannot be served: {error}"),
                }
            }
            while loops.join_next().await.is_some() {}
        });
    }

    async fn accept_all(self, listener: TcpListener) {
        let (mut turn, mut is_short) = (0, false);
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, client, place)) => {
                    if std::mem::take(&mut is_short) {
                        info!("connections are accepted again");
                    }
                    self.let_in(stream, client, place, &mut turn);
                }
                // It was the client who left, or an interruption: nothing that waiting would mend.
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    // Most often no descriptors are left: waiting helps, trying at once does not.
                    if !std::mem::replace(&mut is_short, true) {
                        warn!("cannot accept connections, tried again every {ACCEPT_PAUSE:?}: {error}");
                    }
                    tokio::select! {
                        () = sleep(ACCEPT_PAUSE) => {}
                        () = self.stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// The place first: whoever is accepted has descriptors.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, client) = listener.accept().await?;
        Ok((stream, client, place))
    }

    /// Hands a client to the next worker that is there. What goes wrong costs this client alone.
    fn let_in(&self, stream: TcpStream, client: SocketAddr, place: OwnedSemaphorePermit, turn: &mut usize) {
        // Off this runtime, for another to take on.
        let Ok(stream) = stream.into_std() else { return };
        let received = catch_unwind(AssertUnwindSafe(|| self.door.receive(client.ip(), self.share)));
        let Ok(Some(reception)) = received else { return };
        // Who is turned away has a place among those, and leaves this one to others.
        let place = reception.turned_away.is_none().then_some(place);
        let mut arrival = Arrival { stream, client, reception, place };
        for _ in 0..self.workers.len() {
            *turn = (*turn + 1) % self.workers.len();
            match self.workers[*turn].send(arrival) {
                Ok(()) => return,
                // That worker is gone.
                Err(returned) => arrival = returned.0,
            }
        }
        warn!("no worker is left to serve a connection");
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

/// What holds of a listener holds of the connections that it accepts: set here, it costs them nothing.
fn prepare(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    let socket = socket2::SockRef::from(&listener);
    socket.set_tcp_nodelay(true)?;
    // Elsewhere a slow reader costs more of the system's memory, and nothing else.
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(CLIENT_UNSENT_OCTETS_MAX)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn what_is_set_of_a_listener_holds_of_what_it_accepts() {
        let Listeners(mut bound) = Listeners::bind(&[(Ipv4Addr::LOCALHOST, 0).into()]).unwrap();
        let listener = prepare(bound.remove(0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.unwrap();
        assert!(stream.nodelay().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(socket2::SockRef::from(&stream).tcp_notsent_lowat().unwrap(), CLIENT_UNSENT_OCTETS_MAX);
    }
}
