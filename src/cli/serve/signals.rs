//! The signals that the proxy answers, from its first moment on: a HUP while it starts is obeyed when it
//! serves, and what ends a proxy ends one that starts at once, for nothing is under way yet.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

/// The exit code after a second signal, that of a shell after SIGINT.
const ENDED_AT_ONCE: i32 = 130;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end; the signal's name.
    End(&'static str),
    /// To read everything again.
    Reload,
}

/// What the signals have asked for.
pub struct Signals {
    shared: Arc<Shared>,
    end: watch::Receiver<Option<&'static str>>,
}

#[derive(Default)]
struct Shared {
    /// Several that come before it is seen to are one: everything is read again.
    reload: Notify,
    is_serving: AtomicBool,
}

struct Registered {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on they are heard. On a thread of its own, so that they are obeyed also while the start or
    /// the end waits for a disk.
    pub fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let registered = runtime.block_on(async { Registered::new() })?;
        let (shared, (ended, end)) = (Arc::<Shared>::default(), watch::channel(None));
        let heard = Arc::clone(&shared);
        let run = move || hear(&runtime, registered, &heard, &ended);
        std::thread::Builder::new().name("signals".into()).spawn(run)?;
        Ok(Self { shared, end })
    }

    /// The proxy serves: from now on it ends by itself when that is asked for.
    pub fn serving(&self) {
        self.shared.is_serving.store(true, Ordering::SeqCst);
    }

    /// The next that was asked for, also while it was starting.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            biased;
            end = self.end.wait_for(Option::is_some) => {
                Asked::End(end.ok().and_then(|end| *end).unwrap_or("the end of the signals"))
            }
            () = self.shared.reload.notified() => Asked::Reload,
        }
    }
}

/// Until the process ends.
fn hear(
    runtime: &Runtime,
    mut registered: Registered,
    shared: &Shared,
    ended: &watch::Sender<Option<&'static str>>,
) {
    loop {
        match runtime.block_on(registered.next()) {
            Asked::Reload => shared.reload.notify_one(),
            Asked::End(name) if !shared.is_serving.load(Ordering::SeqCst) => {
                tracing::info!("{name}: stopped before it served");
                std::process::exit(0);
            }
            // A second one does not wait for what is under way.
            Asked::End(_) if ended.borrow().is_some() => std::process::exit(ENDED_AT_ONCE),
            Asked::End(name) => drop(ended.send(Some(name))),
        }
    }
}

impl Registered {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }
}
