//! `courtesy console`: the log as pages in a browser, for who reviews it. Of an archive, files alone are read, nothing
//! is written, and no proxy has to run; a running proxy serves the same on its admin listener, with what only it knows.

mod archive;
mod jobs;
mod pages;
mod proxy;
mod reading;
mod respond;

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::audit::log_source::LogSourceFlags;
use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::output::print;
use crate::admin::control::{Question, Running, ask_control};
use crate::admin::guard::Guard;
use crate::admin::{ConsolePages, Listener, MonitoredParts};
use crate::audit::read::Log;
use crate::config::{BrowserOrigin, ConsoleAccess, Settings};
use crate::server::Components;
use archive::ConsoleArchive;
use proxy::RunningProxy;

/// The arguments of `courtesy console`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a link to the pages of the running proxy (admin.console), which also show who waits for what.
Where none runs, or a log is named, it serves the pages of that log itself.

They say whether the log can be believed, what was forwarded although disallowed, when the proxy
was on, what was asked of each site under which robots.txt, which exemptions there were, and what
the log cannot tell; and one box says why a URL was denied, or would have been, and when.

The pages are served on loopback alone, to who has the link. It lets one browser in, once, and holds
for ten minutes; Enter prints another. Ctrl-C ends it.

Examples:
  courtesy console                                    the running proxy, or the log of the settings
  courtesy console --at http://localhost:9000         the same, by a port that is forwarded
  courtesy console --dir /mnt/backup/audit --dir pod-2/audit
  courtesy console example.com.tar                    a dossier, as it was handed over
  courtesy console --run last                         what `courtesy run` just did

Exit codes: 0 ended by Ctrl-C · 2 usage · 69 there is no log · 74 it cannot be read, or the address
cannot be listened on")]
pub struct ConsoleArgs {
    /// Files of a log, or dossiers or bundles [default: the log of the settings]
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// The port on 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The origin by which the browser reaches the running proxy's listener, where its port is forwarded
    #[arg(long, value_name = "URL")]
    at: Option<BrowserOrigin>,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy console`.
pub fn run(args: &ConsoleArgs) -> Result<Exit, Failure> {
    if args.is_of_proxy()
        && let Some(link) = ask_proxy(&args.place.settings()?)?
    {
        return args.print_link(&link);
    }
    let logs = args.place.logs(&args.files)?;
    let names: Vec<_> = logs.iter().map(|log| log.dir().display().to_string()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .or_exit(Exit::InputOutput)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let mut listener = Listener::bind(address).map_err(|error| Failure {
        exit: Exit::InputOutput,
        error: anyhow::anyhow!("cannot listen on {address}: {}; give another --port", error.source),
    })?;
    listener.listen().or_exit(Exit::InputOutput)?;
    let guard = Arc::new(Guard::new(listener.address()));
    let archive = ConsoleArchive::new(logs, args.place.clone(), Arc::clone(&guard), None);
    say(&format!(
        "The log as pages: {}\n  {}\nIt opens in one browser, once, within ten minutes. Enter prints another link; \
         Ctrl-C ends it.\n",
        names.join(", "),
        guard.link()
    ));
    print_links(&guard);
    let stop = CancellationToken::new();
    let pages = listener.serve(pages::router(&archive), TaskTracker::new(), stop);
    runtime.block_on(async {
        tokio::select! {
            () = pages => {}
            _ = tokio::signal::ctrl_c() => {}
            () = terminated() => {}
        }
    });
    // What still reads the log is not waited for.
    runtime.shutdown_background();
    Ok(Exit::Done)
}

impl ConsoleArgs {
    /// No other log is named than that of the settings, which a running proxy may show.
    fn is_of_proxy(&self) -> bool {
        self.files.is_empty() && self.port == 0 && self.place.is_of_settings()
    }

    fn print_link(&self, link: &str) -> Result<Exit, Failure> {
        let (_, path) = link.split_once("/login").unwrap_or_default();
        let link = match &self.at {
            Some(origin) => format!("{origin}/login{path}"),
            None => link.to_owned(),
        };
        print(format!(
            "The running proxy shows its log, who waits and why:\n  {link}\nIt opens in one browser, once, within ten \
             minutes.\n"
        ))?;
        Ok(Exit::Done)
    }
}

/// A link to the console of the proxy that runs with these settings; `None`: none does, or it has no console.
fn ask_proxy(settings: &Settings) -> Result<Option<String>, Failure> {
    let mut link = None;
    let asked = ask_control(&settings.state_dir, &Question::Console, &mut |item| {
        link = item.as_str().map(str::to_owned);
        Ok(())
    });
    asked.map_err(|error| Failure { exit: Exit::Unavailable, error: error.into() })?;
    Ok(link)
}

/// The console of a proxy, on its admin listener; none where the settings have none. Who holds `running` may have the
/// proxy do what commands do.
pub fn of_proxy(
    components: &Components,
    parts: &Arc<MonitoredParts>,
    running: Running,
    listener: Option<&Listener>,
    place: StateFlags,
) -> Option<ConsolePages> {
    let settings = components.settings();
    let access = settings.admin.console;
    let address = listener.filter(|_| access != ConsoleAccess::Off)?.address();
    let origins = settings.admin.origins.iter().map(|origin| origin.0.clone()).collect();
    let guard = Guard::new(address)
        .with_tokens(Arc::clone(&components.token), Arc::clone(&components.viewer_token))
        .at(origins, access == ConsoleAccess::Open);
    let (guard, dir) = (Arc::new(guard), settings.audit().dir);
    let place = LogSourceFlags::of_dir(dir.clone(), place);
    let proxy = RunningProxy::new(Arc::clone(parts), running);
    let archive = ConsoleArchive::new(vec![Log::Dir(dir)], place, Arc::clone(&guard), Some(proxy));
    Some(ConsolePages { router: pages::pages(&archive), guard })
}

/// SIGTERM.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Prints it. Who has read the link may close the output: the pages are served all the same.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Prints another link for each line of a terminal's input, which may never end.
fn print_links(guard: &Arc<Guard>) {
    if !io::stdin().is_terminal() {
        return;
    }
    let guard = Arc::clone(guard);
    let _ = std::thread::Builder::new().name("console-input".into()).spawn(move || {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            say(&format!("  {}\n", guard.link()));
        }
    });
}
