//! `courtesy check`: whether robots.txt allows an agent to fetch a URL, and by which line of which
//! file. For people on the terminal, for scripts by exit code, for programs as JSON Lines.

mod agent;
mod answer;
mod batch;
mod conveyor;
mod explain;
mod feed;
mod given;
mod json_bytes;
mod list;
mod offline;
mod online;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory};

use super::exit::{Exit, Failure};
use super::flags::ConfigFlags;
use crate::cli::known_words::KnownWords;
use crate::config::{ProfileName, Settings};
use agent::Agent;
use online::Online;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy check --agent ExampleBot https://example.com/private/a
  courtesy check --agent 'ExampleBot/1.2 (+https://example.com/bot)' --json - < urls.txt
  courtesy check --agent ExampleBot --robots robots.txt /private/a /public/b

Exit codes: 0 everything is allowed · 1 something is disallowed · 3 nothing is disallowed, but
something is undecided: its robots.txt cannot be had, so the proxy would deny it · 2 usage, or
something is no URL

--batch reads one JSON object a line, with \"url\", \"agent\" and, unless it is to be fetched,
\"robots\" (or robots_b64, url_b64; robots_parts, url_parts: lists of [text, times]); optional are
\"id\", \"agent_kind\" (token or header) and \"profile\". It answers each line in order with the id,
\"decision\", \"line\" and \"basis\", or with the id and an \"error\", and ends with 0.")]
pub struct CheckArgs {
    /// What to ask about; - or nothing: one a line from standard input
    #[arg(value_name = "URL")]
    urls: Vec<OsString>,
    /// For whom: a product token, or a whole User-Agent [default: courtesy's own]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Read robots.txt in this dialect instead of robots.profile
    #[arg(long, value_name = "NAME", value_parser = KnownWords::new(&[ProfileName::WORDS], ProfileName::from_str))]
    profile: Option<ProfileName>,
    /// Ask this file (- for standard input) instead of fetching; URLs may be just paths then
    #[arg(long, value_name = "FILE", requires = "urls")]
    robots: Option<PathBuf>,
    /// Print one JSON object for each URL
    #[arg(long)]
    json: bool,
    /// Answer questions in JSON Lines on standard input
    #[arg(long, conflicts_with_all = ["urls", "robots", "json"])]
    batch: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// The defaults of a query.
struct Defaults {
    agent: Agent,
    /// As given by --profile: takes precedence over settings for an agent or an origin.
    profile: Option<ProfileName>,
    configured_profile: ProfileName,
}

/// Created when the first file has to be fetched: offline queries need neither network nor CA
/// certificates.
struct LazyOnline {
    settings: Settings,
    online: OnceCell<Online>,
}

impl LazyOnline {
    fn get(&self) -> Result<&Online, Failure> {
        if self.online.get().is_none() {
            let _ = self.online.set(Online::new(&self.settings)?);
        }
        Ok(self.online.get().expect("it has just been set"))
    }
}

pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let settings = args.config.load(None)?.settings;
    let defaults = Defaults {
        agent: args.agent.as_deref().map_or_else(Agent::ours, |agent| Agent::new(agent, None)),
        profile: args.profile,
        configured_profile: settings.robots.profile,
    };
    let online = LazyOnline { settings, online: OnceCell::new() };
    let output = BufWriter::new(io::stdout().lock());
    let outcome = if args.batch {
        batch::run(io::stdin().lock(), output, &defaults, &online).map(|()| Exit::Done)
    } else {
        list::run(args, output, &defaults, &online)
    };
    match outcome {
        Err(failure) if is_broken_pipe(&failure) => Ok(Exit::Done),
        outcome => outcome,
    }
}

impl CheckArgs {
    /// Whether the URLs come from standard input.
    fn reads_urls(&self) -> bool {
        match self.urls.as_slice() {
            [] if io::stdin().is_terminal() => {
                usage("name a URL, or give a list of them on standard input")
            }
            [] => true,
            [only] => only == "-",
            _ => false,
        }
    }

    /// Whether the robots.txt comes from standard input.
    fn reads_robots(&self) -> bool {
        self.robots.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }
}

/// In clap's own format, with its exit code.
fn usage(complaint: &str) -> ! {
    let mut command = super::Cli::command();
    let check = command.find_subcommand_mut("check").expect("it is this one");
    check
        .clone()
        .bin_name("courtesy check")
        .error(clap::error::ErrorKind::ValueValidation, complaint)
        .exit()
}

/// The reader of the output has closed it.
fn is_broken_pipe(failure: &Failure) -> bool {
    let error = failure.error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
