//! A report as a summary for the terminal, at most a hundred columns wide: what matters first, and
//! where the rest is.

use std::fmt::Display;

use super::sections::{Kind, Section, facts, sections, warning};
use super::words::{asked, headline, instances, minute, number, period, subject, verification};
use crate::audit::read::report::{NamedLog, Report};
use crate::cli::audit::form::{fit, printable};
use crate::cli::output::{Paint, wrapped};

/// The width of a summary.
const COLUMNS: usize = 100;
/// Rows of each list.
const ROWS: usize = 2;

/// The report as a summary of some twenty lines.
pub fn print(report: &Report, paint: Paint) -> String {
    let mut text = Text { text: String::new() };
    text.line(paint.strong(format_args!("{}, {}", subject(report), period(report))));
    text.fold(&headline(report), |line| line);
    if !report.period.is_of_all() {
        text.fold(&format!("of {}", asked(report)), |line| line);
    }
    if let Some(head) = &report.log.head {
        text.line(format_args!("log up to line {} {}", number(head.seq), head.hash));
    }
    for NamedLog { dir, log } in &report.logs {
        let head = log.head.as_ref().map(|head| format!(" up to line {}", number(head.seq)));
        let head = head.unwrap_or_else(|| ", without a line".into());
        text.fold(&format!("log {dir}{head}"), |line| line);
    }
    if let Some(warning) = warning(&report.missing) {
        text.fold(&format!("WARNING: {warning}"), |line| paint.bad(line));
    }
    if let Some(instances) = instances(report) {
        text.fold(&format!("written {instances}"), |line| line);
    }
    let is_in_doubt = report.verified.as_ref().is_some_and(|verified| !verified.holds);
    text.fold(&verification(report), |line| if is_in_doubt { paint.doubtful(line) } else { line });
    let facts = facts(report).into_iter().map(|(name, value)| format!("{name} {value}"));
    text.fold(&facts.collect::<Vec<_>>().join(" · "), |line| line);
    for section in sections(report).iter().filter(|section| section.is_of_summary) {
        text.section(section, paint);
    }
    let made = format!("made {} UTC by courtesy {}", minute(report.made_at), report.courtesy);
    text.line(paint.faint(format_args!("{made}; all of it: --output report.html, or .json")));
    text.text
}

struct Text {
    text: String,
}

impl Text {
    fn line(&mut self, line: impl Display) {
        self.text.push_str(&format!("{line}\n"));
    }

    /// In as many lines as it takes.
    fn fold(&mut self, words: &str, painted: impl Fn(String) -> String) {
        for line in wrapped(&printable(words), COLUMNS) {
            self.line(painted(fit(&line, COLUMNS).trim_end().to_owned()));
        }
    }

    /// Its title, its notes, and its first rows.
    fn section(&mut self, section: &Section, paint: Paint) {
        let notes = format!("{}: {}", section.title, section.notes.join(" "));
        self.fold(notes.trim_end_matches([':', ' ']), |line| {
            if section.is_urgent { paint.doubtful(line) } else { line }
        });
        for row in section.table.rows.iter().take(ROWS) {
            let cells = || section.table.columns.iter().zip(&row.cells);
            // What it is about first: the end of a long row is cut.
            let texts = cells().filter(|(column, cell)| {
                matches!(column.kind, Kind::Text | Kind::Word) && !cell.is_empty()
            });
            let numbers = cells().filter(|(column, cell)| {
                column.kind == Kind::Number && !cell.is_empty() && *cell != "0"
            });
            let numbers =
                numbers.map(|(column, cell)| format!("{} {cell}", column.title.to_lowercase()));
            let cells = texts.map(|(_, cell)| cell.clone()).chain(numbers);
            let row = format!("  {}", cells.collect::<Vec<_>>().join(", "));
            self.line(fit(&row, COLUMNS).trim_end());
        }
    }
}
