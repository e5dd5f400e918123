//! `courtesy console`: the log as pages in a browser, for who reviews it. Files alone are read, nothing is
//! written, and no proxy has to run.

mod archive;
mod guard;
mod jobs;
mod pages;
mod reading;
mod respond;
mod server;

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::audit::log_source::LogSourceFlags;
use super::exit::{Exit, Failure, OrExit};
use archive::ConsoleArchive;
use guard::Guard;

/// The arguments of `courtesy console`.
#[derive(Args, Debug)]
#[command(after_help = "\
Opens the log as pages: whether it can be believed, what was forwarded although disallowed, when the
proxy was on, what was asked of each site under which robots.txt, which exemptions there were, and
what the log cannot tell; and one box that says why a URL was denied, or would have been, and when.

The pages are served on loopback alone, to who has the link. It lets one browser in, once, and holds
for ten minutes; Enter prints another. Ctrl-C ends it.

Examples:
  courtesy console                                    the log of the settings
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
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy console`.
pub fn run(args: &ConsoleArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let names: Vec<_> = logs.iter().map(|log| log.dir().display().to_string()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .or_exit(Exit::InputOutput)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener =
        runtime.block_on(tokio::net::TcpListener::bind(address)).map_err(|error| Failure {
            exit: Exit::InputOutput,
            error: anyhow::anyhow!("cannot listen on {address}: {error}; give another --port"),
        })?;
    let port = listener.local_addr().or_exit(Exit::InputOutput)?.port();
    let guard = Arc::new(Guard::new(port));
    let archive = ConsoleArchive::new(logs, args.place.clone(), Arc::clone(&guard));
    say(&format!(
        "The log as pages: {}\n  {}\nIt opens in one browser, once, within ten minutes. Enter prints another link; \
         Ctrl-C ends it.\n",
        names.join(", "),
        guard.link()
    ));
    print_links(&guard);
    runtime.block_on(server::serve(listener, pages::router(archive)));
    Ok(Exit::Done)
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
