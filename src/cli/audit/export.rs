//! `courtesy audit export`: the records that match, or their evidence, for other programs.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::dossier::Dossier;
use super::filters::{self, FilterFlags, ProfileFlag};
use super::form::{Form, Layout, Printer, only_records, record};
use super::log_source::LogSourceFlags;
use super::progress::Progress;
use super::search::{Search, Taken};
use super::verify::{Heads, heads};
use crate::audit::evidence::warc::{Info, Packing};
use crate::audit::read::archive::{Archive, Findings};
use crate::audit::read::bundle::{self, Lacks, WriteError};
use crate::audit::read::{Filter, Log};
use crate::audit::{ARCHIVE_CAPTURES_MAX, FAULTS_DESCRIBED_MAX};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::create_private;
use crate::runtime::clock::{Clock, SystemClock};

/// The arguments of `courtesy audit export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy audit export --since 2026-11-01 --until 2026-11-30 --output november.jsonl
  courtesy audit export --origin example.com --output example.csv
  courtesy audit export --run last --format csv > run.csv
  courtesy audit export --since 1h --format ecs --output events.ndjson
  courtesy audit export --since 2026-11-01 --output evidence.warc.gz
  courtesy audit export --since 2026-11-01 --until 2026-11-30 --output november.tar
  courtesy audit export --format dossier --origin https://example.com --output example.tar

JSON Lines are the very lines of the log, hashes included. In CSV a cell that a spreadsheet would
compute has an apostrophe before it. ECS, OCSF and CEF are events for systems that gather them, one
line each. WARC has the evidence that the records name: each fetch of a robots.txt once, requests,
answers and file; if FILE ends in .gz, each record of it is compressed by itself. A file is made so
that only you can read it.

A bundle (a tar file) is a part of one log, to be handed on: the files that have lines of the time
that is asked for (--since, --until), whole and as they are stored, their evidence, and head.json.
Unpacked it is a log that courtesy audit verify --part checks. What was changed is in it as it is,
and said on standard error.

A dossier (a tar file, too) is what one log has about one site and about no other, for its owner:
the lines as they stand, their evidence, a page to read, and a Python file that checks it where
there is no courtesy. The other lines are represented by hashes, so that all hangs on a checkpoint.

A record that was changed after being written, so that its text is not what its hash was made of, is
left out in every other format, and said on standard error. Records are written; what the log says
of itself (notices), as JSON Lines where --event names it.

Exit codes: 0 done · 1 a record or evidence was changed, evidence is missing, or a line is damaged
and left out; the rest is written; or there is nothing to bundle · 2 usage · 69 there is no log ·
74 a part of it could not be read, or the output could not be written")]
pub struct ExportArgs {
    /// Read these files instead: segments, compressed or not, in any order; or dossiers or bundles, packed or not
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// [default: as FILE ends, else jsonl]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Of a dossier: a file of checkpoints that were published, which the log is shown to go on from (may be
    /// repeated)
    #[arg(long, value_name = "FILE", value_parser = heads)]
    head: Vec<Heads>,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    profile: ProfileFlag,
    #[command(flatten)]
    place: LogSourceFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// JSON Lines
    Jsonl,
    Csv,
    /// Events of the Elastic Common Schema, a line of JSON each
    Ecs,
    /// Events of OCSF, class HTTP Activity, a line of JSON each
    Ocsf,
    /// Events of the Common Event Format, a line each
    Cef,
    /// The evidence, as a web archive (WARC 1.1)
    Warc,
    /// Files of the log and their evidence, for courtesy audit verify --part (tar)
    Bundle,
    /// What the log has about one site, and of no other, for its owner (tar)
    Dossier,
}

/// Runs `courtesy audit export`.
pub fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    match args.format() {
        Format::Jsonl => export(args, logs, Some(Form::Json)),
        Format::Csv => export(args, logs, Some(Form::Csv)),
        Format::Ecs => export(args, logs, Some(Form::Ecs)),
        Format::Ocsf => export(args, logs, Some(Form::Ocsf)),
        Format::Cef => export(args, logs, Some(Form::Cef)),
        Format::Warc => export(args, logs, None),
        format => match export_part(args, format, &logs) {
            Err(failure) if failure.is_broken_pipe() => Ok(Exit::Done),
            outcome => outcome,
        },
    }
}

/// A part of the only log.
fn export_part(args: &ExportArgs, format: Format, logs: &[Log]) -> Result<Exit, Failure> {
    let filter = args.filters.filter_with(&args.profile);
    filters::check(filter.since, filter.until)?;
    if logs.iter().any(|log| matches!(log, Log::Dossier(_))) {
        let why = "a dossier has not the whole log that another is made of: hand it on as it is";
        return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
    }
    if format == Format::Bundle {
        return export_bundle(args, &filter, logs);
    }
    let dossier = Dossier::of(logs, &filter, &args.place, &args.head)?;
    to_output(args, |output| dossier.write(BufWriter::with_capacity(64 << 10, output)))
}

/// The files of the only log in `logs` that have lines of the time that is asked for.
fn export_bundle(args: &ExportArgs, filter: &Filter, logs: &[Log]) -> Result<Exit, Failure> {
    let (since, until) = (filter.since, filter.until);
    let [log] = logs else {
        let why = "a bundle is of one log, for each has its own chain: give one --dir at a time";
        return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
    };
    if *filter != (Filter { since, until, ..Filter::default() }) {
        let why = "a bundle has whole files of the log: choose them by --since and --until alone";
        return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
    }
    let segments = bundle::find(log, since, until)?;
    if segments.is_empty() {
        return Err(anyhow::anyhow!("no line is of that time, so there is nothing to bundle"))
            .or_exit(Exit::No);
    }
    let mut progress = Progress::new();
    let mut tell = |extent, lines| progress.at(|| extent, lines);
    let lacks = to_output(args, |output| {
        Ok(bundle::write(log, &segments, BufWriter::with_capacity(64 << 10, output), &mut tell)?)
    })?;
    progress.clear();
    Ok(say_lacks(&lacks))
}

/// Reports what does not hold in a bundle that was just written.
fn say_lacks(Lacks { damaged, evidence }: &Lacks) -> Exit {
    if *damaged > 0 {
        let lines = if *damaged == 1 { "1 line is" } else { &format!("{damaged} lines are") };
        eprintln!(
            "warning: {lines} damaged or changed; in the bundle, too, the chain does not hold there"
        );
    }
    for name in evidence.iter().take(FAULTS_DESCRIBED_MAX) {
        eprintln!("warning: evidence is not in the bundle: {name}");
    }
    if evidence.len() > FAULTS_DESCRIBED_MAX {
        let more = evidence.len() - FAULTS_DESCRIBED_MAX;
        eprintln!("warning: and {more} more; courtesy audit verify counts them all");
    }
    if *damaged == 0 && evidence.is_empty() { Exit::Done } else { Exit::No }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Read(error) => error.into(),
            WriteError::Output(error) => error.into(),
            WriteError::TooLarge => Self { exit: Exit::Usage, error: error.into() },
            WriteError::Changed => Self { exit: Exit::InputOutput, error: error.into() },
        }
    }
}

/// Writes to the file that is named, which only this user may read, or to standard output.
fn to_output<T>(
    args: &ExportArgs,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match &args.output {
        None => write(&mut io::stdout().lock()),
        Some(path) => create_private(path)
            .map_err(Failure::from)
            .and_then(|mut file| write(&mut file))
            .map_err(|Failure { exit, error }| Failure {
                exit,
                error: error.context(format!("cannot write {}", path.display())),
            }),
    }
}

/// The records in that form; without one, their evidence.
fn export(args: &ExportArgs, logs: Vec<Log>, form: Option<Form>) -> Result<Exit, Failure> {
    let dirs: Vec<_> = logs.iter().map(Log::dir).collect();
    let filter = args.filters.filter_with(&args.profile);
    match form {
        Some(form) => form.check(&filter)?,
        None => only_records(&filter, &[], "WARC has the evidence of records", "--format json")?,
    }
    let mut search = Search::new(logs, filter)?;
    if form.is_some() {
        search = search.with_notices();
    }
    let written = to_output(args, |output| write(args, form, &dirs, &mut search, output));
    match written {
        Err(failure) if failure.is_broken_pipe() => Ok(Exit::Done),
        Err(failure) => Err(failure),
        Ok(exit) => Ok(match search.conclude("left out") {
            Exit::Done => exit,
            unreadable => unreadable,
        }),
    }
}

fn write(
    args: &ExportArgs,
    form: Option<Form>,
    dirs: &[PathBuf],
    search: &mut Search,
    output: &mut dyn Write,
) -> Result<Exit, Failure> {
    let output = BufWriter::with_capacity(64 << 10, output);
    match form {
        Some(form) => write_records(form, search, output),
        None => write_evidence(args.packing(), dirs, search, output),
    }
}

fn write_records(form: Form, search: &mut Search, output: impl Write) -> Result<Exit, Failure> {
    let mut printer = Printer::new(form, output, false, Layout::wide())?;
    let _ = search
        .run(&mut |hit| if hit.is_changed { Ok(Taken::Good) } else { Ok(printer.print(hit)?) })?;
    printer.flush()?;
    Ok(Exit::Done)
}

fn write_evidence(
    packing: Packing,
    dirs: &[PathBuf],
    search: &mut Search,
    output: impl Write,
) -> Result<Exit, Failure> {
    let info = Info {
        made_at: SystemClock.wall(),
        description: "how the robots.txt files were fetched that denial records name".into(),
    };
    let mut archive = Archive::new(dirs, output, packing, &info)?;
    let _ = search.run(&mut |hit| match record(hit.line) {
        _ if hit.is_changed => Ok(Taken::Good),
        Some((record, _)) => {
            archive.add(hit.log, &record)?;
            Ok(Taken::Good)
        }
        None => Ok(Taken::Damaged),
    })?;
    Ok(exit(&archive.finish()?))
}

/// Reports what is missing from an archive.
fn exit(Findings { faults, may_repeat }: &Findings) -> Exit {
    faults.described.iter().for_each(|fault| eprintln!("warning: {fault}"));
    let more = faults.count - faults.described.len() as u64;
    if more > 0 {
        eprintln!("warning: and {more} more; courtesy audit verify counts them all");
    }
    if *may_repeat {
        eprintln!(
            "note: there are more than {ARCHIVE_CAPTURES_MAX} captures; those after them may be in the \
             archive more than once"
        );
    }
    if faults.count == 0 { Exit::Done } else { Exit::No }
}

impl ExportArgs {
    fn format(&self) -> Format {
        let by_name = match self.output_ends().as_slice() {
            ["csv", ..] => Format::Csv,
            ["tar", ..] => Format::Bundle,
            ["warc", ..] | ["gz", "warc", ..] => Format::Warc,
            _ => Format::Jsonl,
        };
        self.format.unwrap_or(by_name)
    }

    fn packing(&self) -> Packing {
        if self.output_ends().first() == Some(&"gz") { Packing::Gzip } else { Packing::Plain }
    }

    /// The extensions of the output's name, the last one first.
    fn output_ends(&self) -> Vec<&str> {
        let name = self.output.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let mut parts: Vec<_> = name.unwrap_or_default().rsplit('.').collect();
        // Before all dots stands the name itself.
        parts.pop();
        parts
    }
}
