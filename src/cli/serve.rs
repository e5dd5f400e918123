//! `courtesy serve`: the proxy, until it is told to stop.

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::exit::{Exit, Failure, OrExit};
use super::flags::{ConfigFlags, ServeFlags};
use super::logging;
use crate::clock::{Clock, SystemClock};
use crate::server::{self, Listeners, Server, SetupError, assemble};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy serve                                    listen on 127.0.0.1:3128
  courtesy serve --listen 127.0.0.1:0 --workers 1   any free port, one thread
  http_proxy=http://127.0.0.1:3128 wget -r http://example.com/

Denied requests are recorded in audit/denials.jsonl under the state directory. TERM or INT lets
requests under way finish (limits.drain_timeout); a second one ends at once.")]
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
    let listeners = Listeners::bind(&settings.listen.proxy).or_exit(Exit::Unavailable)?;
    let assembly = assemble(&settings, listeners.addresses(), clock)?;
    info!(
        state_dir = %settings.state_dir.display(), profile = settings.robots.profile.as_str(),
        workers = assembly.workers, "courtesy {}", env!("CARGO_PKG_VERSION")
    );
    // Before the listeners are served: from the first connection on, a signal drains.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let server = Server::start(listeners, &assembly)?;
    server::announce(&server);
    let name = runtime.block_on(signals.next());
    info!("{name}: finishing the requests under way, at most {:?}", settings.limits.drain_timeout);
    // A second signal does not wait for the drain.
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        std::process::exit(130);
    });
    server.stop();
    info!("stopped");
    Ok(Exit::Done)
}

/// The signals that end the proxy.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Audit(error) => error.into(),
            SetupError::Roots(error) => Self { exit: Exit::Configuration, error: error.into() },
        }
    }
}
