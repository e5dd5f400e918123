//! The signals that the proxy answers.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end; the signal's name.
    End(&'static str),
    /// To read everything again.
    Reload,
}

impl Signals {
    /// From now on they are heard, also those that come before somebody asks.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Waits for one that ends the proxy.
    pub async fn end(&mut self) -> &'static str {
        loop {
            if let Asked::End(name) = self.next().await {
                return name;
            }
        }
    }
}
