//! `courtesy check`: whether robots.txt allows an agent to fetch a URL, and by which line of which
//! file. For people on the terminal, for scripts by exit code, for programs as JSON Lines.

pub mod answer;
mod args;
mod batch;
mod list;
pub mod online;
mod stream;

use std::io::{self, BufWriter};

use super::exit::{Exit, Failure};
use args::Agent;
pub use args::CheckArgs;
use online::{Defaults, LazyOnline};

/// Runs `courtesy check`.
pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let settings = args.config.load_anywhere(&args.policy.overrides())?.settings;
    let defaults = Defaults {
        agent: args.agent.as_deref().map_or_else(Agent::ours, |agent| Agent::new(agent, None)),
        profile: args.policy.profile,
        configured_profile: settings.robots.profile,
        pace: answer::OperatorPace {
            delay_max: settings.pace.max_crawl_delay,
            delay: settings.pace.delay,
            exempted: None,
            is_tunnel: false,
        },
        https: settings.https(),
    };
    let online = LazyOnline::new(settings);
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

/// The reader of the output has closed it.
fn is_broken_pipe(failure: &Failure) -> bool {
    let error = failure.error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
