//! The process that seals itself and becomes the command, or starts it: `courtesy seal`, which
//! `courtesy run --sealed` starts. It has one thread from its beginning to its end, because namespaces
//! of users cannot be made otherwise (unshare(2)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use clap::Args;
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process,
    set_dumpable_behavior, set_parent_process_death_signal, setpgid, wait,
};

use super::channel::{
    Channel, NotExecuted, Refusal, RefusalKind, Release, Sealing, message_json, send_refusal,
};
use super::network::{self, Sockets};
use super::{descriptors, mounts};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::run::child;

/// Runs `courtesy seal`.
pub fn run(args: &SealArgs) -> Result<Exit, Failure> {
    if args.processes && !args.init {
        return run_supervisor(args);
    }
    descriptors::close_those_that_lead_out().or_exit(Exit::Unavailable)?;
    let mut channel = take_channel().or_exit(Exit::Usage)?;
    if args.init {
        end_with_parent(None).or_exit(Exit::Unavailable)?;
        return run_init(args, &mut channel);
    }
    if let Err(step) = descriptors::enter_namespaces(false) {
        return send_refusal(&mut channel, Refusal { step, kind: RefusalKind::Namespaces });
    }
    // The proxy has ended, or only wanted to know whether it can be done.
    let Some(release) = serve_inside(args, &mut channel)? else { return Ok(Exit::Done) };
    let failed = become_command(args, &release);
    channel.send(&message_json(&Some(failed))?)?;
    Ok(Exit::Unavailable)
}

/// The socket to the proxy is standard input; what the command is to have there comes by it.
fn take_channel() -> io::Result<Channel> {
    let channel = Channel(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let received = channel.receive_descriptors()?;
    let stdin = received.first().ok_or_else(|| io::Error::other("no standard input has come"))?;
    rustix::stdio::dup2_stdin(stdin)?;
    descriptors::replace_standard_of_the_kernel()?;
    Ok(channel)
}

fn become_command(args: &SealArgs, release: &Release) -> NotExecuted {
    let prepared = mounts::make(&release.mounts)
        .and_then(|()| descriptors::give_up())
        .and_then(|()| end_with_parent(Some(args.parent)));
    if let Err(error) = prepared {
        return NotExecuted { number: None, words: error.to_string() };
    }
    match command(args, release) {
        Ok(mut command) => {
            let error = command.exec();
            NotExecuted { number: error.raw_os_error(), words: error.to_string() }
        }
        Err(failed) => failed,
    }
}

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
    channel.send(&message_json(&Sealing::Done(sockets.letters()))?)?;
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

// The first process of the namespace of processes (pid_namespaces(7)): it makes what is inside, starts
// the command, passes signals on to it, and waits for each process that is left to it. Its end is
// that of all processes inside; it ends with the command, or with the proxy.

/// Runs it to its end.
pub fn run_init(args: &SealArgs, channel: &mut Channel) -> Result<Exit, Failure> {
    // Only the namespaces' own processes are to be seen; where parts of /proc are covered, as in most
    // containers, the system refuses it.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = mount("proc", "/proc", "proc", flags, None) {
        let step = format!("/proc: {error}");
        return send_refusal(channel, Refusal { step, kind: RefusalKind::Processes });
    }
    let Some(release) = serve_inside(args, channel)? else { return Ok(Exit::Done) };
    let started = start_command(args, &release);
    // The proxy passes signals on only when it has been told.
    let signals = Signals::block()?;
    channel.send(&message_json(&started.as_ref().err())?)?;
    let Ok(command) = started else { return Ok(Exit::Unavailable) };
    // What the terminal sends is for the command, whose group this process leaves.
    setpgid(None, None).or_exit(Exit::Unavailable)?;
    supervise(command, &signals, channel).or_exit(Exit::Unavailable)
}

fn start_command(args: &SealArgs, release: &Release) -> Result<Pid, NotExecuted> {
    let prepared = mounts::make(&release.mounts).and_then(|()| descriptors::give_up());
    // Its descriptors and memory are not the command's to take.
    let prepared = prepared
        .and_then(|()| Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?))
        .and_then(|()| end_with_parent(None));
    prepared.map_err(|error| NotExecuted { number: None, words: error.to_string() })?;
    let mut command: Command = command(args, release)?;
    let failed =
        |error: io::Error| NotExecuted { number: error.raw_os_error(), words: error.to_string() };
    let child = command.spawn().map_err(failed)?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| failed(io::Error::from(ErrorKind::InvalidData)))
}

/// Waits for the end of the command, or that of the proxy.
fn supervise(command: Pid, signals: &Signals, channel: &Channel) -> io::Result<Exit> {
    let ends = PollFlags::IN | PollFlags::HUP;
    loop {
        if let Some(code) = reap(command)? {
            return Ok(Exit::Command(code));
        }
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(&channel.0, ends)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        if !ready[1].revents().is_empty() {
            return Ok(Exit::Unavailable);
        }
        while let Some(received) = signals.next()? {
            if received.is_from_outside && received.signal != Signal::CHILD {
                // An error means that it has just ended.
                let _ = kill_process(command, received.signal);
            }
        }
    }
}

/// Waits for all that have ended; the code of the command, if it is among them.
fn reap(command: Pid) -> io::Result<Option<u8>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((id, status))) if id == command => return Ok(Some(code(status))),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The code that a shell makes of it.
fn code(status: WaitStatus) -> u8 {
    let by_signal = status.terminating_signal().map(|number| 128 + number);
    let code = status.exit_status().or(by_signal).unwrap_or(i32::from(u8::MAX));
    u8::try_from(code).unwrap_or(u8::MAX)
}

// The process between the proxy and the namespace of processes: a process enters such a namespace
// with its children alone (pid_namespaces(7)), so this one makes it, starts the first process in it
// (`run_init`), passes signals on, and ends as that one does.

/// Runs it to its end.
pub fn run_supervisor(args: &SealArgs) -> Result<Exit, Failure> {
    end_with_parent(Some(args.parent)).or_exit(Exit::Unavailable)?;
    let started = descriptors::enter_namespaces(true)
        .and_then(|()| descriptors::keep_over_exec().map_err(|error| format!("rights: {error}")))
        .and_then(|()| start_init(args).map_err(|error| format!("the first process: {error}")));
    let init = match started {
        Ok(init) => init,
        Err(step) => return refuse(Refusal { step, kind: RefusalKind::Namespaces }),
    };
    // The channel is the first process's alone from here on.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).or_exit(Exit::Unavailable)?;
    end_with_parent(Some(args.parent)).or_exit(Exit::Unavailable)?;
    // The proxy passes signals on only when the command has been started.
    wait_for_init(init, &Signals::block()?).or_exit(Exit::Unavailable)
}

/// Starts the first process. Afterwards this one has no rights, and is out of the group of the
/// terminal: what the terminal sends is for the command.
fn start_init(args: &SealArgs) -> io::Result<Child> {
    let mut init = Command::new("/proc/self/exe");
    init.arg("seal").args(args.words(true)).arg("--").args(&args.command);
    let init = init.stdin(Stdio::inherit()).spawn()?;
    descriptors::give_up()?;
    setpgid(None, None)?;
    Ok(init)
}

fn wait_for_init(mut init: Child, signals: &Signals) -> io::Result<Exit> {
    let id = i32::try_from(init.id()).ok().and_then(Pid::from_raw);
    loop {
        if let Some(status) = init.try_wait()? {
            return Ok(Exit::Command(child::code(status)));
        }
        match poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        while let Some(received) = signals.next()? {
            if let Some(id) = id.filter(|_| received.signal != Signal::CHILD) {
                // An error means that it has just ended.
                let _ = kill_process(id, received.signal);
            }
        }
    }
}

/// Those that `courtesy run` passes on, and the end of a child.
const HEEDED: [Number; 5] =
    [Number::SIGINT, Number::SIGTERM, Number::SIGHUP, Number::SIGQUIT, Number::SIGCHLD];

/// The signals of this process, which has one thread. What it starts from here on has them blocked, so
/// it starts its child before.
#[derive(Debug)]
pub struct Signals(SignalFd);

/// One signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub signal: Signal,
    /// Whether the process that sent it is of another namespace of processes.
    pub is_from_outside: bool,
}

impl Signals {
    /// Blocks the signals from here on. The end of a child before it is not among them.
    pub fn block() -> io::Result<Self> {
        let set: SigSet = HEEDED.into_iter().collect();
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    /// The next of those that have come.
    pub fn next(&self) -> io::Result<Option<Received>> {
        let Some(info) = self.0.read_signal()? else { return Ok(None) };
        let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        let signal = Signal::from_named_raw(number);
        let signal = signal.ok_or_else(|| io::Error::other("an unknown signal"))?;
        Ok(Some(Received { signal, is_from_outside: info.ssi_pid == 0 }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
