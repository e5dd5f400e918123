//! The formats of records: a table for people, the unchanged lines of the log, CSV, or events of other systems.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use rustix::termios::tcgetwinsize;

use super::notices::{self, word, words};
use super::search::{Hit, Taken};
use super::siem::EventFormat;
use crate::audit::read::Filter;
use crate::audit::{Content, Event, Node, Notice, Reason, Record, print_time, split};
use crate::cli::environment;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::Paint;
use crate::types::sanitize;

/// The form of printed records (`--format`).
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Table,
    /// JSON Lines: the lines of the log as they are
    #[value(alias = "jsonl")]
    Json,
    Csv,
    /// Events of the Elastic Common Schema, a line of JSON each
    Ecs,
    /// Events of OCSF, class HTTP Activity, a line of JSON each
    Ocsf,
    /// Events of the Common Event Format, a line each
    Cef,
}

/// Prints lines of the log.
pub enum Printer<W: Write> {
    Table { layout: Layout, output: W },
    Json { output: W, is_terminal: bool },
    Csv(Box<csv::Writer<W>>),
    Events { format: EventFormat, output: W },
}

impl Form {
    /// Refuses notices in a form that has no place for them.
    pub fn check(self, filter: &Filter) -> Result<(), Failure> {
        match self {
            Self::Csv => {
                only_records(filter, &[], "CSV has a row for each record", "--format json")
            }
            Self::Ecs | Self::Ocsf | Self::Cef => {
                only_records(filter, &[], "an event is made of a record", "--format json")
            }
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
    pub fn new(form: Form, mut output: W, is_terminal: bool, layout: Layout) -> io::Result<Self> {
        Ok(match form {
            Form::Table => {
                output.write_all(layout.heading().as_bytes())?;
                Self::Table { layout, output }
            }
            Form::Json => Self::Json { output, is_terminal },
            Form::Csv => {
                let mut sheet = csv::Writer::from_writer(output);
                sheet.write_record(notices::HEADER).map_err(io_error)?;
                Self::Csv(Box::new(sheet))
            }
            Form::Ecs => Self::Events { format: EventFormat::Ecs, output },
            Form::Ocsf => Self::Events { format: EventFormat::Ocsf, output },
            Form::Cef => Self::Events { format: EventFormat::Cef, output },
        })
    }

    /// A line that was changed is marked in the table, and left out of CSV and events, whose hash cannot be checked;
    /// JSON Lines are the lines of the log.
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
            Self::Csv(_) | Self::Events { .. } if is_changed => {}
            Self::Csv(sheet) => match content(line) {
                Some((Content::Record(record), hash)) => {
                    sheet.write_record(notices::csv_row(&record, hash)).map_err(io_error)?;
                }
                // See [`Form::check`].
                Some((Content::Notice(_), _)) | None => return Ok(Taken::Damaged),
            },
            Self::Events { format, output } => match record(line) {
                Some((record, hash)) => writeln!(output, "{}", format.line(&record, hash))?,
                None => return Ok(Taken::Damaged),
            },
        }
        Ok(Taken::Good)
    }

    /// What was done with changed lines, for [`super::search::Search::conclude`].
    pub const fn changed_are(&self) -> &'static str {
        match self {
            Self::Table { .. } => "marked with ! in the table",
            Self::Json { .. } => "printed as in the log",
            Self::Csv(_) | Self::Events { .. } => "left out",
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Table { output, .. }
            | Self::Json { output, .. }
            | Self::Events { output, .. } => output.flush(),
            Self::Csv(sheet) => sheet.flush(),
        }
    }
}

/// Refuses a filter that asks for notices, but for those of the words `besides`: `why` nothing would be found.
/// `instead`: what prints them.
pub fn only_records(
    filter: &Filter,
    besides: &[&str],
    why: &str,
    instead: &str,
) -> Result<(), Failure> {
    let is_refused = |event: &str| Notice::WORDS.contains(&event) && !besides.contains(&event);
    let Some(first) = filter.events.iter().find(|event| is_refused(event.as_str())) else {
        return Ok(());
    };
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

const WIDTH_MIN: usize = 60;
/// Where it is not known how wide the reader's screen is.
const WIDTH: usize = 100;
const GAP: usize = 2;
const NODE: usize = 16;
const URL_MIN: usize = 10;

/// The widths of the columns; none where rows may be as long as they like.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// None without the column of proxies.
    node: Option<usize>,
    seq: usize,
    /// Bytes of the time that are left out at its beginning.
    time_from: usize,
    agent: usize,
    why: usize,
    url: Option<usize>,
    paint: Paint,
}

impl Layout {
    /// As wide as the terminal; elsewhere COLUMNS, or [`WIDTH`].
    pub fn of_output(is_terminal: bool) -> Self {
        let size = is_terminal.then(|| tcgetwinsize(std::io::stdout()).ok()).flatten();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        let set = || environment::variable("COLUMNS")?.parse().ok();
        Self::of_width(columns.or_else(set).unwrap_or(WIDTH).max(WIDTH_MIN), Paint::for_stdout())
    }

    /// Nothing is cut: rows are as long as their text.
    pub fn wide() -> Self {
        let paint = Paint::for_stdout();
        Self { node: None, seq: 8, time_from: 0, agent: 16, why: 28, url: None, paint }
    }

    fn of_width(columns: usize, paint: Paint) -> Self {
        // With a year if there is room.
        let (seq, time_from) = (8, if columns >= 120 { 0 } else { 5 });
        let rest = columns.saturating_sub(seq + (TIME_BYTES - time_from) + 4 * GAP);
        let (agent, why) = (rest / 5, rest * 3 / 10);
        Self { node: None, seq, time_from, agent, why, url: Some(rest - agent - why), paint }
    }

    /// With a column for the proxy that wrote a line, as much narrower is the last.
    pub fn with_nodes(self) -> Self {
        let url = self.url.map(|url| url.saturating_sub(NODE + GAP).max(URL_MIN));
        Self { node: Some(NODE), url, ..self }
    }

    /// The line above the columns.
    pub fn heading(&self) -> String {
        let time = if self.time_from == 0 { "TIME (UTC)" } else { "UTC" };
        let row = self.columns("SEQ", time, "AGENT", "WHY", "URL");
        let node = self.node.map(|width| format!("{:<width$}  ", "NODE")).unwrap_or_default();
        format!("{}\n", self.paint.faint(format!("{node}{}", row.join("  ").trim_end())))
    }

    /// With its line end. Before the number of a record that was changed stands `!`.
    pub fn row(&self, record: &Record, is_changed: bool) -> String {
        let time = print_time(record.time).replace('T', " ");
        let time = &time[self.time_from..TIME_BYTES];
        let agent = record.agent.as_deref().unwrap_or("-");
        let seq = marked(record.seq, is_changed);
        let [seq, time, agent, why, url] =
            self.columns(&seq, time, agent, &why(record), &record.url);
        let seq = if is_changed { self.paint.bad(seq) } else { self.paint.faint(seq) };
        let why = match record.event {
            Event::Denied => self.paint.bad(why),
            Event::WouldDeny => self.paint.doubtful(why),
            Event::Exempted | Event::Tunnelled => self.paint.good(why),
        };
        let node = self.node_cell(record.node.as_ref());
        format!("{node}{seq}  {}  {agent}  {why}  {url}\n", self.paint.faint(time))
    }

    /// The row of a notice.
    pub fn notice(&self, notice: &Notice, is_changed: bool) -> String {
        let time = print_time(notice.time()).replace('T', " ");
        let (seq, time) = (marked(notice.seq(), is_changed), &time[self.time_from..TIME_BYTES]);
        let row = self.columns(&seq, time, "-", notice.word(), &words(notice));
        format!("{}{}\n", self.node_cell(notice.node()), self.paint.faint(row.join("  ")))
    }

    fn node_cell(&self, node: Option<&Node>) -> String {
        let name = node.map_or("-", Node::as_str);
        self.node.map(|width| format!("{}  ", self.cell(name, width))).unwrap_or_default()
    }

    fn columns(&self, seq: &str, time: &str, agent: &str, why: &str, url: &str) -> [String; 5] {
        let url = match self.url {
            Some(width) => fit(url, width).trim_end().to_owned(),
            None => printable(url),
        };
        let width = TIME_BYTES - self.time_from;
        [
            format!("{seq:>0$}", self.seq),
            format!("{time:<width$}"),
            self.cell(agent, self.agent),
            self.cell(why, self.why),
            url,
        ]
    }

    /// Cut only where a row must be a line of the terminal.
    fn cell(&self, text: &str, width: usize) -> String {
        match self.url {
            Some(_) => fit(text, width),
            None => format!("{:<width$}", printable(text)),
        }
    }
}

fn marked(seq: u64, is_changed: bool) -> String {
    format!("{}{seq}", if is_changed { "!" } else { "" })
}

/// `2026-11-20 12:00:00`.
const TIME_BYTES: usize = 19;

/// The line that decided, or the reason; and the event if it is no denial.
fn why(record: &Record) -> String {
    let why = match (&record.rule, record.reason) {
        (Some(rule), Reason::DisallowRule) => {
            format!("{}: {}: {}", rule.line, rule.directive, rule.pattern)
        }
        (_, reason) => word(reason),
    };
    match record.event {
        Event::Denied => why,
        event => format!("{}, {why}", word(event)),
    }
}

/// Escaped again, since the record may have been changed.
pub fn printable(text: &str) -> String {
    let escape = |shown: &mut String, character: char| {
        character
            .encode_utf8(&mut [0; 4])
            .bytes()
            .for_each(|byte| shown.push_str(&format!("\\x{byte:02X}")));
    };
    sanitize::shown(text, escape).into_owned()
}

/// Padded or cut to `width` columns; cut text ends in `…`.
pub fn fit(text: &str, width: usize) -> String {
    let text = printable(text);
    let columns: usize = text.chars().map(char_columns).sum();
    if columns <= width {
        return text + &" ".repeat(width - columns);
    }
    let mut used = 0;
    let mut cut: String = text
        .chars()
        .take_while(|character| {
            used += char_columns(*character);
            used < width
        })
        .collect();
    cut.push('…');
    let used: usize = cut.chars().map(char_columns).sum();
    cut + &" ".repeat(width.saturating_sub(used))
}

/// Characters from U+1100 on count as two columns, like an ideograph: a column too many is left
/// empty, one too few would break the line.
pub const fn char_columns(character: char) -> usize {
    if character as u32 >= 0x1100 && character != '…' { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_and_says_so() {
        for (text, expected) in [
            ("abc", "abc   "),
            ("abcdef", "abcdef"),
            ("abcdefg", "abcde…"),
            ("日本語", "日本語"),
            ("日本語a", "日本… "),
            ("a\u{202e}bcdef", "a\\xE2…"),
            ("\u{1b}[2J", "\\x1B[…"),
        ] {
            assert_eq!(fit(text, 6), expected, "{text:?}");
        }
    }

    #[test]
    fn a_heading_is_as_wide_as_the_terminal_or_less() {
        for columns in [60, 80, 100, 200] {
            let layout = Layout::of_width(columns, Paint::OFF);
            let url = layout.url.unwrap();
            assert_eq!(
                layout.seq + TIME_BYTES - layout.time_from + layout.agent + layout.why + url + 8,
                columns
            );
        }
    }
}
