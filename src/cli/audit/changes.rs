//! `courtesy audit changes`: each change of a robots.txt that the log notes, with what it added and removed.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::difference::Difference;
use super::filters::{since, until};
use super::form::printable;
use super::log_source::LogSourceFlags;
use super::notices;
use super::report::words::second;
use super::search::{Search, Taken};
use crate::audit::read::filter::Place;
use crate::audit::read::{Filter, Log};
use crate::audit::{
    Changed, ChangedEvent, ChangesOmittedEvent, Content, Notice, RobotsStatus, Side, print_time,
};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Form;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit changes`.
#[derive(Args, Debug)]
#[command(after_help = "\
For each change that the log notes, the latest last: when and of which site, what became of it for
whom (wider: less is disallowed; narrower: more is), the robots.txt before and after by its SHA-256,
and the lines that were added and removed. An outage is a change, too. Files that retention has
removed are said to be missing.

Examples:
  courtesy audit changes --since 7d
  courtesy audit changes --origin https://example.com
  courtesy audit changes --format json | jq -r 'select(.kind == \"narrower\") | .origin'

Exit codes: 0 done, whether or not there was any · 1 a line was changed, or is damaged and left
out · 2 usage · 69 there is no log · 74 a part of it could not be read")]
pub struct ChangesArgs {
    /// Read these files instead, or dossiers or bundles
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// From then on, as of courtesy audit query
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Until then; of a day, to its end
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Only an origin (https://example.com), a host (example.com), or hosts (*.example.com); may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = Place::parse)]
    origin: Vec<Place>,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit changes`.
pub fn run(args: &ChangesArgs) -> Result<Exit, Failure> {
    match print_all(args) {
        Err(failure) if failure.is_broken_pipe() => Ok(Exit::Done),
        outcome => outcome,
    }
}

fn print_all(args: &ChangesArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let dirs: Vec<_> = logs.iter().map(Log::dir).collect();
    let filter = Filter {
        since: args.since,
        until: args.until,
        origins: args.origin.clone(),
        events: [ChangedEvent::WORD, ChangesOmittedEvent::WORD].map(str::to_owned).into(),
        ..Filter::default()
    };
    let mut search = Search::new(logs, filter)?.with_notices();
    let mut output = BufWriter::new(io::stdout().lock());
    let _ = search.run(&mut |hit| {
        let text = match Content::parse(hit.line) {
            _ if hit.is_changed => return Ok(Taken::Good),
            Ok(Content::Notice(Notice::Changed(changed))) => match args.format {
                Form::Text => text(&changed, &dirs[hit.log]),
                Form::Json => format!("{}\n", object(&changed, &dirs[hit.log])),
            },
            // They are missing from every answer, which is to be seen in each form.
            Ok(Content::Notice(notice)) => match args.format {
                Form::Text => {
                    let words = printable(&notices::words(&notice));
                    format!("{}  {words}\n", second(notice.time()))
                }
                Form::Json => format!("{}\n", String::from_utf8_lossy(hit.line)),
            },
            Ok(Content::Record(_)) | Err(_) => return Ok(Taken::Damaged),
        };
        output.write_all(text.as_bytes())?;
        Ok(Taken::Good)
    })?;
    output.flush()?;
    Ok(search.conclude("left out"))
}

fn text(changed: &Changed, dir: &Path) -> String {
    let Changed { origin, kind, seq, time, from, to, sampled, .. } = changed;
    let agents = changed.agents();
    let agents =
        if agents.is_empty() { String::new() } else { format!(" for {}", agents.join(", ")) };
    let mut text = format!(
        "{}  {}  {}{}  (line {seq})\n   from {}\n   to   {}\n",
        second(*time),
        printable(origin),
        kind.word(),
        printable(&agents),
        printable(&of_side(from)),
        printable(&of_side(to)),
    );
    if sampled.now_denied > 0 {
        let _ = writeln!(
            text,
            "   {} of {} sampled requests that were allowed are now denied: {}",
            sampled.now_denied,
            sampled.seen,
            printable(&sampled.examples.join(", "))
        );
    }
    text + &difference_text(changed, dir)
}

/// What was added and removed, or why that cannot be shown.
pub fn difference_text(changed: &Changed, dir: &Path) -> String {
    match Difference::of_change(changed, dir) {
        Ok(difference) => format!("   {}", difference.text()),
        Err(why) => format!("   the difference cannot be shown: {}\n", printable(&why)),
    }
}

fn of_side(side: &Side) -> String {
    let since = side.since.map(|since| format!(", since {} UTC", second(since)));
    let cause = side.cause.as_deref().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let copy = side.sha256.as_ref();
    let what = match (side.state, copy) {
        (RobotsStatus::Rules, _) => {
            format!("robots.txt with SHA-256 {}", copy.map_or("-", String::as_str))
        }
        (RobotsStatus::Unavailable, None) => format!("no robots.txt{cause}"),
        (RobotsStatus::Unavailable, Some(copy)) => {
            format!("no robots.txt{cause}; the last copy has SHA-256 {copy}")
        }
        (RobotsStatus::Unreachable, None) => format!("none that can be had{cause}"),
        (RobotsStatus::Unreachable, Some(copy)) => {
            format!("none that can be had{cause}; the last copy has SHA-256 {copy}")
        }
    };
    format!("{what}{}", since.unwrap_or_default())
}

fn object(changed: &Changed, dir: &Path) -> Value {
    json!({
        "seq": changed.seq, "node": changed.node, "time": print_time(changed.time),
        "origin": changed.origin, "kind": changed.kind, "agents": changed.agents(),
        "agent_asked": changed.agent_asked, "from": changed.from, "to": changed.to,
        "sampled": changed.sampled, "difference": difference_json(changed, dir),
    })
}

/// The same as an object: the lines that are shown, how many there are, and why there are none.
pub fn difference_json(changed: &Changed, dir: &Path) -> Value {
    match Difference::of_change(changed, dir) {
        Ok(it) => json!({
            "added": it.added, "removed": it.removed,
            "lines_added": it.lines_of(true), "lines_removed": it.lines_of(false),
        }),
        Err(why) => json!({ "missing": why }),
    }
}
