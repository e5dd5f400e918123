//! `courtesy audit report`: the report of a period as JSON or HTML, or its summary as text.

mod page;
mod sections;
#[cfg(test)]
mod tests;
mod text;
pub mod words;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::filters;
use super::log_source::LogSourceFlags;
use super::progress::Progress;
use super::verify::{Heads, heads, only_of_one};
use crate::audit::read::filter::{Filter, Place, PlaceError};
use crate::audit::read::report::{Report, Request, Survey, Verified};
use crate::audit::read::{self, Log, Scan, ScanItem};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{self, Paint};
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Says what was denied, observed and exempted, each apart, when, where, to whom and by which rules;
what was forwarded although it is disallowed; how long robots.txt files were unreachable; and what is
missing from the log. That the log is what was written is checked with --verify only; the report
says so.

Examples:
  courtesy audit report                               a summary of the whole log, on the terminal
  courtesy audit report --since 7d --origin '*.example.com'
  courtesy audit report --since 2026-10-01 --until 2026-10-31 --output october.html
  courtesy audit report --verify --head heads.txt --output october.html
  courtesy audit report --format json | jq '.unreachable.rows[] | {origin, seconds}'
  courtesy audit report --run last                    what `courtesy run` just did

Counts are of records. How many requests were decided in all, allowed ones too, is what the proxy
notes in its log from time to time. All times are UTC.

The hash of each line is made again. A line that was changed after being written is not counted, and
said in the heading. Whether lines were removed or exchanged is for courtesy audit verify to say.

Exit codes: 0 done · 1 lines were changed or damaged and are left out, or --verify found faults ·
2 usage · 69 there is no log · 74 a part of it could not be read, or the output could not be written")]
pub struct ReportArgs {
    /// From then on: 2h, 7d (ago), yesterday, 2026-11-20, '2026-11-20 12:44' (UTC), 2026-11-20T12:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = filters::since)]
    since: Option<Timestamp>,
    /// Until then; of a day, to its end (today and yesterday, too)
    #[arg(long, value_name = "TIME", value_parser = filters::until)]
    until: Option<Timestamp>,
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
    /// Verify the log and its evidence first, and say in the report what that found; exit 1 if there are faults
    #[arg(long)]
    verify: bool,
    /// With --verify: the log must have this line, its number and its hash, or a file with such heads (may be
    /// repeated)
    #[arg(long, value_name = "SEQ:HASH|FILE", value_parser = heads, requires = "verify")]
    head: Vec<Heads>,
    #[command(flatten)]
    place: LogSourceFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A summary, for the terminal
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

/// Runs `courtesy audit report`.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    filters::check(args.since, args.until)?;
    let filter = Filter {
        since: args.since,
        until: args.until,
        origins: args.origin.iter().map(|wanted| wanted.place.clone()).collect(),
        ..Filter::default()
    };
    let logs = args.place.logs_once(&[])?;
    let verified = args.verify.then(|| verified(&logs, &args.head)).transpose()?;
    let mut survey = Survey::of(filter);
    let read = read_all(logs, args.since, &mut survey)?;
    let exit = match &verified {
        Some(verified) if !verified.holds && read == Exit::Done => Exit::No,
        Some(verified) if verified.is_without_heads && read == Exit::Done => Exit::Unavailable,
        _ => read,
    };
    let report = survey.finish(Request {
        rows_max: args.top as usize,
        made_at: SystemClock.wall(),
        origins: args.origin.iter().map(|wanted| wanted.text.clone()).collect(),
        verified,
    });
    write(args, &report)?;
    let is_left_out = report.missing.changed_lines + report.missing.unreadable_lines > 0;
    Ok(if is_left_out && exit == Exit::Done { Exit::No } else { exit })
}

/// Verifies each log for itself, the evidence too, against the published heads that are given.
fn verified(logs: &[Log], heads: &[Heads]) -> Result<Verified, Failure> {
    let given: Vec<_> = heads.iter().flat_map(|heads| heads.0.clone()).collect();
    only_of_one(logs, &given)?;
    let mut progress = Progress::new();
    let each = logs.iter().map(|log| {
        let findings = read::verify::verify(log, &given, true, &mut |extent, lines| {
            progress.at(|| extent, lines)
        })?;
        Ok(Verified::of(&findings))
    });
    let each = each.collect::<Result<Vec<_>, Failure>>()?;
    Ok(Verified::together(each))
}

/// Once over all logs, one after the other: the order of lines does not matter.
fn read_all(
    mut logs: Vec<Log>,
    since: Option<Timestamp>,
    survey: &mut Survey,
) -> Result<Exit, Failure> {
    if logs.len() == 1 {
        return read(logs.remove(0), since, survey);
    }
    let mut worst = Exit::Done;
    for log in logs {
        let dir = log.dir();
        let exit = read(log, since, survey)?;
        worst = if exit == Exit::Done { worst } else { exit };
        survey.end_log(&dir.to_string_lossy());
    }
    Ok(worst)
}

/// One pass over the log. A part that cannot be read is reported, and makes the command fail.
fn read(log: Log, since: Option<Timestamp>, survey: &mut Survey) -> Result<Exit, Failure> {
    // To its end, whatever is asked for: the head of the chain ties the report to the log.
    let mut scan = Scan::new(log)?.between(since, None);
    let mut progress = Progress::new();
    let mut exit = Exit::Done;
    let mut lines = 0;
    loop {
        let extent = scan.extent();
        progress.at(|| extent, lines);
        match scan.next() {
            Ok(Some(ScanItem::Lines(block))) => block.lines().for_each(|line| {
                lines += 1;
                survey.read(line.bytes);
            }),
            Ok(Some(ScanItem::Rest(_))) => survey.damaged(),
            Ok(None) => return Ok(exit),
            Err(error) => {
                progress.clear();
                let failure = Failure::from(error);
                eprintln!("warning: {:#}", failure.error);
                exit = failure.exit;
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
        Format::Html => page::print(report),
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
