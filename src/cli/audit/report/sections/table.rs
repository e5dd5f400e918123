//! A table as data: cells and their kinds.

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
    /// The length of its bar, from 0 to 1.
    pub bar: Option<f64>,
    /// It needs attention.
    pub is_urgent: bool,
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
