//! The proxy's end of a sealed run: starts the process that seals itself, and has the sockets of its
//! network.

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

use super::super::super::exit::{Exit, Failure, OrExit};
use super::super::super::resources::Resources;
use super::super::child::{self, Running};
use super::channel::Channel;
use super::namespaces;
use super::refused::Refused;
use super::seal::{ALLOCATOR, NotExecuted, Release, Sealing};
use super::sockets::Purpose;
use crate::dns::StandIns;
use crate::runtime::lock::Lock;

/// How long the sealing may take; it takes a few milliseconds.
const SEALING_TIMEOUT: Duration = Duration::from_secs(10);

/// The sockets of the network, and the channel to the process that waits there.
#[derive(Debug)]
pub struct Inside {
    channel: Channel,
    sockets: Vec<(Purpose, OwnedFd)>,
}

impl Inside {
    /// Starts the process, which will be `command`, and waits until it is sealed.
    ///
    /// # Errors
    ///
    /// With exit code 69 where the system refuses namespaces: never unsealed instead.
    pub fn begin(
        served: &[u16],
        reach: &[u16],
        command: &[OsString],
        resources: &Resources,
    ) -> Result<(Self, Running), Failure> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(SEALING_TIMEOUT))?;
        // Its own file, whatever has become of its path.
        let mut process = Command::new("/proc/self/exe");
        process.args(["seal", "--parent", &std::process::id().to_string()]);
        for (flag, ports) in [("--served", served), ("--reach", reach)] {
            let list: Vec<_> = ports.iter().map(ToString::to_string).collect();
            if !list.is_empty() {
                process.args([flag, &list.join(",")]);
            }
        }
        process.env(ALLOCATOR, "background_thread:false");
        process.arg("--").args(command).stdin(Stdio::from(OwnedFd::from(theirs)));
        let running = child::start(process, resources)?;
        let mut channel = Channel(ours);
        channel.send_descriptors(&[io::stdin().as_fd()])?;
        let ended = || anyhow::anyhow!("the process that was to be sealed has ended");
        let sealing = channel.receive().or_exit(Exit::Unavailable)?;
        let sealing = sealing.ok_or_else(ended).or_exit(Exit::Unavailable)?;
        let letters = match serde_json::from_str(&sealing).or_exit(Exit::Unavailable)? {
            Sealing::Done(letters) => letters,
            Sealing::Refused { step, is_namespace } => return Err(refused(&step, is_namespace)),
        };
        let received = channel.receive_descriptors()?;
        let purposes = letters.chars().filter_map(Purpose::of);
        Ok((Self { channel, sockets: purposes.zip(received).collect() }, running))
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

    /// Counts what is refused, in a task of the current runtime. The sockets are returned as well, so
    /// that what waits in them at the end is counted.
    pub fn watch(
        &mut self,
        refused: &Arc<Lock<Refused>>,
        stand_ins: &Arc<StandIns>,
    ) -> io::Result<Vec<OwnedFd>> {
        let sockets: Vec<OwnedFd> = self.take(Purpose::Refused);
        let watched = sockets.iter().map(|socket| register(socket.try_clone()?));
        let watched: Vec<_> = watched.collect::<io::Result<_>>()?;
        let copies: Vec<_> = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let (refused, stand_ins) = (Arc::clone(refused), Arc::clone(stand_ins));
        tokio::spawn(async move {
            while Refused::readable(&watched).await.is_ok() {
                refused.lock().read(&copies, &stand_ins);
            }
        });
        Ok(sockets)
    }

    /// Lets the process become the command; why it has not, if it has not.
    pub fn release(mut self, release: &Release) -> Result<Option<NotExecuted>, Failure> {
        let text = serde_json::to_string(release).or_exit(Exit::Unavailable)?;
        self.channel.send(&text)?;
        // The end of the channel is closed as the command is executed.
        let failed = self.channel.receive()?;
        failed.map(|text| serde_json::from_str(&text)).transpose().or_exit(Exit::Unavailable)
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

fn refused(step: &str, is_namespace: bool) -> Failure {
    let error = if is_namespace {
        let why = namespaces::why_refused();
        anyhow::anyhow!("a sealed run is not possible here ({step}): {why}")
    } else {
        anyhow::anyhow!("a sealed run is not possible here: {step}")
    };
    Failure { exit: Exit::Unavailable, error }
}
