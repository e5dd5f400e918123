//! `courtesy serve`: runs the proxy until a signal stops it.

pub mod reload;
mod signals;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{info, warn};

use super::console;
use super::environment::{self, Rlimits};
use super::exit::{Exit, Failure, OrExit};
pub use super::flags::ServeArgs;
use super::logging::{self, Level};
use crate::admin::control::{self, ReloadReply, Running, Socket};
use crate::admin::{Admin, Listener, RunFile, parts};
use crate::audit::{CloseError, KeptClients, ReloadTrigger, StartMode};
use crate::config::{Loaded, Settings};
use crate::proxy::RedirectKind;
use crate::runtime::clock::{Clock, SystemClock};
use crate::server::{self, Components, Listeners, Server, build_prepared, prepare};
use reload::{FileWatch, Reloader, log_ca};
use signals::{SignalAction, Signals, Sockets};

/// Runs `courtesy serve`.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    // Before anything that takes time: until then a HUP ends the process.
    let mut signals = Signals::listen()?;
    let sockets = Sockets::take()?;
    let overrides = sockets.overrides();
    let loaded = args.load(&overrides)?;
    let in_effect = loaded.effective();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let level = init_process(&loaded, &*clock);
    let Loaded { settings, file, .. } = loaded;
    let ca = reload::ca(&settings);
    let started = clock.wall();
    let watch = FileWatch::new(reload::files(&settings, file.clone(), &ca));
    let prepared = prepare(&settings, &ca, started)?;
    let (listeners, admin) = listen(sockets, &settings)?;
    let mut own = listeners.addresses();
    own.extend(admin.as_ref().map(Listener::address));
    let components = build_prepared(&settings, prepared, own, ca, Arc::clone(&clock))?;
    components.reloads.hold(in_effect, &[]);
    log_start(&settings, file.as_deref(), &components);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (reloads, asked) = mpsc::channel(1);
    let socket = Socket::bind(&settings.state_dir, reloads.clone())
        .inspect_err(|error| {
            warn!("`courtesy reload` and `courtesy store` cannot ask this proxy: {error}");
        })
        .ok();
    let parts = Arc::new(components.monitored_parts(started));
    let running = Running::new(&parts, reloads);
    let console =
        console::of_proxy(&components, &parts, running, admin.as_ref(), args.state().clone());
    let admin = Admin::start(admin, socket, parts, console)?;
    let run_file = write_run_file(&settings, admin.address());
    // From the first connection on, a signal drains.
    signals.note_serving();
    let server = start_server(listeners, &components)?;
    let watchdog = runtime.spawn(signals::watchdog(server.liveness()));
    signals::notify_ready();
    let (clock, components, waiting) = (&*clock, &components, Vec::new());
    let reloader =
        Reloader { args, overrides, clock, components, server: &server, level, watch, waiting };
    let signal = runtime.block_on(run_until_stopped(&mut signals, asked, reloader));
    signals::notify_stopping();
    admin.note_draining();
    runtime.block_on(delay_drain(signal, components.settings().limits.drain_delay));
    watchdog.abort();
    let witness = server.witness();
    let closed = drain(signal, server, components);
    if let Some(witness) = witness.filter(|_| !matches!(closed, Err(CloseError::NoAnswer))) {
        runtime.block_on(witness.send_last());
    }
    drop(admin);
    drop(run_file);
    closed.or_exit(Exit::InputOutput)?;
    info!("stopped");
    Ok(Exit::Done)
}

/// Begins to log, raises the limits of the process, and logs what the settings and the environment
/// give cause to.
fn init_process(loaded: &Loaded, clock: &dyn Clock) -> Option<Level> {
    let notices = loaded.notices(clock.wall()).into_iter().chain(replica_notice(&loaded.settings));
    let level = logging::init(&loaded.settings.log);
    parts::watch_panics();
    Rlimits::raise();
    for notice in notices {
        warn!("{notice}");
    }
    if environment::is_set("SSL_CERT_FILE") {
        // Set to make clients trust us, it is also where the system's roots are then looked for.
        warn!(
            "SSL_CERT_FILE is set: origins' certificates are verified against the roots in that file"
        );
    }
    level
}

fn log_start(settings: &Settings, file: Option<&Path>, components: &Components) {
    info!(
        config = file.map(|file| display(file.display())),
        state_dir = %settings.state_dir.display(), profile = settings.robots.profile.as_str(),
        workers = components.workers, "courtesy {}", env!("CARGO_PKG_VERSION")
    );
    let audit = &settings.audit;
    if audit.retain.0.is_none() && audit.clients == KeptClients::Plain {
        info!(
            "the denial log keeps the addresses and names of clients without end (audit.retain, audit.clients)"
        );
    }
}

/// Records the start, and serves clients.
fn start_server(listeners: Listeners, components: &Components) -> Result<Server, Failure> {
    components.lifecycle.started(StartMode::Serve);
    let server = Server::start(listeners, components).inspect_err(|error| {
        components.lifecycle.stopped(&format!("it could not be served: {error}"))
    })?;
    server::announce(&server);
    log_ca(&components.leaves, "for HTTPS, clients have to trust this CA");
    // Logs a CA that is not valid.
    let _ = components.leaves.refusal();
    Ok(server)
}

/// Serves as before while those who send clients here learn that the proxy is not ready any more.
async fn delay_drain(signal: &str, delay: Duration) {
    if !delay.is_zero() {
        info!("{signal}: not ready any more; clients are served as before for {delay:?}");
        sleep(delay).await;
    }
}

/// Finishes the requests under way, and closes the log.
fn drain(signal: &str, server: Server, components: &Components) -> Result<(), CloseError> {
    info!(
        "{signal}: finishing the requests under way, at most {:?}",
        components.settings().limits.drain_timeout
    );
    let deadline = server.stop();
    components.lifecycle.stopped(signal);
    components.audit.close_by(deadline)
}

/// Binds the sockets that were not inherited.
fn listen(sockets: Sockets, settings: &Settings) -> Result<(Listeners, Option<Listener>), Failure> {
    let listeners = if sockets.proxy.is_empty() {
        Listeners::bind(&settings.listen.proxy)
            .map_err(|error| not_bound(error.source.kind(), error))?
    } else {
        Listeners::inherited(sockets.proxy)?
    };
    let redirect = RedirectKind::Nat;
    let transparent = if sockets.transparent.is_empty() {
        Listeners::bind_transparent(&settings.listen.transparent, redirect)
            .map_err(|error| not_bound(error.source.kind(), error))?
    } else {
        Listeners::inherited_transparent(sockets.transparent, redirect)?
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

/// Reloads the settings on a signal, when a command asks for it, or when a file has changed; returns the
/// name of the signal that stops the proxy.
async fn run_until_stopped(
    signals: &mut Signals,
    mut asked: mpsc::Receiver<ReloadReply>,
    mut reloader: Reloader<'_>,
) -> &'static str {
    loop {
        let (why, reply) = tokio::select! {
            action = signals.next() => match action {
                SignalAction::Stop(name) => return name,
                SignalAction::Reload => (ReloadTrigger::Hup, None),
            },
            Some(reply) = asked.recv() => (ReloadTrigger::Command, Some(reply)),
            () = reloader.watch.changed() => (ReloadTrigger::File, None),
        };
        if why != ReloadTrigger::File {
            reloader.watch.settled().await;
        }
        let report = reloader.reload(why);
        // Who asked may have left.
        drop(reply.map(|reply| reply.send(report)));
    }
}

/// Writes the probe file for `courtesy health`; the proxy serves without it, too.
fn write_run_file(settings: &Settings, admin: Option<SocketAddr>) -> Option<control::Written> {
    let state_dir = &settings.state_dir;
    RunFile::of_this_process(admin, settings.admin.token_file.as_deref())
        .write(state_dir)
        .inspect_err(|error| {
            let file = control::run_file_path(state_dir);
            warn!(
                "{} cannot be written, so `courtesy health` asks where the settings say: {error}",
                file.display()
            );
        })
        .ok()
}

/// The letters of the random parts of names (`rand.SafeEncodeString` of Kubernetes).
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Of the part that all pods of a Deployment have in common: a number of 32 bits, encoded.
const HASH_BYTES: std::ops::RangeInclusive<usize> = 6..=10;
/// Of the part that differs.
const RANDOM_BYTES: usize = 5;

/// What a pod gives cause to warn of that looks replicated: without an engine each has a pace of its own,
/// and by one name for all of them two live ones look like one.
pub fn replica_notice(settings: &Settings) -> Option<String> {
    let host = environment::variable("HOSTNAME").filter(|host| is_of_several(host))?;
    if !environment::is_set("KUBERNETES_SERVICE_HOST") {
        return None;
    }
    let engine = &settings.engine;
    if !engine.is_set() {
        return Some(
            "this pod looks like one of several, and no shared engine is set (engine.url): each keeps \
             a pace of its own, so a site gets as many times the pace as there are pods"
                .into(),
        );
    }
    let name = engine.name.as_deref().filter(|name| !is_of_pod(name, &host))?;
    Some(format!(
        "this pod looks like one of several, and all have the engine.name {name} if their template or \
         ConfigMap sets it: leave it out, or take the pod's own (metadata.name)"
    ))
}

/// Whether a name is that of this pod alone: it has the pod's in it, or what tells it from the others.
fn is_of_pod(name: &str, host: &str) -> bool {
    let last = host.rfind('-').map(|at| &host[at..]);
    name.contains(host) || last.is_some_and(|last| name.ends_with(last))
}

/// Whether a host is named as a pod of a Deployment (`NAME-HASH-RANDOM`) or of a StatefulSet
/// (`NAME-NUMBER`).
fn is_of_several(host: &str) -> bool {
    let is_random = |part: &str| part.bytes().all(|byte| LETTERS.contains(&byte));
    let mut parts = host.rsplit('-');
    let (Some(last), Some(before)) = (parts.next(), parts.next()) else { return false };
    let is_ordinal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_deployment = parts.next().is_some()
        && last.len() == RANDOM_BYTES
        && is_random(last)
        && HASH_BYTES.contains(&before.len())
        && is_random(before);
    !before.is_empty() && (is_ordinal || is_of_deployment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_deployments_and_stateful_sets_are_named_so() {
        for (host, is_so) in [
            ("courtesy-6d4cf56db6-x7k2p", true),
            ("my-crawler-7f9c8b5d4-zq4wv", true),
            ("courtesy-0", true),
            ("courtesy-12", true),
            // Of a DaemonSet or a Job, or of no pod.
            ("courtesy-x7k2p", false),
            ("courtesy", false),
            ("web-server-eu", false),
            ("a-b-c", false),
            ("-0", false),
            ("0", false),
            ("", false),
        ] {
            assert_eq!(is_of_several(host), is_so, "{host}");
        }
    }

    #[test]
    fn a_name_that_all_pods_have_is_told_from_that_of_one() {
        for (name, host, is_so) in [
            ("crawler", "courtesy-0", false),
            ("courtesy", "courtesy-0", false),
            ("courtesy-0", "courtesy-0", true),
            ("eu/courtesy-0.crawl", "courtesy-0", true),
            ("proxy-0", "courtesy-0", true),
            ("proxy-0", "courtesy-1", false),
            ("crawler-6d4cf56db6", "courtesy-6d4cf56db6-x7k2p", false),
            ("crawler-x7k2p", "courtesy-6d4cf56db6-x7k2p", true),
        ] {
            assert_eq!(is_of_pod(name, host), is_so, "{name} in {host}");
        }
    }
}
