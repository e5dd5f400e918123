//! `courtesy serve`: runs the proxy until a signal stops it.

mod args;
mod manager;
mod reload;
mod replicas;
mod signals;
mod sockets;
mod watch;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use tracing::{info, warn};

use super::exit::{Exit, Failure, OrExit};
use super::resources::Resources;
use super::{environment, logging};
use crate::admin::control::Socket;
use crate::admin::{Admin, Listener, RunFile, panics, run_file};
use crate::audit::How;
use crate::config::{Loaded, Settings};
use crate::proxy::OriginalDestination;
use crate::runtime::clock::{Clock, SystemClock};
use crate::server::{self, Listeners, Server, build_prepared, prepare};
pub use args::ServeArgs;
use reload::{Reloader, Why, log_ca};
use signals::{Asked, Signals};
use sockets::Sockets;
use watch::Watch;

/// Runs `courtesy serve`.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    // Before anything that takes time: until then a HUP ends the process.
    let mut signals = Signals::listen()?;
    let sockets = Sockets::take()?;
    let overrides = sockets.overrides();
    let loaded = args.load(&overrides)?;
    let in_effect = loaded.effective();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let notices = loaded.notices(clock.wall());
    let Loaded { settings, file, .. } = loaded;
    let level = logging::init(&settings.log);
    panics::watch();
    Resources::claim();
    for notice in notices {
        warn!("{notice}");
    }
    let ca = reload::ca(&settings);
    if environment::is_set("SSL_CERT_FILE") {
        // Set to make clients trust us, it is also where the system's roots are then looked for.
        warn!(
            "SSL_CERT_FILE is set: origins' certificates are verified against the roots in that file"
        );
    }
    let started = clock.wall();
    let watch = Watch::over(reload::files(&settings, file, &ca));
    let prepared = prepare(&settings, &ca, started)?;
    let (listeners, admin) = listen(sockets, &settings)?;
    let mut own = listeners.addresses();
    own.extend(admin.as_ref().map(Listener::address));
    let components = build_prepared(&settings, prepared, own, ca, Arc::clone(&clock))?;
    components.reloads.hold(in_effect, &[]);
    info!(
        state_dir = %settings.state_dir.display(), profile = settings.robots.profile.as_str(),
        workers = components.workers, "courtesy {}", env!("CARGO_PKG_VERSION")
    );
    replicas::warn_without_engine(&settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = Socket::bind(&settings.state_dir)
        .inspect_err(|error| warn!("`courtesy store` cannot ask this proxy: {error}"))
        .ok();
    let admin = Admin::start(admin, socket, components.watched(started))?;
    let run_file = write_run_file(&settings, admin.address());
    // From the first connection on, a signal drains.
    signals.serving();
    components.lifecycle.started(How::Serve);
    let server = Server::start(listeners, &components).inspect_err(|error| {
        components.lifecycle.stopped(&format!("it could not be served: {error}"))
    })?;
    server::announce(&server);
    log_ca(&components.leaves, "for HTTPS, clients have to trust this CA");
    // The log has it from the start, if it is so.
    let _ = components.leaves.refusal();
    let watchdog = runtime.spawn(manager::watchdog(server.liveness()));
    manager::ready();
    let (clock, components, waiting) = (&*clock, &components, Vec::new());
    let reloader =
        Reloader { args, overrides, clock, components, server: &server, level, watch, waiting };
    let name = runtime.block_on(obey(&mut signals, reloader));
    info!(
        "{name}: finishing the requests under way, at most {:?}",
        components.settings().limits.drain_timeout
    );
    manager::stopping();
    watchdog.abort();
    admin.note_draining();
    server.stop();
    components.lifecycle.stopped(name);
    let closed = components.audit.close();
    drop(admin);
    drop(run_file);
    closed.or_exit(Exit::InputOutput)?;
    info!("stopped");
    Ok(Exit::Done)
}

/// Binds the sockets that were not inherited.
fn listen(sockets: Sockets, settings: &Settings) -> Result<(Listeners, Option<Listener>), Failure> {
    let listeners = if sockets.proxy.is_empty() {
        Listeners::bind(&settings.listen.proxy)
            .map_err(|error| not_bound(error.source.kind(), error))?
    } else {
        Listeners::inherited(sockets.proxy)?
    };
    let redirected = OriginalDestination::Redirected;
    let transparent = if sockets.transparent.is_empty() {
        Listeners::bind_transparent(&settings.listen.transparent, redirected)
            .map_err(|error| not_bound(error.source.kind(), error))?
    } else {
        Listeners::inherited_transparent(sockets.transparent, redirected)?
    };
    let listeners = listeners.with(transparent);
    let admin = match sockets.admin {
        Some(socket) => Some(Listener::inherited(socket)?),
        None => {
            let bound = settings.listen.admin.address().map(Listener::bind).transpose();
            bound.map_err(|error| not_bound(error.source.kind(), error))?
        }
    };
    Ok((listeners, admin))
}

/// The exit code: an address in use is unavailable; one that needs a privilege is a matter of
/// permission.
fn not_bound(kind: ErrorKind, error: impl Into<anyhow::Error>) -> Failure {
    let exit =
        if kind == ErrorKind::PermissionDenied { Exit::Permission } else { Exit::Unavailable };
    Failure { exit, error: error.into() }
}

/// Reloads the settings on a signal or when a file has changed; returns the name of the signal that
/// stops the proxy.
async fn obey(signals: &mut Signals, mut reloader: Reloader<'_>) -> &'static str {
    loop {
        let asked = tokio::select! {
            asked = signals.next() => Some(asked),
            () = reloader.watch.changed() => None,
        };
        match asked {
            Some(Asked::End(name)) => return name,
            Some(Asked::Reload) => {
                reloader.watch.settled().await;
                reloader.reload(Why::Signal);
                reloader.components.audit.reopen();
            }
            None => reloader.reload(Why::File),
        }
    }
}

/// Writes the probe file for `courtesy health`; the proxy serves without it, too.
fn write_run_file(settings: &Settings, admin: Option<SocketAddr>) -> Option<run_file::Written> {
    let state_dir = &settings.state_dir;
    RunFile::of_this_process(admin, settings.admin.token_file.as_deref())
        .write(state_dir)
        .inspect_err(|error| {
            let file = run_file::path(state_dir);
            warn!(
                "{} cannot be written, so `courtesy health` asks where the settings say: {error}",
                file.display()
            );
        })
        .ok()
}
