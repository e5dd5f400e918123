//! `courtesy audit export`: the records that match, for other programs.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::filters::FilterFlags;
use super::form::{Form, Printer};
use super::is_broken_pipe;
use super::place::PlaceFlags;
use super::search::Search;
use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy audit export --since 2026-11-01 --until 2026-11-30 --output november.jsonl
  courtesy audit export --format csv --origin example.com --output example.csv
  courtesy audit export --run last --format csv > run.csv

JSON Lines are the very lines of the log, hashes included. In CSV a cell that a spreadsheet would
compute has an apostrophe before it. A file is made so that only you can read it.

Exit codes: 0 done · 2 usage · 69 there is no log · 74 a part of it could not be read, or the output
could not be written")]
pub struct ExportArgs {
    /// Read these files instead: segments, compressed or not, in any order
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Format {
    /// JSON Lines
    #[default]
    Jsonl,
    Csv,
}

pub fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let mut search = Search::new(args.place.log(&args.files)?, args.filters.filter())?;
    let written = match &args.output {
        None => write(args, &mut search, io::stdout().lock()),
        Some(path) => write(args, &mut search, create(path)?).map_err(|Failure { exit, error }| Failure {
            exit,
            error: error.context(format!("cannot write {}", path.display())),
        }),
    };
    match written {
        Err(failure) if is_broken_pipe(&failure) => Ok(Exit::Done),
        outcome => outcome.map(|()| search.conclude()),
    }
}

fn write(args: &ExportArgs, search: &mut Search, output: impl Write) -> Result<(), Failure> {
    let output = BufWriter::with_capacity(64 << 10, output);
    let form = match args.format {
        Format::Jsonl => Form::Json,
        Format::Csv => Form::Csv,
    };
    let mut printer = Printer::new(form, output, false)?;
    let _ = search.run(&mut |line| Ok(printer.print(line)?))?;
    Ok(printer.flush()?)
}

/// Readable by nobody else: records say who asked for what.
fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    let opened = options.open(path);
    opened
        .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
        .or_exit(Exit::InputOutput)
}
