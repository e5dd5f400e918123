//! `courtesy audit export`: the records that match, or their evidence, for other programs.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::archive::Archive;
use super::filters::FilterFlags;
use super::form::{Form, Printer};
use super::is_broken_pipe;
use super::place::PlaceFlags;
use super::search::Search;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::evidence::Shelf;
use crate::evidence::warc::Packing;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy audit export --since 2026-11-01 --until 2026-11-30 --output november.jsonl
  courtesy audit export --format csv --origin example.com --output example.csv
  courtesy audit export --run last --format csv > run.csv
  courtesy audit export --since 7d --format warc --output week.warc.gz

JSON Lines are the very lines of the log, hashes included. In CSV a cell that a spreadsheet would
compute has an apostrophe before it. WARC 1.1 has the evidence that the records name: each robots.txt
with the answers by which it came; it is compressed when FILE ends in .gz. A file is made so that only
you can read it.

Exit codes: 0 done · 2 usage · 69 there is no log · 74 a part of it, or of the evidence, could not be
read, or the output could not be written")]
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
    /// A web archive of the evidence
    Warc,
}

pub fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let log = args.place.log(&args.files)?;
    let shelf = Shelf::of(&log.dir());
    let mut search = Search::new(log, args.filters.filter())?;
    let written = match &args.output {
        None => write(args, &mut search, shelf, io::stdout().lock()),
        Some(path) => write(args, &mut search, shelf, create(path)?).map_err(|Failure { exit, error }| {
            Failure { exit, error: error.context(format!("cannot write {}", path.display())) }
        }),
    };
    match written {
        Err(failure) if is_broken_pipe(&failure) => Ok(Exit::Done),
        Ok(Exit::Done) => Ok(search.conclude()),
        Ok(worse) => {
            search.conclude();
            Ok(worse)
        }
        Err(failure) => Err(failure),
    }
}

fn write(args: &ExportArgs, search: &mut Search, shelf: Shelf, output: impl Write) -> Result<Exit, Failure> {
    let output = BufWriter::with_capacity(64 << 10, output);
    let form = match args.format {
        Format::Jsonl => Form::Json,
        Format::Csv => Form::Csv,
        Format::Warc => return archive(args, search, shelf, output),
    };
    let mut printer = Printer::new(form, output, false)?;
    let _ = search.run(&mut |line| Ok(printer.print(line)?))?;
    printer.flush()?;
    Ok(Exit::Done)
}

fn archive(
    args: &ExportArgs,
    search: &mut Search,
    shelf: Shelf,
    output: impl Write,
) -> Result<Exit, Failure> {
    let is_gzip = args.output.as_ref().is_some_and(|path| path.extension() == Some("gz".as_ref()));
    let packing = if is_gzip { Packing::Gzip } else { Packing::Plain };
    let mut archive = Archive::new(output, packing, shelf)?;
    let _ = search.run(&mut |line| Ok(archive.add(line)?))?;
    let exit = if archive.is_partial { Exit::InputOutput } else { Exit::Done };
    archive.finish()?;
    Ok(exit)
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
