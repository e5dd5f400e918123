//! The signals of the proxy, from its start: a HUP during the start is acted on once it serves, and a
//! signal to stop ends a starting proxy at once.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use listenfd::ListenFd;
use sd_notify::NotifyState::{self, Ready, Reloading, Status, Stopping, Watchdog};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::{error, warn};

use crate::cli::environment;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::config::{Change, Override};
use crate::server::Liveness;

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

// Notifications to the service manager (sd_notify(3)): ready, reloading, stopping, and, with a
// watchdog, that all serving threads still run. Without a service manager they do nothing.

/// Notifies that clients are served with the settings read last.
pub fn notify_ready() {
    notify(&[Ready, Status("serving")]);
}

/// Notifies that the former settings stay in effect, because the new ones are invalid.
pub fn ready_as_before(failure: &str) {
    // A state is one line.
    let failure = failure.replace('\n', " ");
    notify(&[Ready, Status(&format!("serving; the settings stay as they were: {failure}"))]);
}

/// Notifies that a reload begins. Since systemd 253 the time identifies the reload.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[Reloading, now]),
        Err(error) => {
            warn!("the service manager is not notified of this reload, for want of a time: {error}")
        }
    }
}

/// Notifies that the proxy drains.
pub fn notify_stopping() {
    notify(&[Stopping, Status("finishing the requests under way")]);
}

/// Notifies the watchdog three times in its interval, as long as every worker thread responds. It
/// must stop if they hang: a thread of its own would go on notifying for a proxy that serves no
/// client.
pub async fn watchdog(liveness: Liveness) {
    let Some(timeout) = sd_notify::watchdog_enabled() else { return };
    let interval = timeout / 3;
    loop {
        sleep(interval).await;
        match liveness.silent(interval).await {
            None => notify(&[Watchdog]),
            Some(thread) => error!("{thread} hangs; without it the service manager ends the proxy"),
        }
    }
}

fn notify(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager cannot be notified ($NOTIFY_SOCKET): {error}");
    }
}

// Sockets inherited from the service manager (sd_listen_fds(3)): they outlive the process, so that
// a restart refuses no connection. Their names (`FileDescriptorName=`, systemd.socket(5)) tell what
// they are for: `admin` for the operator, `transparent` for connections that are redirected, and any
// other for clients of the proxy.

/// Their source, as error messages name it.
const VARIABLE: &str = "$LISTEN_FDS";

/// The inherited sockets; empty without a service manager.
#[derive(Debug, Default)]
pub struct Sockets {
    pub proxy: Vec<TcpListener>,
    pub transparent: Vec<TcpListener>,
    pub admin: Option<TcpListener>,
}

impl Sockets {
    /// Takes them; a second call finds none.
    pub fn take() -> Result<Self, Failure> {
        let names = environment::variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let (mut inherited, mut sockets) = (ListenFd::from_env(), Self::default());
        for number in 0..inherited.len() {
            let name = names.next().unwrap_or_default();
            let socket = inherited
                .take_tcp_listener(number)
                .map_err(|error| {
                    anyhow::anyhow!("the socket \"{name}\" of {VARIABLE} cannot be used: {error}")
                })
                .or_exit(Exit::Unavailable)?;
            match name {
                "admin" => sockets.admin = socket,
                "transparent" => sockets.transparent.extend(socket),
                _ => sockets.proxy.extend(socket),
            }
        }
        Ok(sockets)
    }

    /// Puts their addresses in the place of those that are set: they are checked like others, and
    /// changes in the file are ignored.
    pub fn overrides(&self) -> Vec<Override> {
        let address =
            |socket: &TcpListener| socket.local_addr().ok().as_ref().map(SocketAddr::to_string);
        let list = |key: &'static str, sockets: &[TcpListener]| {
            let addresses: Vec<_> = sockets.iter().filter_map(address).collect();
            (!addresses.is_empty()).then_some((key, Change::SetList(addresses)))
        };
        let proxy = list("listen.proxy", &self.proxy);
        let transparent = list("listen.transparent", &self.transparent);
        let admin =
            self.admin.as_ref().and_then(address).map(|it| ("listen.admin", Change::Set(it)));
        proxy
            .into_iter()
            .chain(transparent)
            .chain(admin)
            .map(|(key, change)| Override { key: key.into(), change, flag: VARIABLE })
            .collect()
    }
}
