//! `courtesy serve`: the proxy, until it is told to stop.

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use super::exit::{Exit, Failure, OrExit};
use super::flags::{ConfigFlags, ServeFlags};
use super::{environment, logging};
use crate::admin::control::Socket;
use crate::admin::{Admin, Listener};
use crate::ca::Leaves;
use crate::clock::{Clock, SystemClock};
use crate::server::{self, Listeners, Server, SetupError, assemble};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy serve                                    listen on 127.0.0.1:3128
  courtesy serve --listen 127.0.0.1:0 --workers 1   any free port, one thread
  http_proxy=http://127.0.0.1:3128 wget -r http://example.com/
  curl http://127.0.0.1:3129/readyz                 is it well? and /healthz, /metrics (--admin)

Denied requests are recorded in audit/denials.jsonl under the state directory. TERM or INT lets
requests under way finish (limits.drain_timeout); a second one ends at once. HUP takes up another
CA, and opens denials.jsonl anew, as logrotate wants it; logrotate must keep all it rotates
(rotate -1), because a file that it removes is missing from the chain: audit.retain is for that.

For HTTPS, clients have to trust the CA that is made at first start: see `courtesy ca install-help`.")]
pub struct ServeArgs {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    serve: ServeFlags,
}

pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    let settings = args.config.load(Some(&args.serve))?.settings;
    logging::init(&settings.log);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for notice in settings.notices(clock.wall()) {
        warn!("{notice}");
    }
    let ca = settings.ca(environment::credentials_directory().as_deref());
    if environment::is_set("SSL_CERT_FILE") {
        // Set to make clients trust us, it is also where the system's roots are then looked for.
        warn!("SSL_CERT_FILE is set: origins' certificates are verified against the roots in that file");
    }
    let started = clock.wall();
    let listeners = Listeners::bind(&settings.listen.proxy).or_exit(Exit::Unavailable)?;
    let admin = settings.listen.admin.address().map(Listener::bind).transpose().or_exit(Exit::Unavailable)?;
    let mut own = listeners.addresses();
    own.extend(admin.as_ref().map(Listener::address));
    let assembly = assemble(&settings, own, ca, clock)?;
    info!(
        state_dir = %settings.state_dir.display(), profile = settings.robots.profile.as_str(),
        workers = assembly.workers, "courtesy {}", env!("CARGO_PKG_VERSION")
    );
    // Before the listeners are served: from the first connection on, a signal drains.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let socket = Socket::bind(&settings.state_dir)
        .inspect_err(|error| warn!("`courtesy store` cannot ask this proxy: {error}"))
        .ok();
    let admin = Admin::start(admin, socket, assembly.watched(started))?;
    let server = Server::start(listeners, &assembly)?;
    server::announce(&server);
    say_ca(&assembly.leaves, "for HTTPS, clients have to trust this CA");
    let name = runtime.block_on(signals.end(|| {
        reload(&assembly.leaves);
        assembly.audit.reopen();
    }));
    info!("{name}: finishing the requests under way, at most {:?}", settings.limits.drain_timeout);
    // A second signal does not wait for the drain.
    std::thread::spawn(move || {
        runtime.block_on(signals.end(|| ()));
        std::process::exit(130);
    });
    admin.note_draining();
    server.stop();
    drop(admin);
    info!("stopped");
    Ok(Exit::Done)
}

/// Takes up a CA that `courtesy ca rotate` has made. With another that cannot be used, the one in
/// use goes on signing.
fn reload(leaves: &Leaves) {
    match leaves.reload() {
        Ok(true) => say_ca(leaves, "another CA signs from now on"),
        Ok(false) => info!("SIGHUP: the CA is the same"),
        Err(error) => error!("SIGHUP: the CA stays as it was: {error}"),
    }
}

fn say_ca(leaves: &Leaves, what: &str) {
    let authority = leaves.authority();
    let certificate = authority.certificate();
    info!(
        subject = certificate.subject(),
        sha256 = certificate.fingerprint(),
        file = %authority.file().display(),
        "{what}"
    );
}

/// The signals that the proxy answers.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that ends the proxy; `reload` answers each HUP before that.
    async fn end(&mut self, reload: impl Fn()) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => reload(),
            }
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Audit(error) => error.into(),
            SetupError::Ca(error) => error.into(),
            SetupError::Store(error) => error.into(),
            SetupError::Users(error) => error.into(),
            SetupError::Roots(error) => Self { exit: Exit::Configuration, error: error.into() },
        }
    }
}
