//! `courtesy audit report`: what a period came to, for people, for programs and for the file.

mod html;
mod sections;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::place::PlaceFlags;
use super::progress::Progress;
use super::when;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output;
use crate::cli::paint::Paint;
use crate::clock::{Clock, SystemClock};
use crate::moment::Moment;
use crate::review::filter::{Filter, Place, PlaceError};
use crate::review::report::{Report, Request, Survey};
use crate::review::{Log, Piece, Scan};

#[derive(Args, Debug)]
#[command(after_help = "\
Says what was denied, observed and exempted, when, where, to whom and by which rules; how long
robots.txt files were unreachable; and what is missing from the log.

Examples:
  courtesy audit report                                   the whole log, on the terminal
  courtesy audit report --since 7d --origin '*.example.com'
  courtesy audit report --since 2026-10-01 --until 2026-10-31 --output october.html
  courtesy audit report --format json | jq '.unreachable.rows[] | {origin, seconds}'
  courtesy audit report --run last                        what `courtesy run` just did

Counts are of records. How many requests were decided in all, allowed ones too, is what the proxy
notes in its log from time to time. All times are UTC.")]
pub struct ReportArgs {
    /// From then on: 2h, 7d (ago), 2026-11-20, 2026-11-20T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when::since)]
    since: Option<Moment>,
    /// Until then; of a day, to its end
    #[arg(long, value_name = "TIME", value_parser = when::until)]
    until: Option<Moment>,
    /// Only an origin (https://example.com), a host (example.com), or hosts (*.example.com); may be
    /// repeated
    #[arg(long, value_name = "ORIGIN", value_parser = Wanted::parse)]
    origin: Vec<Wanted>,
    /// How the report is to look [default: as FILE ends, else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of each list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// One page that needs nothing else, to be kept, sent and printed
    Html,
}

/// Origins, and how they were written.
#[derive(Clone, Debug)]
struct Wanted {
    text: String,
    place: Place,
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, PlaceError> {
        Place::parse(text).map(|place| Self { text: text.to_owned(), place })
    }
}

pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    when::check(args.since, args.until)?;
    let filter = Filter {
        since: args.since,
        until: args.until,
        origins: args.origin.iter().map(|wanted| wanted.place.clone()).collect(),
        ..Filter::default()
    };
    let mut survey = Survey::of(filter);
    let exit = read(args.place.log(&[])?, args.since, &mut survey)?;
    let report = survey.finish(Request {
        rows_max: args.top as usize,
        made_at: SystemClock.wall(),
        origins: args.origin.iter().map(|wanted| wanted.text.clone()).collect(),
    });
    write(args, &report)?;
    Ok(exit)
}

/// Once over the log. A part that cannot be read is said, and makes the whole no success.
fn read(log: Log, since: Option<Moment>, survey: &mut Survey) -> Result<Exit, Failure> {
    // To its end, whatever is asked for: the head of the chain ties the report to the log.
    let mut scan = Scan::new(log)?.between(since, None);
    let mut progress = Progress::new();
    let mut exit = Exit::Done;
    let mut lines = 0;
    loop {
        let extent = scan.extent();
        progress.at(|| extent, lines);
        match scan.next() {
            Ok(Some(Piece::Lines(block))) => block.lines().for_each(|line| {
                lines += 1;
                survey.read(line.octets);
            }),
            Ok(Some(Piece::Rest(_))) => survey.damaged(),
            Ok(None) => return Ok(exit),
            Err(error) => {
                progress.clear();
                eprintln!("warning: {:#}", anyhow::Error::from(error));
                exit = Exit::InputOutput;
            }
        }
    }
}

fn write(args: &ReportArgs, report: &Report) -> Result<(), Failure> {
    let by_name = args.output.as_deref().map_or(Format::Text, format_of);
    let paint = if args.output.is_some() { Paint::OFF } else { Paint::for_stdout() };
    let text = match args.format.unwrap_or(by_name) {
        Format::Text => text::print(report, paint),
        Format::Json => serde_json::to_string_pretty(report).expect("texts and numbers") + "\n",
        Format::Html => html::print(report),
    };
    match &args.output {
        None => output::print(text),
        Some(file) => output::create_private(file)
            .and_then(|mut output| output.write_all(text.as_bytes()))
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", file.display()))
            .or_exit(Exit::InputOutput),
    }
}

fn format_of(file: &Path) -> Format {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Format::Html,
        Some("json") => Format::Json,
        _ => Format::Text,
    }
}
