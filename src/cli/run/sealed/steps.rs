//! Steps of processes that are sealed, with and without a namespace of processes.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::super::super::exit::{Exit, Failure, OrExit};
use super::channel::Channel;
use super::messages::{NotExecuted, Refusal, RefusalKind, Release, Sealing, json, send_refusal};
use super::network;
use super::sockets::Sockets;

/// The variable of the settings of jemalloc, which otherwise has a thread of its own.
pub const ALLOCATOR: &str = "_RJEM_MALLOC_CONF";

/// The arguments of `courtesy seal`.
#[derive(Args, Debug)]
pub struct SealArgs {
    /// The process id of the proxy
    #[arg(long)]
    pub parent: i32,
    /// With a namespace of processes
    #[arg(long)]
    pub processes: bool,
    /// As the first process of that namespace
    #[arg(long)]
    pub init: bool,
    #[arg(long, value_delimiter = ',')]
    pub served: Vec<u16>,
    #[arg(long, value_delimiter = ',')]
    pub reach: Vec<u16>,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

impl SealArgs {
    /// The words of a command line with these flags.
    pub fn words(&self, init: bool) -> Vec<String> {
        let list = |ports: &[u16]| ports.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut words = vec!["--parent".to_owned(), self.parent.to_string()];
        words.extend(self.processes.then(|| "--processes".to_owned()));
        words.extend(init.then(|| "--init".to_owned()));
        for (flag, ports) in [("--served", &self.served), ("--reach", &self.reach)] {
            if !ports.is_empty() {
                words.extend([flag.to_owned(), list(ports).join(",")]);
            }
        }
        words
    }
}

/// Makes the network, hands its sockets to the proxy, and waits until the command may begin. `None`:
/// it is not to begin.
pub fn serve_inside(args: &SealArgs, channel: &mut Channel) -> Result<Option<Release>, Failure> {
    let network = network::set_up().map_err(|error| Refusal {
        step: format!("network: {error}"),
        kind: RefusalKind::Namespaces,
    });
    let made = network.and_then(|has_ipv6| {
        Sockets::make(&args.served, &args.reach, has_ipv6)
            .map_err(|error| Refusal { step: error.to_string(), kind: RefusalKind::Sockets })
    });
    let sockets = match made {
        Ok(sockets) => sockets,
        Err(refusal) => {
            send_refusal(channel, refusal)?;
            return Ok(None);
        }
    };
    channel.send(&json(&Sealing::Done(sockets.letters()))?)?;
    channel.send_descriptors(&sockets.descriptors())?;
    drop(sockets);
    let release = channel.receive()?;
    release.map(|text| serde_json::from_str(&text)).transpose().or_exit(Exit::Unavailable)
}

/// The same, before the channel was taken from standard input.
pub fn refuse(refusal: Refusal) -> Result<Exit, Failure> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    send_refusal(&mut Channel(channel), refusal)
}

/// The command. SIGPIPE is set back by the standard library.
pub fn command(args: &SealArgs, release: &Release) -> Result<Command, NotExecuted> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(NotExecuted { number: None, words: "there is no command".into() });
    };
    let mut command = Command::new(program);
    let pairs = release.variables.iter().map(|(name, value)| (name, value));
    command.args(arguments).env_remove(ALLOCATOR).envs(pairs);
    Ok(command)
}

/// Has this process end with its parent, which is the process `parent` if it can be named from here.
pub fn end_with_parent(parent: Option<i32>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let is_there = |id: i32| getppid().map(Pid::as_raw_nonzero).is_some_and(|it| it.get() == id);
    if parent.is_some_and(|id| !is_there(id)) {
        return Err(io::Error::other("the proxy has ended"));
    }
    Ok(())
}
