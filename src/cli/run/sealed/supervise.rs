//! The process between the proxy and the namespace of processes: a process enters such a namespace
//! with its children alone (pid_namespaces(7)), so this one makes it, starts the first process in it
//! ([`init`](super::init)), passes signals on, and ends as that one does.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process, setpgid};

use super::super::super::exit::{Exit, Failure, OrExit};
use super::super::child;
use super::messages::{Refusal, RefusalKind};
use super::signals::Signals;
use super::steps::{self, SealArgs};
use super::{namespaces, rights};

/// Runs it to its end.
pub fn run(args: &SealArgs) -> Result<Exit, Failure> {
    steps::end_with_parent(Some(args.parent)).or_exit(Exit::Unavailable)?;
    let started = namespaces::enter(true)
        .and_then(|()| rights::keep_over_exec().map_err(|error| format!("rights: {error}")))
        .and_then(|()| start(args).map_err(|error| format!("the first process: {error}")));
    let init = match started {
        Ok(init) => init,
        Err(step) => return steps::refuse(Refusal { step, kind: RefusalKind::Namespaces }),
    };
    // The channel is the first process's alone from here on.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).or_exit(Exit::Unavailable)?;
    steps::end_with_parent(Some(args.parent)).or_exit(Exit::Unavailable)?;
    // The proxy passes signals on only when the command has been started.
    wait(init, &Signals::block()?).or_exit(Exit::Unavailable)
}

/// Starts the first process. Afterwards this one has no rights, and is out of the group of the
/// terminal: what the terminal sends is for the command.
fn start(args: &SealArgs) -> io::Result<Child> {
    let mut init = Command::new("/proc/self/exe");
    init.arg("seal").args(args.words(true)).arg("--").args(&args.command);
    let init = init.stdin(Stdio::inherit()).spawn()?;
    rights::give_up()?;
    setpgid(None, None)?;
    Ok(init)
}

fn wait(mut init: Child, signals: &Signals) -> io::Result<Exit> {
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
