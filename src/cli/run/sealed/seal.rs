//! The process that seals itself and becomes the command: `courtesy seal`, which `courtesy run
//! --sealed` starts. It has one thread from its beginning to its end, because namespaces of users
//! cannot be made otherwise (unshare(2)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

use super::super::super::exit::{Exit, Failure, OrExit};
use super::channel::Channel;
use super::mounts::{self, Mount};
use super::sockets::Sockets;
use super::{namespaces, network};

/// The variable of the settings of jemalloc, which otherwise has a thread of its own.
pub const ALLOCATOR: &str = "_RJEM_MALLOC_CONF";

/// The arguments of `courtesy seal`.
#[derive(Args, Debug)]
pub struct SealArgs {
    /// The process id of the proxy
    #[arg(long)]
    parent: i32,
    #[arg(long, value_delimiter = ',')]
    served: Vec<u16>,
    #[arg(long, value_delimiter = ',')]
    reach: Vec<u16>,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What the proxy sends when it serves: the command may begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct Release {
    pub variables: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
}

/// The letters of the sockets that follow, or why there are none.
#[derive(Debug, Serialize, Deserialize)]
pub enum Sealing {
    Done(String),
    Refused { step: String, is_namespace: bool },
}

/// Why the command has not been executed: a number of errno(3), and words.
#[derive(Debug, Serialize, Deserialize)]
pub struct NotExecuted {
    pub number: Option<i32>,
    pub words: String,
}

/// Runs `courtesy seal`: it does not return when all goes well.
pub fn run(args: &SealArgs) -> Result<Exit, Failure> {
    close_sockets().or_exit(Exit::Unavailable)?;
    let mut channel = take_channel().or_exit(Exit::Usage)?;
    let sealed = seal(args);
    let sealing = match &sealed {
        Ok(sockets) => Sealing::Done(sockets.letters()),
        Err((step, is_namespace)) => {
            Sealing::Refused { step: step.clone(), is_namespace: *is_namespace }
        }
    };
    channel.send(&json(&sealing)?)?;
    let Ok(sockets) = sealed else { return Ok(Exit::Unavailable) };
    channel.send_descriptors(&sockets.descriptors())?;
    drop(sockets);
    // The proxy has ended, or only wanted to know whether it can be done.
    let Some(release) = channel.receive()? else { return Ok(Exit::Done) };
    let release: Release = serde_json::from_str(&release).or_exit(Exit::Unavailable)?;
    let failed = become_command(args, &release);
    channel.send(&json(&failed)?)?;
    Ok(Exit::Unavailable)
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).or_exit(Exit::Unavailable)
}

/// Closes sockets that were inherited beside standard input and output: by one, the command would
/// reach what its parent was connected with. Files and pipes stay.
fn close_sockets() -> io::Result<()> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        // The directory itself has been closed by the time that its link is read again.
        let Ok(target) = fs::read_link(&path) else { continue };
        let is_socket = target.to_string_lossy().starts_with("socket:")
            || target.to_string_lossy() == "anon_inode:[io_uring]";
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        numbers.extend(number.filter(|number| is_socket && *number > 2));
    }
    for number in numbers {
        nix::unistd::close(number)?;
    }
    Ok(())
}

/// The socket to the proxy is standard input; what the command is to have there comes by it.
fn take_channel() -> io::Result<Channel> {
    let channel = Channel(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let received = channel.receive_descriptors()?;
    let stdin = received.first().ok_or_else(|| io::Error::other("no standard input has come"))?;
    rustix::stdio::dup2_stdin(stdin)?;
    Ok(channel)
}

/// Enters the namespaces, and makes what is served there. An error says whether the system refuses
/// the namespaces themselves.
fn seal(args: &SealArgs) -> Result<Sockets, (String, bool)> {
    namespaces::enter().map_err(|step| (step, true))?;
    let has_ipv6 = network::set_up().map_err(|error| (format!("network: {error}"), true))?;
    Sockets::make(&args.served, &args.reach, has_ipv6).map_err(|error| (error.to_string(), false))
}

fn become_command(args: &SealArgs, release: &Release) -> NotExecuted {
    if let Err(error) = mounts::make(&release.mounts).and_then(|()| give_up_rights(args.parent)) {
        return NotExecuted { number: None, words: error.to_string() };
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return NotExecuted { number: None, words: "there is no command".into() };
    };
    let pairs = release.variables.iter().map(|(name, value)| (name, value));
    // The mask of signals and SIGPIPE are set back by the standard library.
    let error = Command::new(program).args(arguments).env_remove(ALLOCATOR).envs(pairs).exec();
    NotExecuted { number: error.raw_os_error(), words: error.to_string() }
}

/// Gives up all rights over the namespaces, so that the command cannot change them, and has the
/// command end with the proxy.
fn give_up_rights(parent: i32) -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // EINVAL: an older kernel does not know it.
        match remove_capability_from_bounding_set(capability) {
            Err(error) if error != rustix::io::Errno::INVAL => return Err(error.into()),
            _ => {}
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|id| id.get() != parent) {
        return Err(io::Error::other("the proxy has ended"));
    }
    Ok(())
}
