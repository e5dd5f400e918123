//! The formats of records: a table for people, the unchanged lines of the log, or CSV.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;

use super::search::Taken;
use super::sources::Hit;
use super::{csv_row, table};
use crate::audit::read::Filter;
use crate::audit::{Content, Notice, Record, split};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::types::sanitize;

/// The form of printed records (`--format`).
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Table,
    /// JSON Lines: the lines of the log as they are
    #[value(alias = "jsonl")]
    Json,
    Csv,
}

/// Prints lines of the log.
pub enum Printer<W: Write> {
    Table { layout: table::Layout, output: W },
    Json { output: W, is_terminal: bool },
    Csv(Box<csv::Writer<W>>),
}

impl Form {
    /// Refuses notices in a form that has no place for them.
    pub fn check(self, filter: &Filter) -> Result<(), Failure> {
        match self {
            Self::Csv => only_records(filter, "CSV has a row for each record", "--format json"),
            Self::Table | Self::Json => Ok(()),
        }
    }

    /// A table for a terminal, else the lines.
    pub fn for_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Table } else { Self::Json }
    }
}

impl<W: Write> Printer<W> {
    /// `is_terminal`: the output goes to one; `layout`: of a table.
    pub fn new(
        form: Form,
        mut output: W,
        is_terminal: bool,
        layout: table::Layout,
    ) -> io::Result<Self> {
        Ok(match form {
            Form::Table => {
                output.write_all(layout.heading().as_bytes())?;
                Self::Table { layout, output }
            }
            Form::Json => Self::Json { output, is_terminal },
            Form::Csv => {
                let mut sheet = csv::Writer::from_writer(output);
                sheet.write_record(csv_row::HEADER).map_err(io_error)?;
                Self::Csv(Box::new(sheet))
            }
        })
    }

    /// A line that was changed is marked in the table and left out of CSV, which has no hash to
    /// check; JSON Lines are the lines of the log.
    pub fn print(&mut self, Hit { line, is_changed, .. }: Hit<'_>) -> io::Result<Taken> {
        match self {
            Self::Json { output, is_terminal: false } => {
                output.write_all(line)?;
                output.write_all(b"\n")?;
            }
            Self::Json { output, is_terminal: true } => {
                let line = String::from_utf8_lossy(line);
                writeln!(output, "{}", sanitize::shown(&line, sanitize::escape_json))?;
            }
            Self::Table { layout, output } => match content(line) {
                Some((Content::Record(record), _)) => {
                    output.write_all(layout.row(&record, is_changed).as_bytes())?;
                }
                Some((Content::Notice(notice), _)) => {
                    output.write_all(layout.notice(&notice, is_changed).as_bytes())?;
                }
                None => return Ok(Taken::Damaged),
            },
            Self::Csv(_) if is_changed => {}
            Self::Csv(sheet) => match content(line) {
                Some((Content::Record(record), hash)) => {
                    sheet.write_record(csv_row::row(&record, hash)).map_err(io_error)?;
                }
                // See [`Form::check`].
                Some((Content::Notice(_), _)) | None => return Ok(Taken::Damaged),
            },
        }
        Ok(Taken::Good)
    }

    /// What was done with changed lines, for [`super::search::Search::conclude`].
    pub const fn changed_are(&self) -> &'static str {
        match self {
            Self::Table { .. } => "marked with ! in the table",
            Self::Json { .. } => "printed as in the log",
            Self::Csv(_) => "left out",
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Table { output, .. } | Self::Json { output, .. } => output.flush(),
            Self::Csv(sheet) => sheet.flush(),
        }
    }
}

/// Refuses a filter that asks for notices: `why` nothing would be found. `instead`: what prints them.
pub fn only_records(filter: &Filter, why: &str, instead: &str) -> Result<(), Failure> {
    let notices: Vec<_> =
        filter.events.iter().filter(|event| Notice::WORDS.contains(&event.as_str())).collect();
    let Some(first) = notices.first() else { return Ok(()) };
    Err(anyhow::anyhow!("{why}, and {first} is a notice: courtesy audit query {instead} prints it"))
        .or_exit(Exit::Usage)
}

/// A line as a record, and its hash.
pub fn record(line: &[u8]) -> Option<(Box<Record>, &str)> {
    match content(line)? {
        (Content::Record(record), hash) => Some((record, hash)),
        (Content::Notice(_), _) => None,
    }
}

/// The content of a line, and its hash.
fn content(line: &[u8]) -> Option<(Content, &str)> {
    let (_, hash) = split(line)?;
    Content::parse(line).ok().map(|content| (content, hash))
}

/// The error of the operating system, which the crate's error hides.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
