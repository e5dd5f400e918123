//! `courtesy audit verify`: verifies the log and its evidence.

mod published;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::bundle;
use super::log_source::LogSourceFlags;
use super::progress::Progress;
use super::table::printable;
use crate::audit::read::Log;
use crate::audit::read::bundle::is_bundle;
use crate::audit::read::verify::{Findings, Notes, Notices, verify};
use crate::audit::{Head, print_time};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{Form, print};
use crate::clients::limits::NAMED_LIST_BYTES_MAX;
use crate::runtime::files;

#[derive(Args, Debug)]
#[command(after_help = "\
A chain alone shows neither that its end was cut off nor that all of it was written anew. Publish
where it stands, out of reach of those who can change the log, and check against it:
courtesy audit head >> heads.txt   courtesy audit verify --head heads.txt

Without --head a log holds in itself, at most. With it, it is said up to which line a published head
was found, and how many lines come after it. head.json beside the log, which the proxy writes, is
checked, too, but is no published head.

A FILE ending in .tar is a bundle (courtesy audit export --format bundle): a part of a log, with its
evidence. That it begins later than line 1 is no fault; a head of a line before or after it says
nothing of it. It is unpacked into a private directory among the temporary files (TMPDIR), which is
removed at the end.

Examples:
  courtesy audit verify
  courtesy audit verify november.tar --head heads.txt
  courtesy audit verify --run last
  courtesy audit verify --head 1234:9f86d081…
  courtesy audit verify --dir /mnt/backup/audit --format json | jq .faults
  courtesy audit verify --head heads.txt --format json | jq .published

Exit codes: 0 the log holds, under a published head or in itself · 1 it does not: the first fault is
printed first, or why it is no bundle · 69 there is no log, or the bundle is of a later version · 74
it cannot be read")]
pub struct VerifyArgs {
    /// Check these files alone, as the log they are together, or one bundle [default: all of the log]
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// The log must have this line: its number and its hash, or a file with such heads (may be repeated)
    #[arg(long, value_name = "SEQ:HASH|FILE", value_parser = heads)]
    head: Vec<Heads>,
    /// Leave the evidence alone: check the lines only
    #[arg(long)]
    no_evidence: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// The value of one `--head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads(pub Vec<Head>);

pub fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let heads: Vec<_> = args.head.iter().flat_map(|heads| heads.0.clone()).collect();
    if args.files.iter().any(|file| is_bundle(file)) {
        return check_bundle(args, &heads);
    }
    let logs = args.place.logs(&args.files)?;
    match logs.as_slice() {
        [log] => {
            let findings = check(args, log, &heads)?;
            print(match args.format {
                Form::Text => text(&findings),
                Form::Json => format!("{:#}\n", object(&findings)),
            })?;
            Ok(exit(&findings))
        }
        logs => check_each(args, logs, &heads),
    }
}

fn check(args: &VerifyArgs, log: &Log, heads: &[Head]) -> Result<Findings, Failure> {
    let mut progress = Progress::new();
    let mut tell = |extent, lines| progress.at(|| extent, lines);
    Ok(verify(log, heads, !args.no_evidence, &mut tell)?)
}

fn check_bundle(args: &VerifyArgs, heads: &[Head]) -> Result<Exit, Failure> {
    let [file] = args.files.as_slice() else {
        return Err(anyhow::anyhow!("a bundle is checked by itself: name one at a time"))
            .or_exit(Exit::Usage);
    };
    let checked = bundle::check(file, heads, !args.no_evidence)?;
    print(match args.format {
        Form::Text => checked.text(&text(&checked.findings)),
        Form::Json => format!("{:#}\n", checked.object(object(&checked.findings))),
    })?;
    Ok(exit(&checked.findings))
}

const fn exit(findings: &Findings) -> Exit {
    if findings.faults.count == 0 { Exit::Done } else { Exit::No }
}

/// A published head belongs to one log, and does not name which.
pub fn only_of_one(logs: &[Log], heads: &[Head]) -> Result<(), Failure> {
    if logs.len() > 1 && !heads.is_empty() {
        Err(anyhow::anyhow!("a published head is of one log: give --head with one --dir at a time"))
            .or_exit(Exit::Usage)
    } else {
        Ok(())
    }
}

/// Each log for itself, under its name. A log that cannot be read keeps no other from being checked; the code is
/// that of the worst.
fn check_each(args: &VerifyArgs, logs: &[Log], heads: &[Head]) -> Result<Exit, Failure> {
    only_of_one(logs, heads)?;
    let (mut objects, mut is_whole, mut holds) = (Vec::new(), true, true);
    for log in logs {
        let dir = log.dir();
        let dir = dir.to_string_lossy();
        let outcome = check(args, log, &[]);
        is_whole &= outcome.is_ok();
        holds &= outcome.as_ref().is_ok_and(|findings| findings.faults.count == 0);
        match (args.format, outcome) {
            (Form::Text, Ok(findings)) => {
                print(format!("{}:\n{}\n", printable(&dir), text(&findings)))?
            }
            (Form::Text, Err(failure)) => {
                print(format!("{}:\n{:#}\n\n", printable(&dir), failure.error))?
            }
            (Form::Json, Ok(findings)) => {
                let mut object = object(&findings);
                object["dir"] = dir.into();
                objects.push(object);
            }
            (Form::Json, Err(failure)) => {
                objects.push(
                    json!({ "dir": dir, "error": format!("{:#}", failure.error), "holds": false }),
                );
            }
        }
    }
    match args.format {
        Form::Text => print(format!(
            "{}\n",
            if holds { "All of them hold." } else { "Not all of them hold." }
        ))?,
        Form::Json => print(format!("{:#}\n", json!({ "holds": holds, "logs": objects })))?,
    }
    Ok(match (is_whole, holds) {
        (false, _) => Exit::InputOutput,
        (true, false) => Exit::No,
        (true, true) => Exit::Done,
    })
}

pub fn heads(text: &str) -> Result<Heads, String> {
    if let Some(head) = head(text) {
        return Ok(Heads(vec![head]));
    }
    let file = files::read_text(Path::new(text), NAMED_LIST_BYTES_MAX).map_err(|error| {
        format!("neither SEQ:HASH (as in 12:9f86d0…, 64 digits) nor a file: {error}")
    })?;
    let whole: Option<Head> = serde_json::from_str(&file).ok();
    let words = file.split_whitespace().filter_map(head);
    let of_lines = file.lines().filter_map(|line| serde_json::from_str(line).ok());
    let heads: Vec<Head> = match whole {
        Some(head) => vec![head],
        None => words.chain(of_lines).collect(),
    };
    if heads.is_empty() {
        Err("there is no SEQ:HASH in that file".into())
    } else {
        Ok(Heads(heads))
    }
}

/// `SEQ:HASH`.
fn head(text: &str) -> Option<Head> {
    let (seq, hash) = text.split_once(':')?;
    let hash = hash.to_ascii_lowercase();
    crate::types::sanitize::digest(&hash)?;
    Some(Head { hash, seq: seq.parse().ok()? })
}

fn text(findings: &Findings) -> String {
    let faults = &findings.faults;
    let mut text: String = faults.described.iter().map(|fault| format!("{fault}\n")).collect();
    if faults.count > faults.described.len() as u64 {
        text.push_str(&format!("… and {} more\n", faults.count - faults.described.len() as u64));
    }
    let holds = published::verdict(findings);
    let files = plural(findings.files, "file");
    text.push_str(&format!("{holds}. {} in {files}", plural(findings.records, "record")));
    if let Some((from, to)) = findings.times {
        text.push_str(&format!(", from {} to {}", print_time(from), print_time(to)));
    }
    match findings.evidence {
        Some(count) => text.push_str(&format!("; {} of evidence.", plural(count as u64, "piece"))),
        None => text.push_str("; their evidence was not looked at."),
    }
    text.push_str(&notices(&findings.notices));
    if let Some(bytes) = findings.unfinished {
        text.push_str(&format!(" {bytes} bytes at the end are being written."));
    }
    text.push_str(&notes(&findings.notes));
    if let Some(Head { hash, seq }) = &findings.head {
        text.push_str(&format!("\nThe last line is {seq}:{hash}"));
    }
    text.push_str(&published::lines(findings));
    text + "\n"
}

/// Notes, a line each.
fn notes(notes: &Notes) -> String {
    let mut text: String = notes.described.iter().map(|note| format!("\nNote: {note}")).collect();
    if notes.count > notes.described.len() as u64 {
        text.push_str(&format!(
            "\n… and {} more notes",
            notes.count - notes.described.len() as u64
        ));
    }
    text
}

/// The counts of notices, as sentences.
fn notices(notices: &Notices) -> String {
    let Notices {
        gaps,
        lost,
        torn,
        pruned,
        totals,
        started,
        settings,
        stopped,
        not_stopped,
        changed,
        paced,
        unknown,
    } = *notices;
    let sentences = [
        (
            gaps,
            format!(
                "{} could not be written and are lost, in {}.",
                plural(lost, "record"),
                plural(gaps, "gap")
            ),
        ),
        (torn, format!("After a crash an end of it was set aside ({}).", times(torn))),
        (pruned, format!("Retention has removed old lines ({}).", times(pruned))),
        (totals, format!("{} of totals.", plural(totals, "line"))),
        (
            started + stopped,
            format!(
                "The proxy was started {}, and stopped cleanly {}.",
                times(started),
                times(stopped)
            ),
        ),
        (
            not_stopped,
            format!(
                "It was started again without having been stopped cleanly ({}).",
                times(not_stopped)
            ),
        ),
        (settings, format!("Its settings were changed ({}).", times(settings))),
        (changed, format!("{} of changes of robots.txt files.", plural(changed, "line"))),
        (paced, format!("{} of delays that robots.txt files ask for.", plural(paced, "line"))),
        (
            unknown,
            format!("{} of a kind that this version does not know.", plural(unknown, "line")),
        ),
    ];
    sentences
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, sentence)| format!(" {sentence}"))
        .collect()
}

fn object(findings: &Findings) -> Value {
    json!({
        "holds": findings.faults.count == 0,
        "fault_count": findings.faults.count,
        "faults": findings.faults.described,
        "note_count": findings.notes.count,
        "notes": findings.notes.described,
        "files": findings.files,
        "lines": findings.lines,
        "records": findings.records,
        "from": findings.times.map(|(from, _)| print_time(from)),
        "to": findings.times.map(|(_, to)| print_time(to)),
        "evidence": findings.evidence,
        "notices": findings.notices,
        "unfinished": findings.unfinished,
        "head": findings.head,
        "noted_head": findings.noted,
        "published": {
            "heads": findings.published,
            "lines_after": published::lines_after(findings),
            "up_to": findings.published_up_to().map(|head| head.seq),
        },
    })
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}
