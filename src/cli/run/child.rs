//! Starts the command with the caller's terminal, passes signals on to it, and waits for its end.

use std::ffi::OsStr;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::task::Poll;

use rustix::process::{Pid, Signal as Number, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::runtime::{EnterGuard, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::direct_connections::{DirectConnections, Watch};
use super::sealed::refused_connections::Report;
use crate::cli::environment::Rlimits;
use crate::cli::ephemeral_proxy::ProxyReport;
use crate::cli::exit::{Exit, Failure};

/// Exit code of a shell for a command that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code of a shell for a command that does not exist.
pub const NOT_FOUND: u8 = 127;

/// A command that has been started, with the runtime in which it is waited for.
pub struct Running {
    runtime: Runtime,
    signals: Signals,
    child: Child,
}

/// Starts the command.
pub fn start(mut command: Command, rlimits: &Rlimits) -> Result<Running, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    // Before the command is started, so that it misses no signal.
    let signals = Signals::new()?;
    let child = rlimits.lend(|| command.spawn());
    let program = command.as_std().get_program();
    let child = child.map_err(|error| not_started(program, &error))?;
    drop(entered);
    Ok(Running { runtime, signals, child })
}

impl Running {
    /// The context for tasks that run while the command is waited for.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Waits for the end of the command, and returns the code that a shell would make of it and, if
    /// `watch` looks for them, the connections that it had without the proxy.
    pub fn wait(self, watch: Option<Watch>) -> Result<(u8, DirectConnections), Failure> {
        let (status, connections) = self.wait_for_status(watch)?;
        Ok((code(status), connections))
    }

    /// The same, with its status instead of the code.
    pub fn wait_for_status(
        self,
        watch: Option<Watch>,
    ) -> Result<(ExitStatus, DirectConnections), Failure> {
        let Self { runtime, signals, child } = self;
        Ok(runtime.block_on(wait(child, signals, watch))?)
    }
}

async fn wait(
    mut child: Child,
    mut signals: Signals,
    watch: Option<Watch>,
) -> io::Result<(ExitStatus, DirectConnections)> {
    let is_watched = watch.is_some();
    let mut watch = watch.unwrap_or_default().of(child.id().unwrap_or_default());
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, watch.found)),
            number = signals.next() => pass_on(number, &child),
            () = watch.rest(), if is_watched => watch.look(),
        }
    }
}

/// Passes a signal on, unless the terminal has sent it: a terminal sends its signals to the whole
/// foreground group, and most programs end without cleaning up at the second one.
fn pass_on(number: Number, child: &Child) {
    let from_terminal = matches!(number, Number::INT | Number::QUIT) && is_in_foreground();
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id.filter(|_| !from_terminal) {
        // The id is still the command's: it has one until it is waited for. An error means that the
        // command has just ended.
        let _ = kill_process(id, number);
    }
}

fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}

/// The code that a shell makes of it.
pub fn code(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map_or(i32::from(u8::MAX), |number| 128 + number);
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(u8::MAX)
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let error = anyhow::anyhow!("cannot run {}: {error}", program.to_string_lossy());
    Failure { exit: Exit::Command(code), error }
}

/// The signals that are passed on. A signal that is ignored from the start, as under `nohup`, stays
/// ignored: the command inherits that, and a handler would undo it.
struct Signals(Vec<(Number, Signal)>);

impl Signals {
    fn new() -> io::Result<Self> {
        let ignored = ignored();
        let passed_on = [Number::INT, Number::TERM, Number::HUP, Number::QUIT].into_iter();
        let heeded = passed_on.filter(|number| ignored & (1 << (number.as_raw() - 1)) == 0);
        let listen = |number: Number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?));
        heeded.map(listen).collect::<io::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> Number {
        poll_fn(|context| {
            let ready = self.0.iter_mut().find_map(|(number, signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The set of ignored signals, from procfs.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A run that has ended.
pub struct RunOutcome {
    /// The exit code of the command, and its connections that bypassed the proxy; or why it did not
    /// run.
    pub ended: Result<(u8, DirectConnections), Failure>,
    pub report: ProxyReport,
    /// What a sealed run adds.
    pub sealed: Option<Report>,
}
