//! `courtesy audit show`: one record in words, with its robots.txt and capture.

pub mod file;
pub mod words;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::form::{self, Layout, printable};
use super::log_source::LogSourceFlags;
use super::search::{Hit, Search, Taken};
use super::{changes, notices};
use crate::audit::evidence::{BlobStore, Found, Kind};
use crate::audit::read::{ChainCheck, CompiledFilter, Filter, Log, page};
use crate::audit::{Content, Event, Notice, Record, checked_hash, print_time};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Form, Paint, print};
use crate::types::origin::host::Glob;

/// The arguments of `courtesy audit show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy audit show 4711
  courtesy audit show 01K9ZQ4T
  courtesy audit show 01K9ZQ4T --all | less -R
  courtesy audit show https://example.com/private/a     why it was denied, the last time
  courtesy audit show 4711 --format json | jq -r .file

An identifier is looked for in the log of the settings, and then in the records of each
`courtesy run`, unless --run, --dir or a FILE names another log.

The robots.txt and how it came are read from the evidence beside the log and checked against the
digests in the record; what is missing or does not match is said.

The hash of the record is made again, and the lines before and after it must be chained to it; where
that does not hold, it is said first.

Exit codes: 0 shown · 1 there is no such record, it does not hold in its chain, or a line that was
looked at is damaged and left out · 2 several begin so: they are listed · 69 there is no log · 74 a
part of it could not be read")]
pub struct ShowArgs {
    /// The identifier in the refusal, or its beginning; the number of a record or a notice in the log; or a whole
    /// URL, of which the last record is shown
    #[arg(value_name = "ID")]
    id: String,
    /// Show the whole robots.txt
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Search these files instead, or dossiers or bundles
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Records that begin alike and are listed.
const LISTED_MAX: usize = 20;
/// A whole ULID.
const ID_BYTES: usize = 26;

/// Runs `courtesy audit show`.
pub fn run(args: &ShowArgs) -> Result<Exit, Failure> {
    // A number is one of the log that is named; an identifier is the same wherever it is.
    let runs = match args.seq() {
        None => args.place.logs_of_runs(&args.files)?,
        Some(_) => Vec::new(),
    };
    let exit = match args.place.logs(&args.files) {
        Ok(logs) => match show_of(args, logs)? {
            Shown::Done(exit) => return Ok(exit),
            Shown::None(exit) => exit,
        },
        // A machine may have runs and no proxy of its own.
        Err(failure) if runs.is_empty() || failure.exit != Exit::Unavailable => {
            return Err(failure);
        }
        Err(_) => Exit::Done,
    };
    let searched = runs.len();
    for log in runs {
        let dir = log.dir();
        if let Shown::Done(exit) = show_of(args, vec![log])? {
            eprintln!("note: it is in the log of a run, {}", dir.display());
            return Ok(exit);
        }
    }
    let runs = match searched {
        0 => String::new(),
        1 => ", nor in that of the run there is".into(),
        count => format!(", nor in those of {count} runs"),
    };
    if exit != Exit::Done {
        return Ok(exit);
    }
    eprintln!("there is no record {} in the log{runs}", args.id);
    Ok(Exit::No)
}

/// What became of a search.
enum Shown {
    Done(Exit),
    /// Nothing was found; how the search ended.
    None(Exit),
}

/// Shows what is found in these logs.
fn show_of(args: &ShowArgs, logs: Vec<Log>) -> Result<Shown, Failure> {
    // A number is of one log, and other logs may have it, too.
    let is_url = args.is_url();
    let is_whole = args.seq().is_some() && logs.len() == 1 || args.id.len() == ID_BYTES;
    let with_nodes = logs.len() > 1;
    if let [log] = logs.as_slice()
        && is_whole
        && let Some(line) = args.find_alone(log)
    {
        let holds = show(args, &line, log.clone())?;
        return Ok(Shown::Done(if holds { Exit::Done } else { Exit::No }));
    }
    let mut earlier = 0_u64;
    let mut search = Search::new(logs.clone(), args.filter())?.with_notices();
    let mut lines: Vec<(Vec<u8>, usize)> = Vec::new();
    let _ = search.run(&mut |hit| {
        if is_url && lines.pop().is_some() {
            earlier += 1;
        }
        lines.push((hit.line.to_vec(), hit.log));
        let enough = !is_url && (is_whole || lines.len() == LISTED_MAX);
        Ok(if enough { Taken::Enough } else { Taken::Good })
    })?;
    let exit = search.conclude("shown as it is");
    match lines.as_slice() {
        [] => Ok(Shown::None(exit)),
        [(line, log)] => {
            let holds = show(args, line, logs[*log].clone())?;
            if earlier > 0 {
                eprintln!(
                    "note: it is the last of {} of that URL: courtesy audit query --url",
                    earlier + 1
                );
            }
            Ok(Shown::Done(if holds || exit != Exit::Done { exit } else { Exit::No }))
        }
        several => {
            let more = if several.len() == LISTED_MAX { "at least " } else { "" };
            eprintln!("{more}{} records begin with {}:", several.len(), args.id);
            let layout = Layout::wide();
            let layout = if with_nodes { layout.with_nodes() } else { layout };
            let rows = several.iter().filter_map(|(line, log)| {
                let is_changed = Hit::new(line, *log).is_changed;
                match Content::parse(line).ok()? {
                    Content::Record(it) => {
                        Some(format!("{}  {}", it.id, layout.row(&it, is_changed)))
                    }
                    Content::Notice(it) => {
                        Some(format!("{:ID_BYTES$}  {}", "-", layout.notice(&it, is_changed)))
                    }
                }
            });
            eprint!("{}", rows.collect::<String>());
            Ok(Shown::Done(Exit::Usage))
        }
    }
}

impl ShowArgs {
    /// The number in the log. An identifier is never all digits as long as it begins with a year.
    fn seq(&self) -> Option<u64> {
        self.id.parse().ok().filter(|_| !self.id.starts_with('0'))
    }

    /// Whether a URL is asked for: an identifier has no colon.
    fn is_url(&self) -> bool {
        self.id.contains("://")
    }

    /// The line, where it can be found without what is before it, and was not changed.
    fn find_alone(&self, log: &Log) -> Option<Vec<u8>> {
        let (filter, before) = (self.filter(), self.seq().map(|seq| seq.saturating_add(1)));
        let (needs, compiled) = (&filter.needs(), CompiledFilter::new(filter.clone()));
        let wants = |line: &[u8]| compiled.admits(line) || compiled.admits_notice(line, false);
        page::one(log, before, needs, wants).ok()?.filter(|line| checked_hash(line).is_ok())
    }

    fn filter(&self) -> Filter {
        if self.is_url() {
            return Filter { urls: vec![Glob::new(&self.id)], ..Filter::default() };
        }
        match self.seq() {
            // A notice is found by its number, too, where its word is asked for.
            Some(seq) => Filter { seqs: vec![seq], events: event_words(), ..Filter::default() },
            None => Filter { ids: vec![self.id.to_ascii_uppercase()], ..Filter::default() },
        }
    }
}

/// A line that is no record, and whether it holds. Of a change also what it added and removed.
fn show_notice(args: &ShowArgs, notice: &Notice, line: &[u8], log: Log) -> Result<bool, Failure> {
    let dir = log.dir();
    let check = ChainCheck::of(line, log)?;
    print(match args.format {
        Form::Json => {
            let chain = check.as_ref().map(file::chain_json);
            let value: Value = serde_json::from_slice(line).unwrap_or_default();
            let mut shown = json!({ "notice": value, "chain": chain });
            if let Notice::Changed(changed) = notice {
                shown["difference"] = changes::difference_json(changed, &dir);
            }
            format!("{shown:#}\n")
        }
        Form::Text => {
            let warnings = file::chain_warnings(check.as_ref(), Paint::for_stdout());
            let (word, time, text) =
                (notice.word(), print_time(notice.time()), notices::words(notice));
            let difference = match notice {
                Notice::Changed(changed) => changes::difference_text(changed, &dir),
                _ => String::new(),
            };
            format!("{warnings}{word}  {time}\n  {}\n{difference}", printable(&text))
        }
    })?;
    Ok(check.is_none_or(|check| check.holds()))
}

/// The `event` of every kind of line.
fn event_words() -> Vec<String> {
    let words = Event::ALL.into_iter().map(Event::word).chain(Notice::WORDS.iter().copied());
    words.map(str::to_owned).collect()
}

/// Whether it holds.
fn show(args: &ShowArgs, line: &[u8], log: Log) -> Result<bool, Failure> {
    if let Ok(Content::Notice(notice)) = Content::parse(line) {
        return show_notice(args, &notice, line, log);
    }
    let Some((record, hash)) = form::record(line) else {
        return Err(Failure {
            exit: Exit::InputOutput,
            error: anyhow::anyhow!("the record {} is damaged; see courtesy audit verify", args.id),
        });
    };
    let evidence = Evidence::read(&record, &BlobStore::of(&log.dir()))?;
    let check = ChainCheck::of(line, log)?;
    print(match args.format {
        Form::Json => format!("{:#}\n", evidence.json(line, check.as_ref())),
        Form::Text => {
            let paint = Paint::for_stdout();
            let mut text = file::chain_warnings(check.as_ref(), paint);
            text.push_str(&words::of(&record, hash, check.as_ref(), paint));
            text.push_str(
                &evidence
                    .file
                    .as_ref()
                    .map(|found| file::file_text(found, &record, args.all, paint))
                    .unwrap_or_default(),
            );
            text.push_str(
                &evidence
                    .capture
                    .as_ref()
                    .map(|found| file::capture_text("how it came", found, paint))
                    .unwrap_or_default(),
            );
            let failed = evidence.failed_capture.as_ref();
            text.push_str(
                &failed
                    .map(|found| file::capture_text("the last attempt, which failed", found, paint))
                    .unwrap_or_default(),
            );
            text.push_str(&words::exemption(&record, paint));
            text
        }
    })?;
    Ok(check.is_none_or(|check| check.holds()))
}

/// The blob that the record names, if any.
struct Evidence {
    file: Option<Found>,
    capture: Option<Found>,
    failed_capture: Option<Found>,
}

impl Evidence {
    fn read(record: &Record, blob_store: &BlobStore) -> std::io::Result<Self> {
        let get = |kind, sha256: Option<&String>| {
            sha256.map(|sha256| blob_store.get(kind, sha256)).transpose()
        };
        let robots = record.robots.as_ref();
        Ok(Self {
            file: get(Kind::File, robots.and_then(|robots| robots.sha256.as_ref()))?,
            capture: get(Kind::Capture, robots.and_then(|robots| robots.capture.as_ref()))?,
            failed_capture: get(
                Kind::Capture,
                robots.and_then(|robots| robots.failed_capture.as_ref()),
            )?,
        })
    }

    fn json(&self, line: &[u8], check: Option<&ChainCheck>) -> Value {
        let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let parsed = |found: &Option<Found>| match found {
            Some(Found::Content(bytes)) => value(bytes),
            _ => Value::Null,
        };
        let file = match &self.file {
            Some(Found::Content(bytes)) => json!(String::from_utf8_lossy(bytes)),
            _ => Value::Null,
        };
        json!({
            "record": value(line),
            "chain": check.map(file::chain_json),
            "file": file,
            "capture": parsed(&self.capture),
            "failed_capture": parsed(&self.failed_capture),
            "evidence": {
                "file": state(&self.file),
                "capture": state(&self.capture),
                "failed_capture": state(&self.failed_capture),
            },
        })
    }
}

/// `present`, `missing`, what is damaged, or `null`: the record names none.
fn state(found: &Option<Found>) -> Value {
    match found {
        None => Value::Null,
        Some(Found::Content(_)) => json!("present"),
        Some(Found::Missing) => json!("missing"),
        Some(Found::Damaged(why)) => json!(format!("damaged: {why}")),
    }
}
