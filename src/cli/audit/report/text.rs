//! A report for a terminal, and for a letter: nothing is wider than a hundred columns.

use std::fmt::Write as _;

use super::sections::{Kind, Line, Section, Table, facts, sections};
use super::words::{Plain, minute, number, period};
use crate::cli::paint::Paint;
use crate::review::report::{OverTime, Report};

const COLUMNS: usize = 100;
const BAR_COLUMNS: usize = 20;
/// Rows of the chart over time.
const CHART_ROWS: u64 = 8;
/// Columns before it, for a number.
const CHART_MARGIN: usize = 8;
/// Octets of a digest that are shown.
const DIGEST_COLUMNS: usize = 12;
/// A column that is cut to make room is not cut further.
const COLUMN_MIN: usize = 8;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BAR_EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub fn print(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    heading(&mut text, report, paint);
    chart(&mut text, &report.over_time, paint);
    for section in sections(report) {
        print_section(&mut text, &section, paint);
    }
    text
}

fn heading(text: &mut String, report: &Report, paint: Paint) {
    let _ = writeln!(text, "{}", paint.strong(format_args!("Denied requests, {}", period(report))));
    if !report.period.origins.is_empty() {
        let _ = writeln!(text, "of {}", Plain(&report.period.origins.join(", ")));
    }
    if let Some(head) = &report.log.head {
        let _ = writeln!(text, "log up to line {} {}", number(head.seq), head.hash);
    }
    let made = format!("made {} UTC by courtesy {}", minute(report.made_at), report.courtesy);
    let _ = writeln!(text, "{}\n", paint.faint(made));
    let facts: Vec<_> = facts(report).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(text, "{}", facts.join(" · "));
}

/// The number of records in each bucket, as columns.
fn chart(text: &mut String, over_time: &OverTime, paint: Paint) {
    let counts: Vec<u64> = over_time.buckets.iter().map(|bucket| bucket.by_reason.values().sum()).collect();
    let (Some(first), Some(last)) = (over_time.buckets.first(), over_time.buckets.last()) else { return };
    let most = counts.iter().copied().max().unwrap_or_default();
    if counts.len() < 2 || most == 0 {
        return;
    }
    let each = std::time::Duration::from_secs(over_time.bucket_seconds);
    title(text, &format!("Over time, in steps of {}", crate::cli::span::span(each)), paint);
    let width = ((COLUMNS - CHART_MARGIN) / counts.len()).clamp(1, 6);
    for row in (0..CHART_ROWS).rev() {
        let label = if row + 1 == CHART_ROWS { short(most) } else { String::new() };
        let _ = write!(text, "{label:>6} ");
        text.push(if row + 1 == CHART_ROWS { '┤' } else { '│' });
        let bars: String = counts.iter().map(|count| bar_cell(*count, most, row, width)).collect();
        let _ = writeln!(text, "{}", paint.bar(bars.trim_end()));
    }
    let _ = writeln!(text, "{:>6} └{}", "0", "─".repeat(counts.len() * width));
    let (first, last) = (minute(first.start), minute(last.start));
    let room = (counts.len() * width).saturating_sub(first.len()).max(last.len() + 2);
    let _ = writeln!(text, "{:CHART_MARGIN$}{first}{last:>room$}", "");
}

/// What one bucket shows in one row, counted from below.
fn bar_cell(count: u64, most: u64, row: u64, width: usize) -> String {
    // What is there at all is seen.
    let eighths = (count * CHART_ROWS * 8).div_ceil(most);
    let filled = eighths.saturating_sub(row * 8).min(8);
    let gap = usize::from(width > 1);
    let block = EIGHTHS[usize::try_from(filled).unwrap_or_default()];
    block.to_string().repeat(width - gap) + &" ".repeat(gap)
}

/// `12.3k`: at most six columns.
fn short(count: u64) -> String {
    for (unit, name) in [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")] {
        if count >= unit * 10 || count >= unit && unit > 1000 {
            return format!("{}.{}{name}", count / unit, count % unit * 10 / unit);
        }
    }
    number(count)
}

fn print_section(text: &mut String, section: &Section, paint: Paint) {
    title(text, section.title, paint);
    for note in &section.notes {
        for line in wrapped(&Plain(note).to_string()) {
            let _ = writeln!(text, "{}", if section.is_urgent { paint.doubtful(line) } else { line });
        }
    }
    if !section.table.rows.is_empty() {
        print_table(text, &section.table, paint);
    }
    if let Some(foot) = &section.foot {
        let _ = writeln!(text, "{}", paint.faint(foot));
    }
}

fn title(text: &mut String, title: &str, paint: Paint) {
    let _ = writeln!(text, "\n{}", paint.strong(title));
}

fn print_table(text: &mut String, table: &Table, paint: Paint) {
    let cells: Vec<Vec<String>> = table.rows.iter().map(|line| shown(table, line)).collect();
    let widths = widths(table, &cells);
    let titles: Vec<_> = table.columns.iter().map(|column| column.title.to_owned()).collect();
    let _ = writeln!(text, "{}", paint.faint(line_of(table, &widths, &titles).trim_end()));
    for (line, cells) in table.rows.iter().zip(&cells) {
        let words = line_of(table, &widths, cells);
        let words = match line.is_urgent {
            true => paint.doubtful(words.trim_end()),
            false => words,
        };
        let bar = line.bar.map(|bar| format!("  {}", paint.bar(bar_of(bar)))).unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{words}{bar}").trim_end());
    }
}

fn shown(table: &Table, line: &Line) -> Vec<String> {
    let show = |(column, cell): (&super::sections::Column, &String)| match column.kind {
        Kind::Digest => cell.chars().take(DIGEST_COLUMNS).collect(),
        Kind::Text | Kind::Number => Plain(cell).to_string(),
    };
    table.columns.iter().zip(&line.cells).map(show).collect()
}

/// As wide as what stands in a column; where that is too much, the widest gives way.
fn widths(table: &Table, cells: &[Vec<String>]) -> Vec<usize> {
    let widest = |at: usize| cells.iter().map(|row| width(&row[at])).max().unwrap_or_default();
    let titles = table.columns.iter().map(|column| column.title.len());
    let mut widths: Vec<usize> = titles.enumerate().map(|(at, title)| title.max(widest(at))).collect();
    let bar = if table.has_bars() { BAR_COLUMNS + 2 } else { 0 };
    let room = COLUMNS - bar - 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() > room {
        let texts = widths.iter_mut().zip(&table.columns).filter(|(_, column)| column.kind == Kind::Text);
        match texts.map(|(width, _)| width).max_by_key(|width| **width) {
            Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
            _ => break,
        }
    }
    widths
}

fn line_of(table: &Table, widths: &[usize], cells: &[String]) -> String {
    let mut line = String::new();
    for ((column, room), cell) in table.columns.iter().zip(widths).zip(cells) {
        if !line.is_empty() {
            line.push_str("  ");
        }
        let cell = cut(cell, *room);
        let space = " ".repeat(room.saturating_sub(width(&cell)));
        match column.kind {
            Kind::Number => line.extend([space, cell]),
            Kind::Text | Kind::Digest => line.extend([cell, space]),
        }
    }
    line
}

fn bar_of(part: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 160")]
    let eighths = ((part * (BAR_COLUMNS * 8) as f64).ceil() as usize).min(BAR_COLUMNS * 8);
    "█".repeat(eighths / 8) + BAR_EIGHTHS[eighths % 8]
}

/// Columns that a text takes, or fewer: of the scripts that have wide characters, every character
/// counts for two.
fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(character: char) -> usize {
    if character < '\u{1100}' || character == '…' { 1 } else { 2 }
}

fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let fits = |character: &char| {
        let taken = columns(*character);
        let fits = taken <= left;
        left = left.saturating_sub(taken);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(&cut(word, COLUMNS));
        } else if width(line) + 1 + width(word) <= COLUMNS {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(cut(word, COLUMNS));
        }
    }
    lines
}
