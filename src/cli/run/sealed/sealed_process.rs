//! The proxy's end of a sealed run: starts the process that seals itself, and has the sockets of
//! its network.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::process::Command;
use tracing::info;

use super::super::super::exit::{Exit, Failure, OrExit};
use super::super::child::{self, Running};
use super::channel::{Channel, NotExecuted, Refusal, RefusalKind, Release, Sealing};
use super::descriptors;
use super::network::Purpose;
use super::refused_connections::RefusedConnections;
use super::seal::{ALLOCATOR, SealArgs};
use crate::cli::environment::Rlimits;
use crate::name_server::VirtualAddresses;
use crate::runtime::lock::Lock;

/// How long the sealing may take; it takes a few milliseconds.
const SEALING_TIMEOUT: Duration = Duration::from_secs(10);

/// The sockets of the network, and the channel to the process that waits there.
#[derive(Debug)]
pub struct SealedProcess {
    channel: Channel,
    sockets: Vec<(Purpose, OwnedFd)>,
    has_processes: bool,
}

/// A process that has been sealed, or what was refused to it.
type Started = Result<(SealedProcess, Running), (Refusal, Running)>;

impl SealedProcess {
    /// Starts the process, which will be `command`, and waits until it is sealed; without a
    /// namespace of processes where there can be none.
    ///
    /// # Errors
    ///
    /// With exit code 69 where the system refuses namespaces: never unsealed instead.
    pub fn start(
        served: &[u16],
        reach: &[u16],
        command: &[OsString],
        rlimits: &Rlimits,
    ) -> Result<(Self, Running), Failure> {
        let mut args = SealArgs {
            parent: i32::try_from(std::process::id()).or_exit(Exit::Unavailable)?,
            processes: true,
            init: false,
            served: served.to_vec(),
            reach: reach.to_vec(),
            command: command.to_vec(),
        };
        let mut begun = Self::start_with(&args, rlimits)?;
        if let Err((Refusal { step, kind: RefusalKind::Processes }, child)) = begun {
            child.wait(None)?;
            info!("no namespace of processes ({step}): what the command leaves behind goes on");
            args.processes = false;
            begun = Self::start_with(&args, rlimits)?;
        }
        match begun {
            Ok(begun) => Ok(begun),
            Err((refusal, child)) => {
                child.wait(None)?;
                Err(refused(&refusal))
            }
        }
    }

    fn start_with(args: &SealArgs, rlimits: &Rlimits) -> Result<Started, Failure> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(SEALING_TIMEOUT))?;
        // This program, even if its path has changed meanwhile.
        let mut process = Command::new("/proc/self/exe");
        process.arg("seal").args(args.words(false));
        process.env(ALLOCATOR, "background_thread:false");
        process.arg("--").args(&args.command).stdin(Stdio::from(OwnedFd::from(theirs)));
        let running = child::start(process, rlimits)?;
        let mut channel = Channel(ours);
        channel.send_descriptors(&[io::stdin().as_fd()])?;
        let ended = || anyhow::anyhow!("the process that was to be sealed has ended");
        let sealing = channel.receive().or_exit(Exit::Unavailable)?;
        let sealing = sealing.ok_or_else(ended).or_exit(Exit::Unavailable)?;
        let letters = match serde_json::from_str(&sealing).or_exit(Exit::Unavailable)? {
            Sealing::Done(letters) => letters,
            Sealing::Refused(refusal) => return Ok(Err((refusal, running))),
        };
        let received = channel.receive_descriptors()?;
        let purposes = letters.chars().filter_map(Purpose::of);
        let sockets = purposes.zip(received).collect();
        Ok(Ok((Self { channel, sockets, has_processes: args.processes }, running)))
    }

    /// Whether the processes inside have a namespace of their own.
    pub const fn has_processes(&self) -> bool {
        self.has_processes
    }

    /// The listener of the proxy.
    pub fn take_proxy(&mut self) -> Vec<TcpListener> {
        self.take(Purpose::Proxy)
    }

    /// The listeners of the served ports.
    pub fn take_served(&mut self) -> Vec<TcpListener> {
        self.take(Purpose::Served)
    }

    /// The listeners of `--reach`.
    pub fn take_reach(&mut self) -> Vec<TcpListener> {
        self.take(Purpose::Reach)
    }

    /// The sockets for queries.
    pub fn take_names(&mut self) -> io::Result<(UdpSocket, TcpListener)> {
        let (udp, tcp) = (self.take(Purpose::NamesUdp).pop(), self.take(Purpose::NamesTcp).pop());
        udp.zip(tcp).ok_or_else(|| io::Error::other("no sockets for names have come"))
    }

    /// Counts what is refused, in a task of the current runtime. The sockets are returned as well,
    /// so that what waits in them at the end is counted.
    pub fn watch(
        &mut self,
        refused: &Arc<Lock<RefusedConnections>>,
        virtual_addresses: &Arc<VirtualAddresses>,
    ) -> io::Result<Vec<OwnedFd>> {
        let sockets: Vec<OwnedFd> = self.take(Purpose::Refused);
        let watched = sockets.iter().map(|socket| register(socket.try_clone()?));
        let watched: Vec<_> = watched.collect::<io::Result<_>>()?;
        let copies: Vec<_> = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let (refused, virtual_addresses) = (Arc::clone(refused), Arc::clone(virtual_addresses));
        tokio::spawn(async move {
            while RefusedConnections::readable(&watched).await.is_ok() {
                refused.lock().read(&copies, &virtual_addresses);
            }
        });
        Ok(sockets)
    }

    /// Lets the command begin; why it has not, if it has not. As this is dropped, all processes
    /// inside end, if they have a namespace of their own.
    pub fn release(&mut self, release: &Release) -> Result<Option<NotExecuted>, Failure> {
        let text = serde_json::to_string(release).or_exit(Exit::Unavailable)?;
        self.channel.send(&text)?;
        // A process that becomes the command closes its end; another says that it has started it.
        let Some(said) = self.channel.receive().or_exit(Exit::Unavailable)? else {
            return Ok(None);
        };
        serde_json::from_str(&said).or_exit(Exit::Unavailable)
    }

    fn take<T: From<OwnedFd>>(&mut self, purpose: Purpose) -> Vec<T> {
        let all = std::mem::take(&mut self.sockets);
        let (taken, left): (Vec<_>, _) = all.into_iter().partition(|(of, _)| *of == purpose);
        self.sockets = left;
        taken.into_iter().map(|(_, socket)| socket.into()).collect()
    }
}

#[expect(deprecated, reason = "its unsafe successor is for types that do not own their descriptor")]
fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(socket, tokio::io::Interest::READABLE)
}

fn refused(Refusal { step, kind }: &Refusal) -> Failure {
    let error = match kind {
        RefusalKind::Namespaces => {
            let why = descriptors::why_refused();
            anyhow::anyhow!("a sealed run is not possible here ({step}): {why}")
        }
        RefusalKind::Processes | RefusalKind::Sockets => {
            anyhow::anyhow!("a sealed run is not possible here: {step}")
        }
    };
    Failure { exit: Exit::Unavailable, error }
}
