//! Tables of a report as text: columns, and cells folded to fit into them.

use std::fmt::Write as _;

use crate::cli::audit::report::sections::{Column, Kind, Line, Table};
use crate::cli::audit::table::{char_columns, fit, printable};
use crate::cli::paint::Paint;

/// The width of a report.
pub(super) const COLUMNS: usize = 100;
const BAR_COLUMNS: usize = 20;
/// Of a digest.
const DIGEST_COLUMNS: usize = 12;
/// A column that is folded to make room is not made narrower.
const COLUMN_MIN: usize = 8;
/// The title of a number is folded to this.
const NUMBER_TITLE_COLUMNS: usize = 9;
/// Lines that one cell may have; longer text is cut.
const CELL_LINES_MAX: usize = 3;

const BAR_EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Appends `table`, in columns.
pub(super) fn print_table(text: &mut String, table: &Table, paint: Paint) {
    let cells: Vec<Vec<String>> = table.rows.iter().map(|line| shown(table, line)).collect();
    let widths = widths(table, &cells);
    let titles: Vec<_> = table.columns.iter().map(|column| column.title.to_owned()).collect();
    for line in lines_of(table, &widths, &titles) {
        let _ = writeln!(text, "{}", paint.faint(line.trim_end()));
    }
    for (row, cells) in table.rows.iter().zip(&cells) {
        for (number, line) in lines_of(table, &widths, cells).into_iter().enumerate() {
            let bar = row.bar.filter(|_| number == 0 && has_bars(table));
            let _ = match bar {
                Some(bar) => writeln!(text, "{line}  {}", paint.bar(bar_of(bar))),
                None if row.is_urgent => writeln!(text, "{}", paint.doubtful(line.trim_end())),
                None => writeln!(text, "{}", line.trim_end()),
            };
        }
    }
}

/// Where they leave room for the words.
fn has_bars(table: &Table) -> bool {
    table.has_bars() && table.columns.len() <= 4
}

fn shown(table: &Table, line: &Line) -> Vec<String> {
    let show = |(column, cell): (&Column, &String)| match column.kind {
        Kind::Digest => printable(cell).chars().take(DIGEST_COLUMNS).collect(),
        Kind::Text | Kind::Word | Kind::Number => printable(cell),
    };
    table.columns.iter().zip(&line.cells).map(show).collect()
}

/// Widths of columns: as wide as their text; if that is too much, the widest column shrinks.
fn widths(table: &Table, cells: &[Vec<String>]) -> Vec<usize> {
    let widest = |at: usize| cells.iter().map(|row| width(&row[at])).max().unwrap_or_default();
    let titles = table.columns.iter().map(|column| match column.kind {
        Kind::Digest => DIGEST_COLUMNS,
        // A title may be longer than the numbers below it: it is folded.
        Kind::Number => column.title.len().min(NUMBER_TITLE_COLUMNS),
        Kind::Text | Kind::Word => column.title.len(),
    });
    let mut widths: Vec<usize> =
        titles.enumerate().map(|(at, title)| title.max(widest(at))).collect();
    let bar = if has_bars(table) { BAR_COLUMNS + 2 } else { 0 };
    let room = COLUMNS - bar - 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() > room {
        let texts =
            widths.iter_mut().zip(&table.columns).filter(|(_, column)| column.kind == Kind::Text);
        match texts.map(|(width, _)| width).max_by_key(|width| **width) {
            Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// One row, its cells folded to their columns.
fn lines_of(table: &Table, widths: &[usize], cells: &[String]) -> Vec<String> {
    let folded: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, room)| folded(cell, *room, CELL_LINES_MAX)).collect();
    let height = folded.iter().map(Vec::len).max().unwrap_or_default();
    let line = |number: usize| {
        let cells = table.columns.iter().zip(widths).zip(&folded).map(|((column, room), lines)| {
            let words = lines.get(number).map_or("", String::as_str);
            let space = " ".repeat(room.saturating_sub(width(words)));
            match column.kind {
                Kind::Number => space + words,
                Kind::Text | Kind::Word | Kind::Digest => words.to_owned() + &space,
            }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    (0..height).map(line).collect()
}

fn bar_of(part: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 160")]
    let eighths = ((part * (BAR_COLUMNS * 8) as f64).ceil() as usize).min(BAR_COLUMNS * 8);
    "█".repeat(eighths / 8) + BAR_EIGHTHS[eighths % 8]
}

fn width(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// In lines of at most `room` columns: between words, or within one that is too long.
pub(super) fn folded(text: &str, room: usize, lines_max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while width(rest) > room {
        if lines.len() + 1 == lines_max {
            lines.push(fit(rest, room));
            return lines;
        }
        let end = fitting(rest, room);
        let at = rest[..end].rfind(' ').filter(|at| *at > 0).unwrap_or(end);
        lines.push(rest[..at].to_owned());
        rest = rest[at..].trim_start_matches(' ');
    }
    lines.push(rest.to_owned());
    lines
}

/// Bytes of `text` that fit into `room` columns, and its first character if none does.
fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    let mut bytes = 0;
    for character in text.chars() {
        used += char_columns(character);
        if used > room && bytes > 0 {
            break;
        }
        bytes += character.len_utf8();
    }
    bytes
}
