//! `courtesy store`: what is known of origins, from the proxy that runs with this state directory
//! or, if none does, from its file.

mod get;
mod holder;
mod origin_arg;
mod shown;
mod stats;

use std::io::{self, BufWriter, ErrorKind, Write};

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::flags::StateFlags;
use super::output::print;
use crate::admin::control::{ControlError, Question};
use crate::store::Report;
use crate::types::origin::Origin;
use holder::Holder;
use origin_arg::origin;
pub use shown::size;
use shown::{Shown, say_broken};

/// The arguments of `courtesy store`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store get https://example.com        what is known of it, and until when
  courtesy store forget https://example.com     its robots.txt is fetched again at the next request
  courtesy store export | jq -r 'select(.states[].state == \"unreachable\").origin'

They work beside `courtesy serve` and without it. The store is store.redb in the state directory;
how large it may become is store.max_size.")]
pub struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Tell how much the store has
    Stats(stats::StatsArgs),
    /// Tell what is known of an origin
    Get(get::GetArgs),
    /// Forget an origin: its robots.txt is fetched again at the next request
    Forget(OriginArgs),
    /// Print what is kept of each origin, one line of JSON for each
    #[command(after_help = "\
Examples:
  courtesy store export | jq -r '[.origin, .states[].state] | @tsv'
  courtesy store export | jq -r 'select(.failed).origin'          who did not answer last")]
    Export(PlainArgs),
    /// Give back to the system what the file does not need; the proxy must not run
    #[command(after_help = "\
Ends with 69 while a proxy uses the store: it compacts the file itself when it starts, if that is
worth it.")]
    Compact(PlainArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store forget https://example.com
  courtesy store forget http://example.com:8080 || echo nothing was known

Ends with 1 when nothing was known of the origin. The records of what was denied stay as they are.")]
struct OriginArgs {
    /// Scheme, host and, if it is not the scheme's own, port: https://example.com
    #[arg(value_parser = origin)]
    origin: Origin,
    #[command(flatten)]
    config: StateFlags,
}

#[derive(Args, Debug)]
struct PlainArgs {
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy store`.
pub fn run(args: StoreArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Stats(args) => stats::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Forget(args) => forget(&args),
        Command::Export(args) => export(&args),
        Command::Compact(args) => compact(&args),
    }
}

fn forget(args: &OriginArgs) -> Result<Exit, Failure> {
    let origin = args.origin.to_string();
    let was_known =
        Holder::of(&args.config)?.one(&Question::StoreForget { origin: origin.clone() })?;
    if was_known == Some(true) {
        print(format!(
            "{origin} is forgotten; its robots.txt is fetched again at the next request.\n"
        ))?;
        Ok(Exit::Done)
    } else {
        print(format!("Nothing was known of {origin}.\n"))?;
        Ok(Exit::No)
    }
}

fn export(args: &PlainArgs) -> Result<Exit, Failure> {
    let mut output = BufWriter::new(io::stdout().lock());
    let exported = Holder::of(&args.config)?.ask(&Question::StoreExport, &mut |item| {
        let report: Report = serde_json::from_value(item)?;
        serde_json::to_writer(&mut output, &Shown::of(report))?;
        output.write_all(b"\n")
    });
    let ended = exported.and_then(|end| output.flush().map(|()| end).map_err(ControlError::Tell));
    match ended {
        Ok(end) => {
            say_broken(end.broken);
            Ok(Exit::Done)
        }
        // The reader of the output has closed it.
        Err(ControlError::Tell(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(error.into()),
    }
}

fn compact(args: &PlainArgs) -> Result<Exit, Failure> {
    let (before, after) = Holder::of(&args.config)?.compact()?;
    print(format!("{} before, {} now.\n", shown::size(before), shown::size(after)))?;
    Ok(Exit::Done)
}
