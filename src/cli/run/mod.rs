//! `courtesy run`: runs a command with a proxy of its own. The command has the terminal and an
//! environment that sends its requests to the proxy; `run` ends with the command's exit code.

mod child;
mod direct_connections;
mod live;
pub mod sealed;
mod summary;

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use tokio::process::Command;
use tracing::warn;

use super::environment::{NoProxyFlags, Rlimits};
use super::ephemeral_proxy::EphemeralProxy;
use super::exit::{Exit, Failure, OrExit};
use super::flags::{ConfigFlags, PolicyFlags};
use super::runs::{OpenRun, RunSums, begun, names};
use super::temporary_dir::{self, Purpose, TemporaryDir};
use super::{clients, logging};
use crate::admin::parts;
use crate::audit::{self, is_written};
use crate::config::{LogLevel, Settings};
use crate::engine;
use crate::proxy::MissingFile;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;
use child::RunOutcome;
use direct_connections::Watch;
use live::{Live, Manner, ProgressWhen};
use sealed::SealedFlags;
use summary::{Form, Summary};

/// How long requests that a command left behind may go on after it has ended.
const LEFT_BEHIND_MAX: Duration = Duration::from_secs(5);

/// The arguments of `courtesy run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy run wget -r -l2 http://example.com/
  courtesy run --allow-private --proxy-loopback -- python3 crawl.py http://localhost:8000/
  courtesy run --sealed -- ./crawler https://example.com/
  courtesy run --summary json --summary-file run.json -- scrapy crawl news

The command is started with the variables of `courtesy env`; a client that follows none of them
bypasses the proxy, unless the run is sealed (--sealed). The summary warns when no request came,
and when a process of the command had a TCP connection that bypassed the proxy. Connections are
sampled a few times a second, so that short ones may be missed.

--sealed gives the command a network of its own (Linux namespaces, without root) in which there is
nothing but the proxy: connections to ports 80, 443, 8080 and 8443 of any host are served by it,
names are answered by it, and everything else is refused and told at the end. Files of certificate
authorities have the proxy's added, and sockets of services such as D-Bus and Docker are hidden.
Processes that the command leaves behind end with it. Where namespaces are not allowed, the exit
code is 69 and the command is not run.

While it runs, what is new is said on standard error, a line each: the first slow-down of a site,
each time that a site is left alone, the first denial of each rule, the first connection of each
program that goes around the proxy; on a terminal also, now and then, how many requests wait. With
--summary json they are JSON, one object a line, the last of them the summary.

Signals are passed on to the command. The exit code is the command's own: 128 plus the number of the
signal that ended it, 127 when there is no such command, 126 when it cannot be executed.

Loopback (localhost, 127.0.0.0/8) bypasses the proxy: a program's own services, such as the driver
of a browser, are not a crawl. --proxy-loopback sends loopback to the proxy, too, and
--allow-private lets the proxy contact it: both are needed to test a site on this machine.

Each run keeps its records in runs/ID/audit in the state directory, whatever audit.dir is set to, so
that a run works beside `courtesy serve`. A new run removes those older than thirty days, or with
--keep N all but the last N. A run that is under way, or began within the last minute, is kept.")]
pub struct RunArgs {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Form of the summary, which is written to standard error when the command has ended
    #[arg(long, value_enum, default_value_t)]
    summary: Form,
    /// Write the summary to FILE instead
    #[arg(long, value_name = "FILE")]
    summary_file: Option<PathBuf>,
    #[command(flatten)]
    no_proxy: NoProxyFlags,
    #[command(flatten)]
    sealed: SealedFlags,
    /// Keep the records of the last N runs, including this one [default: those of thirty days]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Say each decision as it is made, and log more than warnings
    #[arg(long, short)]
    verbose: bool,
    /// Say nothing while the command runs; the summary stays (--summary)
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Whether to say how many requests wait, and for how long: where standard error is a terminal,
    /// always, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    progress: ProgressWhen,
    #[command(flatten)]
    policy: PolicyFlags,
    #[command(flatten)]
    config: ConfigFlags,
}

impl RunArgs {
    /// How the run speaks.
    fn manner(&self) -> Manner {
        Manner {
            form: self.summary,
            is_quiet: self.quiet,
            is_verbose: self.verbose,
            progress: self.progress,
            flags: self.config.state.again(),
        }
    }
}

/// The longest wait of a request, unless the settings have another than the default: a client of the
/// command knows best how long it waits.
const WITHOUT_END: Duration = Duration::from_secs(u32::MAX as u64);

/// Runs `courtesy run`.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let loaded = args.config.load_anywhere(&args.policy.overrides())?;
    let is_asked = loaded.is_flagged("pace.max_wait");
    let mut settings = loaded.settings;
    // A file of all settings says the default, too.
    if !is_asked && settings.pace.max_wait == Settings::default().pace.max_wait {
        settings.pace.max_wait = WITHOUT_END;
    }
    if !args.verbose && settings.log.level != LogLevel::Error {
        // The terminal belongs to the command.
        settings.log.level = LogLevel::Warn;
    }
    let manner = args.manner();
    let channel = manner.channel();
    match &channel {
        Some((decisions, _)) if args.verbose => {
            logging::init_with_decisions(&settings.log, decisions.clone())
        }
        _ => logging::init(&settings.log),
    };
    parts::watch_panics();
    let rlimits = Rlimits::raise();
    let now = SystemClock.wall();
    for notice in settings.notices(now) {
        warn!("{notice}");
    }
    settings.limits.drain_timeout = settings.limits.drain_timeout.min(LEFT_BEHIND_MAX);
    settings.under_run = true;
    let id = audit::new_id(now);
    let (records, state) = run_dir(&mut settings, &id)?;
    // What is among the temporary files goes with the run.
    let dir = records.parent().filter(|_| state.is_none());
    let missing = dir.map(|dir| dir.join("missing.tsv"));
    let missing = MissingFile::new(missing, settings.audit.redact_query);
    let open = dir.and_then(|dir| OpenRun::begin(dir, &id, &args.command, args.sealed.sealed));
    let mut live = Live::begin(manner, channel, missing)?;
    let old = remove_old(&settings, &id, args.keep);
    let outcome = if args.sealed.sealed {
        let command = (&args.sealed, &args.command[..]);
        let no_proxy = args.no_proxy.list();
        sealed::run(command, no_proxy, (settings, &records), &live.observer, &rlimits)
    } else {
        run_with_variables(args, (&settings, &records), &live, &rlimits)
    };
    if let Some(old) = old {
        // It removes a limited number of runs, and had the time of the command. A panic was logged.
        let _ = old.join();
    }
    live.end();
    let seen = live.observer.report();
    let end = |code| open.iter().for_each(|open| open.end(code, RunSums::of(&seen)));
    let note = |failure: &Failure| end(failure.exit.code());
    let RunOutcome { ended, report, sealed } = outcome.inspect_err(note)?;
    // When the command did not start, there is nothing to summarize.
    let (code, connections) = ended.inspect_err(note)?;
    end(code);
    let (flags, no_proxy) = (args.config.state.again(), args.no_proxy.list());
    say(&Summary { run: id, flags, code, no_proxy, connections, sealed, report, seen }, args)?;
    Ok(Exit::Command(code))
}

/// Runs the command with the variables by which clients use the proxy.
fn run_with_variables(
    args: &RunArgs,
    (settings, records): (&Settings, &Path),
    live: &Live,
    rlimits: &Rlimits,
) -> Result<RunOutcome, Failure> {
    let proxy = EphemeralProxy::start(settings.clone(), records, Some(&live.observer))?;
    let (setup, _files) =
        clients::set_up_for_command(proxy.address, args.no_proxy.list(), settings)?;
    let (program, arguments) = args.command.split_first().expect("the command line has one");
    let variables = clients::variables(&setup);
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|it| (it.name, &it.value)));
    let ended = child::start(command, rlimits)
        .and_then(|running| running.wait(Some(Watch::new(live.events()))));
    Ok(RunOutcome { ended, report: proxy.stop(), sealed: None })
}

/// Removes old runs in a thread, while the command runs.
fn remove_old(settings: &Settings, id: &str, keep: Option<usize>) -> Option<JoinHandle<()>> {
    let (runs, id) = (settings.state_dir.join("runs"), id.to_owned());
    let remove = move || {
        temporary_dir::remove_abandoned();
        remove_old_runs(&runs, &id, keep, SystemClock.wall());
    };
    let thread = std::thread::Builder::new().name("old runs".into()).spawn(remove);
    thread.map_err(|error| warn!("old runs are not removed: {error}")).ok()
}

/// The audit directory of this run: its own, so that the runs share no lock. Where the state directory
/// cannot be written, the state is among the temporary files, as long as the run lasts.
fn run_dir(settings: &mut Settings, id: &str) -> Result<(PathBuf, Option<TemporaryDir>), Failure> {
    let run = |settings: &Settings| settings.state_dir.join("runs").join(id);
    let problem = if settings.state_dir.as_os_str().is_empty() {
        anyhow::anyhow!("there is no home directory")
    } else if let Err(error) = create_private(&run(settings)) {
        not_made(&run(settings), &error)
    } else {
        return Ok((run(settings).join("audit"), None));
    };
    let Ok(state) = TemporaryDir::new(Purpose::State) else {
        return Err(problem).or_exit(Exit::InputOutput);
    };
    warn!(
        "{problem}: the records of this run, and the authority that its command trusts, are not kept; \
         --state-dir names another directory"
    );
    settings.shared_dir = engine::shared_dir(&settings.state_dir, settings.runtime_dir.as_deref());
    state.path().clone_into(&mut settings.state_dir);
    create_private(&run(settings))
        .map_err(|error| not_made(&run(settings), &error))
        .or_exit(Exit::InputOutput)?;
    Ok((run(settings).join("audit"), Some(state)))
}

fn not_made(dir: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot make {}: {error}", dir.display())
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
        // Standard error may be closed, and the command's own code matters more.
        None => {
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            Ok(())
        }
    }
}

/// How long the records of a run are kept, unless `--keep` says how many are.
const RUN_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A younger run is never removed: it may be about to open its log.
const RUN_AGE_MIN: Duration = Duration::from_secs(60);

/// Old runs that the start of another removes at most.
const RUNS_REMOVED_AT_ONCE: usize = 100;

/// Prefix of a run's directory while it is removed: the next run finds by it what was not removed
/// completely.
const GOING: &str = ".going-";

/// Removes runs in the directory `runs`, except the new one, `own`: all but the last `keep`, including
/// `own`; without a number, those older than thirty days. A run under way is kept, and so is anything
/// that is no run. A failure is only a warning.
pub fn remove_old_runs(runs: &Path, own: &str, keep: Option<usize>, now: Timestamp) {
    let names = match names(runs) {
        Ok(names) => names,
        Err(error) => {
            return warn!(file = %runs.display(), "old runs cannot be looked for: {error}");
        }
    };
    let wanted = unwanted(names, own, keep, now);
    for name in wanted.iter().take(RUNS_REMOVED_AT_ONCE) {
        let dir = runs.join(name);
        if let Err(error) = remove_one(runs, name) {
            warn!(file = %dir.display(), "an old run cannot be removed: {error}");
        }
    }
}

/// The names to remove, oldest first: the identifiers sort by time.
fn unwanted(names: Vec<String>, own: &str, keep: Option<usize>, now: Timestamp) -> Vec<String> {
    let (going, mut runs): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with(GOING));
    runs.retain(|name| name != own && begun(name).is_some());
    runs.sort_unstable();
    let is_older =
        |name: &str, than: Duration| begun(name).is_some_and(|begun| now.since(begun) > than);
    let kept = keep.map_or(0, |keep| keep.saturating_sub(1).min(runs.len()));
    runs.truncate(runs.len() - kept);
    let age = if keep.is_some() { RUN_AGE_MIN } else { RUN_KEPT_FOR };
    runs.retain(|name| is_older(name, age));
    going.into_iter().chain(runs).collect()
}

/// Renames the directory before removing it, so that no reader finds half of a run.
fn remove_one(runs: &Path, name: &str) -> io::Result<()> {
    let dir = runs.join(name);
    if name.starts_with(GOING) {
        return fs::remove_dir_all(dir);
    }
    if is_written(&dir.join("audit")) {
        return Ok(());
    }
    let going = runs.join(format!("{GOING}{name}"));
    fs::rename(dir, &going)?;
    fs::remove_dir_all(going)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::new_id;

    const NOW: u64 = 1_800_000_000_000;

    fn id(days_ago: u64) -> String {
        new_id(Timestamp::from_millis(NOW - days_ago * 24 * 3600 * 1000))
    }

    #[test]
    fn without_a_number_runs_older_than_thirty_days_are_removed() {
        let (own, old, young) = (id(0), id(31), id(29));
        let names = vec![own.clone(), young, old.clone(), "notes".into(), format!("{GOING}x")];
        assert_eq!(
            unwanted(names, &own, None, Timestamp::from_millis(NOW)),
            [format!("{GOING}x"), old]
        );
    }

    #[test]
    fn with_a_number_the_last_runs_and_those_just_begun_are_kept() {
        let (own, now) = (id(0), Timestamp::from_millis(NOW));
        let ids = [id(400), id(3), id(2), id(1), id(0), own.clone()];
        let of = |keep| unwanted(ids.to_vec(), &own, Some(keep), now);
        assert_eq!(of(3), ids[..3]);
        assert_eq!([of(1), of(0)], [ids[..4].to_vec(), ids[..4].to_vec()]);
        assert!(of(6).is_empty() && of(usize::MAX).is_empty());
    }
}
