//! A section of a report, and what several of them print.

use crate::audit::read::report::{AgentKey, OriginKey, Top};
use crate::cli::audit::report::words::{fraction, number, plural};

/// A part of the report under one heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: &'static str,
    /// Sentences before the table.
    pub notes: Vec<String>,
    /// Whether the notes need attention.
    pub is_urgent: bool,
    pub table: Table,
    /// A sentence after it.
    pub foot: Option<String>,
    /// It has a place in the summary, too.
    pub is_of_summary: bool,
}

/// The origin of a row.
pub fn origin(key: &OriginKey) -> String {
    key.origin.clone()
}

/// The product token of a row.
pub fn agent(key: &AgentKey) -> String {
    key.agent.clone().unwrap_or_else(|| "(none)".into())
}

/// The footer: records that are not in the rows.
pub fn foot<R>(top: &Top<R>) -> Option<String> {
    let mut sentences = Vec::new();
    if top.others > 0 {
        let more = top.distinct.saturating_sub(top.rows.len() as u64);
        sentences.push(format!("And {} more with {}.", number(more), plural(top.others, "record")));
    }
    if top.is_approximate() {
        sentences.push(format!(
            "There are more than are counted exactly: a number may be short by up to {}.",
            number(top.undercount_at_most)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// A table of a section, before it is text or HTML.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Line>,
}

/// A column: its title, and what its cells hold.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub kind: Kind,
}

/// What the cells of a column hold, which decides where they may be cut or folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Short, and never cut.
    Word,
    Number,
    /// A SHA-256 in hexadecimal, of which the beginning is enough where room is scarce.
    Digest,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// One for each column.
    pub cells: Vec<String>,
    /// The length of its bar, from 0 to 100.
    pub bar: Option<String>,
    /// It needs attention.
    pub is_urgent: bool,
}

/// The length of the bar of a part; one above zero is visible.
pub fn bar(part: u64, most: u64) -> String {
    format!("{:.1}", (fraction(part, most) * 100.0).max(0.5))
}

impl Section {
    /// Whether its table needs the width of the page.
    pub fn is_wide(&self) -> bool {
        self.table.columns.len() > 4 && !self.table.has_bars()
    }

    /// The same, with a place in the summary.
    pub fn of_summary(self) -> Self {
        Self { is_of_summary: true, ..self }
    }
}

impl Kind {
    /// Its class in the style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Word => "word",
            Self::Number => "number",
            Self::Digest => "digest",
        }
    }
}

impl Table {
    /// A table of these columns and rows.
    pub fn of(
        columns: impl IntoIterator<Item = (&'static str, Kind)>,
        rows: impl IntoIterator<Item = Line>,
    ) -> Self {
        let columns = columns.into_iter().map(|(title, kind)| Column { title, kind }).collect();
        Self { columns, rows: rows.into_iter().collect() }
    }

    /// Whether a row has a bar.
    pub fn has_bars(&self) -> bool {
        self.rows.iter().any(|row| row.bar.is_some())
    }
}

impl Line {
    /// A row of these cells, without a bar.
    pub fn of(cells: impl IntoIterator<Item = String>) -> Self {
        Self { cells: cells.into_iter().collect(), bar: None, is_urgent: false }
    }
}
