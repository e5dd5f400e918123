//! The signals of the proxy, from its start: a HUP during the start is acted on once it serves, and a
//! signal to stop ends a starting proxy at once.

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
pub enum SignalAction {
    /// Stop; the signal's name.
    Stop(&'static str),
    /// Reload.
    Reload,
}

/// The signals so far.
pub struct Signals {
    shared: Arc<Shared>,
    end: watch::Receiver<Option<&'static str>>,
}

#[derive(Default)]
struct Shared {
    /// Several before the reload are one.
    reload: Notify,
    is_serving: AtomicBool,
}

struct Registered {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Registers the signals, on a thread of their own, so that they are acted on also while the
    /// start or the end waits for a disk.
    pub fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let registered = runtime.block_on(async { Registered::new() })?;
        let (shared, (ended, end)) = (Arc::<Shared>::default(), watch::channel(None));
        let handled = Arc::clone(&shared);
        let run = move || handle_signals(&runtime, registered, &handled, &ended);
        std::thread::Builder::new().name("signals".into()).spawn(run)?;
        Ok(Self { shared, end })
    }

    /// Marks that the proxy serves: from now on it stops by itself when a signal asks for it.
    pub fn note_serving(&self) {
        self.shared.is_serving.store(true, Ordering::SeqCst);
    }

    /// The next request, also of a signal during the start.
    pub async fn next(&mut self) -> SignalAction {
        tokio::select! {
            biased;
            end = self.end.wait_for(Option::is_some) => {
                SignalAction::Stop(end.ok().and_then(|end| *end).unwrap_or("the end of the signals"))
            }
            () = self.shared.reload.notified() => SignalAction::Reload,
        }
    }
}

/// Runs until the process ends.
fn handle_signals(
    runtime: &Runtime,
    mut registered: Registered,
    shared: &Shared,
    ended: &watch::Sender<Option<&'static str>>,
) {
    loop {
        match runtime.block_on(registered.next()) {
            SignalAction::Reload => shared.reload.notify_one(),
            SignalAction::Stop(name) if !shared.is_serving.load(Ordering::SeqCst) => {
                tracing::info!("{name}: stopped before it served");
                std::process::exit(0);
            }
            // A second one does not wait for what is under way.
            SignalAction::Stop(_) if ended.borrow().is_some() => std::process::exit(ENDED_AT_ONCE),
            SignalAction::Stop(name) => drop(ended.send(Some(name))),
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

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop("SIGTERM"),
            _ = self.interrupt.recv() => SignalAction::Stop("SIGINT"),
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }
}
