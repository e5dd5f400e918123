//! `courtesy audit report`: the report of a period as JSON or HTML, or its summary as text.

pub mod page;
pub mod sections;
#[cfg(test)]
mod tests;
mod text;
pub mod words;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::filters;
use super::log_source::{LogSourceFlags, Witnesses};
use super::progress::Progress;
use super::remarks::remark;
use super::repeats::Repeats;
use super::verify::{Against, Heads, heads};
use crate::audit::read::filter::{Client, Filter, Place};
use crate::audit::read::report::{Report, Request, Survey, Verified};
use crate::audit::read::{Extent, Log, Scan, ScanItem, dossier};
use crate::audit::record::verifier_key::VerifierKey;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{self, Paint};
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::host::Glob;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Says what was disallowed, and what of it was forwarded all the same; when the proxy was on, and in
which mode; what was asked of each site; which exemptions there were, and what was done under them;
and what the log cannot tell. That the log is what was written is checked with --verify only; the
report says so.

Examples:
  courtesy audit report                               a summary of the whole log, on the terminal
  courtesy audit report --since 7d --origin '*.example.com'
  courtesy audit report --since 2026-10-01 --until 2026-10-31 --output october.html
  courtesy audit report --verify --head heads.txt --output october.html
  courtesy audit report --agent ExampleBot --client 10.0.3.0/24 --since yesterday
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
    #[arg(long, value_name = "ORIGIN", value_parser = |text: &str| Wanted::parse(text, Place::parse))]
    origin: Vec<Wanted<Place>>,
    /// Only a product token, in any case; * stands for anything (may be repeated)
    #[arg(long, value_name = "AGENT", value_parser = |text: &str| Wanted::parse(text, filters::glob))]
    agent: Vec<Wanted<Glob>>,
    /// Only who asked: an address, a block (10.0.0.0/8), or a name (may be repeated)
    #[arg(long, value_name = "CLIENT", value_parser = |text: &str| Wanted::parse(text, filters::client))]
    client: Vec<Wanted<Client>>,
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
    /// With --verify: the log must have this line: its number and its hash, or a checkpoint, or a file with such (may
    /// be repeated)
    #[arg(long, value_name = "SEQ:HASH|CHECKPOINT|FILE", value_parser = heads, requires = "verify")]
    head: Vec<Heads>,
    /// With --verify: the log must have the lines of which the shared engine has seen the heads
    #[arg(long, requires = "verify")]
    engine: bool,
    /// With --verify: checkpoints must be signed by this key (may be repeated)
    #[arg(long, value_name = "KEY", requires = "verify")]
    key: Vec<VerifierKey>,
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

/// What is reported on alone, and how it was written.
#[derive(Clone, Debug)]
struct Wanted<T> {
    text: String,
    value: T,
}

impl<T: Clone> Wanted<T> {
    fn parse<E>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Self, E> {
        parse(text).map(|value| Self { text: text.to_owned(), value })
    }

    fn values(all: &[Self]) -> Vec<T> {
        all.iter().map(|wanted| wanted.value.clone()).collect()
    }

    fn texts(all: &[Self]) -> Vec<String> {
        all.iter().map(|wanted| wanted.text.clone()).collect()
    }
}

/// Runs `courtesy audit report`.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    filters::check(args.since, args.until)?;
    let filter = Filter {
        since: args.since,
        until: args.until,
        origins: Wanted::values(&args.origin),
        agents: Wanted::values(&args.agent),
        clients: Wanted::values(&args.client),
        ..Filter::default()
    };
    let logs = args.place.logs(&[])?;
    let verified = args.verify.then(|| verified(&logs, args)).transpose()?;
    let mut survey = Survey::of(filter);
    let mut progress = Progress::new();
    let read = read_all(logs, args.since, &mut survey, &mut |extent, lines| match extent {
        Some(extent) => progress.at(|| extent, lines),
        None => progress.clear(),
    })?;
    let exit = match &verified {
        Some(verified) if !verified.holds && read == Exit::Done => Exit::No,
        Some(verified) if verified.is_without_heads && read == Exit::Done => Exit::Unavailable,
        _ => read,
    };
    let report = survey.finish(Request {
        rows_max: args.top as usize,
        made_at: SystemClock.wall(),
        origins: Wanted::texts(&args.origin),
        agents: Wanted::texts(&args.agent),
        clients: Wanted::texts(&args.client),
        verified,
    });
    write(args, &report)?;
    let is_left_out = report.missing.changed_lines + report.missing.unreadable_lines > 0;
    Ok(if is_left_out && exit == Exit::Done { Exit::No } else { exit })
}

/// Verifies each log for itself, the evidence too, as `courtesy audit verify` does.
fn verified(logs: &[Log], args: &ReportArgs) -> Result<Verified, Failure> {
    let witnesses = args.engine.then(|| Witnesses::ask(args.place.settings()?)).transpose()?;
    verify_all(logs, &Against::new(&args.head, witnesses), &args.key)
}

/// The same, against these heads.
pub fn verify_all(
    logs: &[Log],
    against: &Against,
    keys: &[VerifierKey],
) -> Result<Verified, Failure> {
    against.check_logs(logs)?;
    let each = logs.iter().map(|log| match log {
        Log::Dossier(dir) => Ok(Verified::of_dossier(&dossier::check(dir, keys))),
        log => Ok(Verified::of(&against.verify(log, keys)?)),
    });
    let each = each.collect::<Result<Vec<_>, Failure>>()?;
    Ok(Verified::together(each))
}

/// Once over all logs, one after the other: the order of lines does not matter. `tell`: how far it has come; none before
/// a warning is printed.
pub fn read_all(
    mut logs: Vec<Log>,
    since: Option<Timestamp>,
    survey: &mut Survey,
    tell: &mut dyn FnMut(Option<Extent>, u64),
) -> Result<Exit, Failure> {
    if logs.len() == 1 {
        return read(logs.remove(0), since, survey, tell, &mut |_| false);
    }
    let mut repeats = Repeats::of(&logs, "they are counted once");
    let mut worst = Exit::Done;
    for (at, log) in logs.into_iter().enumerate() {
        let dir = log.dir();
        let exit = read(log, since, survey, tell, &mut |line| repeats.is_one(at, line))?;
        worst = if exit == Exit::Done { worst } else { exit };
        survey.end_log(&dir.to_string_lossy());
    }
    Ok(worst)
}

/// One pass over the log. A part that cannot be read is reported, and makes the command fail. `is_repeated`: whether a
/// line was read of another log.
fn read(
    log: Log,
    since: Option<Timestamp>,
    survey: &mut Survey,
    tell: &mut dyn FnMut(Option<Extent>, u64),
    is_repeated: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<Exit, Failure> {
    begin(&log, since, survey);
    // To its end, whatever is asked for: the head of the chain ties the report to the log.
    let mut scan = Scan::new(log)?.between(since, None);
    let mut exit = Exit::Done;
    let mut lines = 0;
    loop {
        tell(Some(scan.extent()), lines);
        match scan.next() {
            Ok(Some(ScanItem::Lines(block))) => block.lines().for_each(|line| {
                lines += 1;
                if is_repeated(line.bytes) {
                    survey.pass(line.bytes);
                } else {
                    survey.read(line.bytes);
                }
            }),
            Ok(Some(ScanItem::Rest(_))) => survey.damaged(),
            Ok(None) => return Ok(exit),
            Err(error) => {
                tell(None, lines);
                let failure = Failure::from(error);
                remark(format!("warning: {:#}", failure.error));
                exit = failure.exit;
            }
        }
    }
}

/// How far before the period its settings are looked for, in days, one after the other: a process may have been on for
/// long, and a log may be much longer.
const DAYS_BEFORE: [u64; 3] = [1, 16, 256];

/// Begins a log: with the lines before the period, as far back as they say what was in effect when it began. What cannot
/// be read is said where the log is read as a whole.
fn begin(log: &Log, since: Option<Timestamp>, survey: &mut Survey) {
    survey.begin_log(log);
    let Some(since) = since else { return };
    let from = DAYS_BEFORE.map(|days| Duration::from_secs(days * 24 * 60 * 60).as_millis());
    let from = from.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX));
    let from =
        from.map(|millis| Some(Timestamp::from_millis(since.millis().saturating_sub(millis))));
    for from in from.into_iter().chain([None]) {
        let Ok(scan) = Scan::new(log.clone()) else { return };
        let mut scan = scan.between(from, Some(since));
        survey.begin_log(log);
        loop {
            match scan.next() {
                Ok(Some(ScanItem::Lines(block))) => {
                    block.lines().for_each(|line| survey.read_before(line.bytes));
                }
                Ok(Some(ScanItem::Rest(_))) | Err(_) => {}
                Ok(None) => break,
            }
        }
        if survey.knows_mode() {
            return;
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
