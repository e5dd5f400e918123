//! The first process of the namespace of processes (pid_namespaces(7)): it makes what is inside, starts
//! the command, passes signals on to it, and waits for each process that is left to it. Its end is
//! that of all processes inside; it ends with the command, or with the proxy.

use std::io::{self, ErrorKind};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, kill_process, set_dumpable_behavior,
    setpgid, wait,
};

use super::super::super::exit::{Exit, Failure, OrExit};
use super::channel::Channel;
use super::messages::{NotExecuted, Refusal, RefusalKind, Release, json, send_refusal};
use super::signals::Signals;
use super::steps::{self, SealArgs};
use super::{mounts, rights};

/// Runs it to its end.
pub fn run(args: &SealArgs, channel: &mut Channel) -> Result<Exit, Failure> {
    // Only the namespaces' own processes are to be seen; where parts of /proc are covered, as in most
    // containers, the system refuses it.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = mount("proc", "/proc", "proc", flags, None) {
        let step = format!("/proc: {error}");
        return send_refusal(channel, Refusal { step, kind: RefusalKind::Processes });
    }
    let Some(release) = steps::serve_inside(args, channel)? else { return Ok(Exit::Done) };
    let started = start(args, &release);
    // The proxy passes signals on only when it has been told.
    let signals = Signals::block()?;
    channel.send(&json(&started.as_ref().err())?)?;
    let Ok(command) = started else { return Ok(Exit::Unavailable) };
    // What the terminal sends is for the command, whose group this process leaves.
    setpgid(None, None).or_exit(Exit::Unavailable)?;
    supervise(command, &signals, channel).or_exit(Exit::Unavailable)
}

fn start(args: &SealArgs, release: &Release) -> Result<Pid, NotExecuted> {
    let prepared = mounts::make(&release.mounts).and_then(|()| rights::give_up());
    // Its descriptors and memory are not the command's to take.
    let prepared = prepared
        .and_then(|()| Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?))
        .and_then(|()| steps::end_with_parent(None));
    prepared.map_err(|error| NotExecuted { number: None, words: error.to_string() })?;
    let mut command: Command = steps::command(args, release)?;
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
