//! `courtesy run`: a command with a proxy of its own. The command has the terminal, the environment
//! that leads its requests here, and the last word: `run` ends as it does.

mod child;
mod connections;
mod old;
mod summary;

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use tracing::warn;

use super::clients;
use super::exit::{Exit, Failure, OrExit};
use super::flags::ConfigFlags;
use super::logging;
use super::no_proxy::NoProxyFlags;
use super::private::PrivateProxy;
use super::resources::Resources;
use crate::admin::panics;
use crate::audit;
use crate::config::{LogLevel, Settings};
use crate::runtime::clock::{Clock, SystemClock};
use summary::{Form, Summary};

/// How long requests that a command left behind may go on after it has ended.
const LEFT_BEHIND_MAX: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy run wget -r -l2 http://example.com/
  courtesy run --allow-private --proxy-loopback -- python3 crawl.py http://localhost:8000/
  courtesy run --summary json --summary-file run.json -- scrapy crawl news

The command is started with the variables of `courtesy env`; a client that follows none of them
goes around the proxy. The summary warns when no request came, and when a process of the command
was seen to have a TCP connection of its own (a look some times a second: short ones may escape).
Signals are passed on, and courtesy
ends with the command's own code: 128 and the signal's number when a signal ended it, 127 when
there is no such command, 126 when it cannot be executed.

Loopback (localhost, 127.0.0.0/8) is left out of the proxy: a program's own services, as the
driver of a browser, are not a crawl. --proxy-loopback sends it to the proxy, too, which reaches it
with --allow-private: both are needed to test a site on this machine.

Each run keeps its records in runs/ID/audit under the state directory, whatever audit.dir says, so
that it works beside `courtesy serve`. Runs older than thirty days are removed when another begins;
with --keep N, all but the last N are, however old. One that is still going, or began within the
last minute, stays.")]
pub struct RunArgs {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
    /// The sum of the run, on standard error when the command has ended
    #[arg(long, value_enum, default_value_t)]
    summary: Form,
    /// Write the summary to FILE instead
    #[arg(long, value_name = "FILE")]
    summary_file: Option<PathBuf>,
    #[command(flatten)]
    no_proxy: NoProxyFlags,
    /// Keep the records of the last N runs, this one among them [default: those of thirty days]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Say each decision as it is made; otherwise, only warnings are said
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let mut settings = args.config.load(None)?.settings;
    if !args.verbose && settings.log.level != LogLevel::Error {
        // The terminal is the command's.
        settings.log.level = LogLevel::Warn;
    }
    if args.verbose {
        logging::init_with_decisions(&settings.log)
    } else {
        logging::init(&settings.log)
    };
    panics::watch();
    let resources = Resources::claim();
    let now = SystemClock.wall();
    for notice in settings.notices(now) {
        warn!("{notice}");
    }
    settings.limits.drain_timeout = settings.limits.drain_timeout.min(LEFT_BEHIND_MAX);
    settings.under_run = true;
    let id = audit::new_id(now);
    let records = run_dir(&settings, &id)?;
    let old = remove_old(&settings, &id, args.keep);
    let proxy = PrivateProxy::start(settings.clone(), &records)?;
    let way = clients::way(proxy.address, args.no_proxy.list(), &settings)?;
    let ended = child::run(&args.command, &clients::variables(&way), &resources);
    let account = proxy.stop();
    if let Some(old) = old {
        // It has its bound, and has had the time of the command for it. If it has panicked, that was said.
        let _ = old.join();
    }
    // Without a command there is nothing to sum up.
    let (code, connections) = ended?;
    let (flags, no_proxy) = (args.config.state.again(), args.no_proxy.list());
    say(&Summary { run: id, flags, code, no_proxy, connections, account }, args)?;
    Ok(Exit::Command(code))
}

/// Beside the command, which does not wait for it.
fn remove_old(settings: &Settings, id: &str, keep: Option<usize>) -> Option<JoinHandle<()>> {
    let (runs, id) = (settings.state_dir.join("runs"), id.to_owned());
    let remove = move || old::remove(&runs, &id, keep, SystemClock.wall());
    let thread = std::thread::Builder::new().name("old runs".into()).spawn(remove);
    thread.map_err(|error| warn!("old runs are not removed: {error}")).ok()
}

/// A directory of its own: the records of one run are together, and no lock is shared.
fn run_dir(settings: &Settings, id: &str) -> Result<PathBuf, Failure> {
    let dir = settings.state_dir.join("runs").join(id);
    create_private(&dir)
        .map_err(|error| anyhow::anyhow!("cannot make {}: {error}", dir.display()))
        .or_exit(Exit::InputOutput)?;
    Ok(dir.join("audit"))
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn say(summary: &Summary, args: &RunArgs) -> Result<(), Failure> {
    let text = summary.print(args.summary);
    match &args.summary_file {
        Some(file) => std::fs::write(file, text)
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", file.display()))
            .or_exit(Exit::InputOutput),
        // Nobody may be listening any more, and the command's own code is what counts.
        None => {
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            Ok(())
        }
    }
}
