//! The acceptor: it lets clients in on a worker's thread, and the worker keeps them, but where another has clearly
//! fewer. Where descriptors are short it pauses: who comes then waits in the system's queue, and who is
//! in finds descriptors for the origins he asks for.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::Interest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tracing::{info, warn};

use super::Listeners;
use super::worker::{Arrival, Post};
use crate::admin::limits::ACCEPT_PAUSE;
use crate::clients::ClientAdmission;
use crate::proxy::limits::CLIENT_UNSENT_BYTES_MAX;
use crate::runtime::shutdown::Shutdown;

/// So many connections more than another a worker may have, and keep what it accepts all the same.
const KEPT_AHEAD_MAX: usize = 4;

/// What every listener's loop needs.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub door: Arc<ClientAdmission>,
    /// As many as there are descriptors for.
    pub places: Arc<Semaphore>,
    /// How many of them one client may have.
    pub share: usize,
    /// The one on whose thread this is, first.
    pub workers: Vec<Post<Arrival>>,
    pub stop: Shutdown,
    /// Accepting has failed, and has not gone well since; the same for all, for it is said once.
    pub is_short: Arc<AtomicBool>,
}

impl Acceptor {
    /// From now on, until it is told to stop. The workers' ends go with it: they know that nobody comes any more.
    pub fn begin(self, listeners: Listeners) {
        for listener in listeners.sockets {
            match Listener::new(listener) {
                Ok(listener) => drop(tokio::spawn(self.clone().accept_all(listener))),
                Err(error) => warn!("a listener cannot be served: {error}"),
            }
        }
    }

    async fn accept_all(self, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = self.stop.wait() => return,
            };
            match accepted {
                Ok((stream, client, place)) => {
                    if self.is_short.swap(false, Relaxed) {
                        info!("connections are accepted again");
                    }
                    self.let_in(stream, client, place);
                }
                // It was the client who left, or an interruption: nothing that waiting would mend.
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    // Most often no descriptors are left: waiting helps, trying at once does not.
                    if !self.is_short.swap(true, Relaxed) {
                        warn!(
                            "cannot accept connections, tried again every {ACCEPT_PAUSE:?}: {error}"
                        );
                    }
                    tokio::select! {
                        () = sleep(ACCEPT_PAUSE) => {}
                        () = self.stop.wait() => return,
                    }
                }
            }
        }
    }

    /// The place first: whoever is accepted has descriptors.
    async fn accept(
        &self,
        listener: &Listener,
    ) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, client) = listener.accept().await?;
        Ok((stream, client, place))
    }

    /// Hands a client to a worker that is there. What goes wrong costs this client alone.
    fn let_in(&self, stream: TcpStream, client: SocketAddr, place: OwnedSemaphorePermit) {
        let received =
            catch_unwind(AssertUnwindSafe(|| self.door.receive(client.ip(), self.share)));
        let Ok(Some(reception)) = received else { return };
        // Who is turned away has a place among those, and leaves this one to others.
        let place = reception.reject_reason.is_none().then_some(place);
        let mut arrival = Arrival { stream, client, reception, place };
        let chosen = choose(self.workers.iter().map(Post::connections));
        for at in chosen.into_iter().chain(0..self.workers.len()) {
            match self.workers[at].send(arrival) {
                Ok(()) => return,
                // That worker is gone.
                Err(returned) => arrival = returned,
            }
        }
        warn!("no worker is left to serve a connection");
    }
}

/// The first, for to wake another thread costs more than an accept; but where it has an eighth more connections than
/// the one with the fewest, or [`KEPT_AHEAD_MAX`] more, that one. A few long-lived ones are spread evenly.
fn choose(connections: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let first = connections.clone().next()?;
    let (fewest, at) = connections.zip(0..).min()?;
    Some(if first <= fewest + (fewest / 8).min(KEPT_AHEAD_MAX) { 0 } else { at })
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// What it accepts belongs to no runtime yet: the runtime's own listener would take each connection on, also one that
/// is handed to another worker.
struct Listener {
    socket: TcpListener,
    /// The same socket. Of a stream the runtime tells when it is readable, and of this one when a client waits.
    readiness: tokio::net::TcpStream,
}

impl Listener {
    /// What holds of a listener holds of the connections that it accepts: set here, it costs them nothing.
    fn new(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let options = socket2::SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        // Elsewhere a slow reader costs more of the system's memory, and nothing else.
        #[cfg(target_os = "linux")]
        options.set_tcp_notsent_lowat(CLIENT_UNSENT_BYTES_MAX)?;
        // Between programs of one machine there is no path to be gentle to. Where the system's own algorithm paces (bbr),
        // its timers would cost more than what they delay; this one is always there, and paces nothing.
        #[cfg(target_os = "linux")]
        if socket.local_addr()?.ip().is_loopback() {
            let _ = options.set_tcp_congestion(b"reno");
        }
        let same = OwnedFd::from(socket.try_clone()?);
        Ok(Self { readiness: tokio::net::TcpStream::from_std(same.into())?, socket })
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.readiness.async_io(Interest::READABLE, || accept(&self.socket)).await
    }
}

/// A connection as a runtime takes it on, which the standard library's has to be made with one more call.
#[cfg(target_os = "linux")]
fn accept(socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    use rustix::net::{SocketFlags, acceptfrom_with};

    let (stream, client) = acceptfrom_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let client = client.ok_or_else(|| io::Error::other("a client without an address"))?;
    Ok((stream.into(), client.try_into()?))
}

#[cfg(not(target_os = "linux"))]
fn accept(socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, client) = socket.accept()?;
    stream.set_nonblocking(true)?;
    Ok((stream, client))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_worker_keeps_whom_it_accepts_unless_another_has_clearly_fewer() {
        for (connections, expected) in [
            (&[][..], None),
            (&[7], Some(0)),
            (&[0, 0], Some(0)),
            (&[1, 0], Some(1)),
            (&[7, 6], Some(1)),
            (&[9, 8], Some(0)),
            (&[10, 8], Some(1)),
            (&[36, 40, 32], Some(0)),
            (&[37, 40, 32], Some(2)),
            // Connections that idle do not keep new ones here.
            (&[2504, 2500, 2600], Some(0)),
            (&[2505, 2500, 2600], Some(1)),
            (&[3, 1, 2, 1], Some(1)),
        ] {
            assert_eq!(choose(connections.iter().copied()), expected, "{connections:?}");
        }
    }

    #[tokio::test]
    async fn what_is_set_of_a_listener_holds_of_what_it_accepts() {
        for (listening, is_paced) in [(Ipv4Addr::LOCALHOST, false), (Ipv4Addr::UNSPECIFIED, true)] {
            let mut bound = Listeners::bind(&[(listening, 0).into()]).unwrap();
            bound.listen().unwrap();
            let listener = Listener::new(bound.sockets.remove(0)).unwrap();
            let address = (Ipv4Addr::LOCALHOST, listener.socket.local_addr().unwrap().port());
            let (client, accepted) =
                tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
            let (client, (stream, _)) = (client.unwrap(), accepted.unwrap());
            assert!(stream.nodelay().unwrap());
            let nothing_to_read = stream.peek(&mut [0]).unwrap_err();
            assert_eq!(nothing_to_read.kind(), ErrorKind::WouldBlock, "a worker may take it on");
            #[cfg(target_os = "linux")]
            {
                let (ours, systems) =
                    (socket2::SockRef::from(&stream), socket2::SockRef::from(&client));
                assert_eq!(ours.tcp_notsent_lowat().unwrap(), CLIENT_UNSENT_BYTES_MAX);
                let expected =
                    if is_paced { systems.tcp_congestion().unwrap() } else { b"reno".into() };
                let name = ours.tcp_congestion().unwrap();
                assert!(name.starts_with(&expected), "{}", name.escape_ascii());
            }
        }
    }
}
