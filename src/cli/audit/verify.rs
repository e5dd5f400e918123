//! `courtesy audit verify`: verifies the log and its evidence.

mod dossier;
mod findings;
mod published;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::form::printable;
use super::log_source::{LogSourceFlags, Witnesses};
use super::progress::Progress;
use super::repeats::Repeats;
use crate::audit::Head;
use crate::audit::checkpoint::SignedCheckpoint;
use crate::audit::read::Log;
use crate::audit::read::verify::{Findings, GivenHead, verify_part, verify_signed};
use crate::audit::record::verifier_key::VerifierKey;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{Form, print};
use crate::clients::password::NAMED_LIST_BYTES_MAX;
use crate::runtime::files;
use crate::types::LogId;
use findings::{object, text};
use published::witnessed;

/// The arguments of `courtesy audit verify`.
#[derive(Args, Debug)]
#[command(after_help = "\
A chain alone shows neither that its end was cut off nor that all of it was written anew. Publish
where it stands, out of reach of those who can change the log, and check against it:
courtesy audit head >> heads.txt   courtesy audit verify --head heads.txt

Without --head a log holds in itself, at most. With it, it is said up to which line a published head
was found, and how many lines come after it. head.json beside the log, which the proxy writes, is
checked, too, but is no published head.

With --engine it is held against the heads that the shared engine of the settings has seen: those of
the log, by its identity, and of the proxies whose node (audit.node) a line names, where these name
no log. Each proxy passes on its head with its beats, so an end that was cut off at one shows at the
others. A head of another log is named, and says nothing of this one. Where there is none of this
one, the first sentence says so.

With --part that the log begins later than line 1 is no fault, and a head of a line before or after
it says nothing of it: so is a bundle (courtesy audit export --format bundle) checked, as it was
handed over or, with --part, where it was unpacked.

A dossier (courtesy audit export --format dossier) is checked as it was handed over, with --key of
the log's owner; without it, by the key that it names.

Examples:
  courtesy audit verify
  courtesy audit verify example.tar --key courtesy/crawler-3/…
  courtesy audit verify november.tar.zst --head heads.txt
  courtesy audit verify --run last
  courtesy audit verify --engine --dir pod-1/audit --dir pod-2/audit
  courtesy audit verify --head 1234:9f86d081…
  courtesy audit verify --dir /mnt/backup/audit --format json | jq .faults
  courtesy audit verify --head heads.txt --format json | jq .published

The first line is the verdict; behind it stands what does not hold, and then one fact a line.

Exit codes: 0 the log holds, under a head or, where none was asked for, in itself · 1 it does not ·
69 it holds in itself, and no head of
this log is there to hold it against (--engine; --head with heads of other logs alone); there is
no log, or the engine cannot be reached · 74 it cannot be read")]
pub struct VerifyArgs {
    /// Check these files alone, as the log they are together; or a dossier or bundle, packed or not [default: all of
    /// the log]
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// The log must have this line: its number and its hash, or a checkpoint, or a file with such (may be repeated)
    #[arg(long, value_name = "SEQ:HASH|CHECKPOINT|FILE", value_parser = heads)]
    head: Vec<Heads>,
    /// The log must have the lines of which the shared engine of the settings has seen the heads
    #[arg(long, conflicts_with = "files")]
    engine: bool,
    /// The checkpoints, those of --head and those in the log, must be signed by this key: what courtesy
    /// audit key printed at its proxy (may be repeated)
    #[arg(long, value_name = "KEY")]
    key: Vec<VerifierKey>,
    /// It is a part of a log, as of a bundle: it may begin later than line 1
    #[arg(long)]
    part: bool,
    /// Leave the evidence alone: check the lines only
    #[arg(long)]
    no_evidence: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit verify`.
pub fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let witnesses = args.engine.then(|| Witnesses::ask(args.place.settings()?)).transpose()?;
    let against = Against::new(&args.head, witnesses);
    against.check_logs(&logs)?;
    if let Some(Log::Dossier(dir)) = logs.iter().find(|log| matches!(log, Log::Dossier(_))) {
        if logs.len() > 1 {
            return Err(anyhow::anyhow!("a dossier is checked alone: give one at a time"))
                .or_exit(Exit::Usage);
        }
        return dossier::verify(dir, &args.key, args.format);
    }
    match logs.as_slice() {
        [log] => {
            let findings = check(args, log, &against)?;
            print(match args.format {
                Form::Text => against.text(&findings),
                Form::Json => format!("{:#}\n", object(&findings)),
            })?;
            Ok(exit(&findings))
        }
        logs => {
            let _ = Repeats::of(logs, "each is checked for itself");
            check_each(args, logs, &against)
        }
    }
}

/// What logs are held against.
pub struct Against {
    published: Vec<GivenHead>,
    /// What the engine has seen, where that is asked for.
    witnesses: Option<Witnesses>,
}

impl Against {
    /// Heads that are given, and those that the engine has seen.
    pub fn new(given: &[Heads], witnesses: Option<Witnesses>) -> Self {
        Self { published: given.iter().flat_map(|heads| heads.0.clone()).collect(), witnesses }
    }

    /// Of several logs, a head has to name the one that it is of; a dossier has its own.
    pub fn check_logs(&self, logs: &[Log]) -> Result<(), Failure> {
        let is_any_dossier = logs.iter().any(|log| matches!(log, Log::Dossier(_)));
        if is_any_dossier && (!self.published.is_empty() || self.witnesses.is_some()) {
            let why =
                "a dossier is held against the checkpoint in it: --key names who has signed that";
            return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
        }
        let is_of_any = logs.len() > 1 && self.published.iter().any(|head| head.log.is_none());
        if is_of_any {
            let why = "a published head that does not name its log is of one: give it with one --dir, or write \
                       \"log:ID\" behind it, as courtesy audit head prints it";
            return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
        }
        Ok(())
    }

    /// Verifies a log and its evidence.
    pub fn verify(&self, log: &Log, keys: &[VerifierKey]) -> Result<Findings, Failure> {
        self.verify_part(log, keys, true, false)
    }

    /// The same; of a part of a log, or without the evidence.
    fn verify_part(
        &self,
        log: &Log,
        keys: &[VerifierKey],
        with_evidence: bool,
        is_part: bool,
    ) -> Result<Findings, Failure> {
        let mut progress = Progress::new();
        let mut tell = |extent, lines| progress.at(|| extent, lines);
        let is_part = is_part || matches!(log, Log::Bundle(_));
        let verify = if is_part { verify_part } else { verify_signed };
        let mut findings = verify(log, &self.heads_of(log)?, keys, with_evidence, &mut tell)?;
        findings.is_engine_asked = self.witnesses.is_some();
        Ok(findings)
    }

    fn heads_of(&self, log: &Log) -> Result<Vec<GivenHead>, Failure> {
        let witnessed = self.witnesses.as_ref().map(|witnesses| witnesses.of(log)).transpose()?;
        Ok(self.published.iter().cloned().chain(witnessed.into_iter().flatten()).collect())
    }

    fn text(&self, findings: &Findings) -> String {
        let witnessed = self.witnesses.as_ref().map(|_| witnessed(findings));
        text(findings) + &witnessed.unwrap_or_default()
    }
}

fn check(args: &VerifyArgs, log: &Log, against: &Against) -> Result<Findings, Failure> {
    against.verify_part(log, &args.key, !args.no_evidence, args.part)
}

fn exit(findings: &Findings) -> Exit {
    match findings.faults.count {
        0 if findings.is_without_heads() => Exit::Unavailable,
        0 => Exit::Done,
        _ => Exit::No,
    }
}

/// Each log for itself, under its name. A log that cannot be read keeps no other from being checked; the code is
/// that of the worst.
fn check_each(args: &VerifyArgs, logs: &[Log], against: &Against) -> Result<Exit, Failure> {
    let (mut objects, mut is_whole, mut holds, mut is_held) = (Vec::new(), true, true, true);
    for log in logs {
        let dir = log.dir();
        let dir = dir.to_string_lossy();
        let outcome = check(args, log, against);
        is_whole &= outcome.is_ok();
        holds &= outcome.as_ref().is_ok_and(|findings| findings.faults.count == 0);
        is_held &= outcome.as_ref().is_ok_and(|findings| !findings.is_without_heads());
        match (args.format, outcome) {
            (Form::Text, Ok(findings)) => {
                print(format!("{}:\n{}\n", printable(&dir), against.text(&findings)))?
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
            match (holds, is_held) {
                (true, true) => "All of them hold.",
                (true, false) =>
                    "All of them hold in themselves; not of all is there a head to hold them against.",
                (false, _) => "Not all of them hold.",
            }
        ))?,
        Form::Json => print(format!("{:#}\n", json!({ "holds": holds, "logs": objects })))?,
    }
    Ok(match (is_whole, holds) {
        (false, _) => Exit::InputOutput,
        (true, false) => Exit::No,
        (true, true) if !is_held => Exit::Unavailable,
        (true, true) => Exit::Done,
    })
}

/// The value of one `--head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads(pub Vec<GivenHead>);

/// Parses `SEQ:HASH` or a checkpoint, or reads a file with any of them. In a file, `log:ID` in the line of a head names
/// its log.
///
/// # Errors
///
/// What is wrong with the text or the file.
pub fn heads(text: &str) -> Result<Heads, String> {
    if let Some(head) = stated_head(text) {
        return Ok(head);
    }
    let file = files::read_text(Path::new(text), NAMED_LIST_BYTES_MAX).map_err(|error| {
        format!(
            "neither SEQ:HASH (as in 12:9f86d0…, 64 digits), nor a checkpoint, nor a file: {error}"
        )
    })?;
    let heads: Vec<GivenHead> = match read_head(&file) {
        Some(head) => vec![head],
        None => {
            let (checkpoints, others) = SignedCheckpoint::parse_all(&file);
            let heads = others.into_iter().flat_map(of_line);
            checkpoints.into_iter().map(GivenHead::checkpoint).chain(heads).collect()
        }
    };
    if heads.is_empty() {
        Err("there is no SEQ:HASH in that file, and no checkpoint".into())
    } else {
        Ok(Heads(heads))
    }
}

/// A head or a checkpoint as it is written; no file is read.
pub fn stated_head(text: &str) -> Option<Heads> {
    let checkpoint = || SignedCheckpoint::parse(text).map(GivenHead::checkpoint);
    head(text).or_else(checkpoint).map(|head| Heads(vec![head]))
}

/// Those of a line of text, or the one of a line of JSON.
fn of_line(line: &str) -> Vec<GivenHead> {
    let log = line.split_whitespace().find_map(|word| LogId::parse(word.strip_prefix("log:")?));
    let words = line.split_whitespace().filter_map(head).map(|head| head.of_log(log));
    words.chain(read_head(line)).collect()
}

/// As `courtesy audit head --format json` prints it.
fn read_head(text: &str) -> Option<GivenHead> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(flatten)]
        head: Head,
        #[serde(default)]
        log: Option<LogId>,
        #[serde(default)]
        checkpoint: Option<String>,
    }
    let Named { head, log, checkpoint } = serde_json::from_str(text).ok()?;
    if let Some(checkpoint) = checkpoint {
        return SignedCheckpoint::parse(&checkpoint).map(GivenHead::checkpoint);
    }
    Some(GivenHead::published(head).of_log(log))
}

/// `SEQ:HASH`.
fn head(text: &str) -> Option<GivenHead> {
    let (seq, hash) = text.split_once(':')?;
    let hash = hash.to_ascii_lowercase();
    crate::types::sanitize::digest(&hash)?;
    Some(GivenHead::published(Head { hash, seq: seq.parse().ok()? }))
}
