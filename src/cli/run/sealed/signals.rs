//! Signals as values: blocked, and read from a descriptor (signalfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;

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
