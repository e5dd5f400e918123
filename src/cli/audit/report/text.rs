//! A report as text, at most a hundred columns wide.

use std::fmt::Write as _;

use super::sections::{Column, Kind, Line, Section, Table, facts, sections, warning};
use super::words::{instances, minute, number, period, subject, verification};
use crate::audit::read::report::{Bucket, Events, NamedLog, OverTime, Report};
use crate::cli::audit::form::{char_columns, fit, printable};
use crate::cli::output::Paint;

/// Rows of the chart over time.
const CHART_ROWS: u64 = 8;
/// Columns before it, for a number.
const CHART_MARGIN: usize = 8;
const FACTS_IN_A_LINE: usize = 4;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The report as text, at most a hundred columns wide.
pub fn print(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    heading(&mut text, report, paint);
    chart(&mut text, "Denied", &report.over_time, |events| events.denied, paint);
    chart(&mut text, "Fetched although disallowed", &report.over_time, Events::forwarded, paint);
    for section in sections(report) {
        print_section(&mut text, &section, paint);
    }
    text
}

fn heading(text: &mut String, report: &Report, paint: Paint) {
    let _ =
        writeln!(text, "{}", paint.strong(format_args!("{}, {}", subject(report), period(report))));
    if !report.period.origins.is_empty() {
        let _ = writeln!(text, "of {}", printable(&report.period.origins.join(", ")));
    }
    if let Some(head) = &report.log.head {
        let _ = writeln!(text, "log up to line {} {}", number(head.seq), head.hash);
    }
    for NamedLog { dir, log } in &report.logs {
        let head =
            log.head.as_ref().map(|head| format!(" up to line {} {}", number(head.seq), head.hash));
        let _ = writeln!(
            text,
            "log {}{}",
            printable(dir),
            head.unwrap_or_else(|| ", without a line".into())
        );
    }
    if let Some(warning) = warning(&report.missing) {
        let _ = writeln!(text, "{}", paint.bad(format_args!("WARNING: {warning}")));
    }
    if let Some(instances) = instances(report) {
        write_folded(text, &printable(&format!("written {instances}")), |line| line);
    }
    let is_urgent = report.verified.as_ref().is_some_and(|verified| !verified.holds);
    write_folded(text, &printable(&verification(report)), |line| {
        if is_urgent { paint.doubtful(line).to_string() } else { line }
    });
    let made = format!("made {} UTC by courtesy {}", minute(report.made_at), report.courtesy);
    let _ = writeln!(text, "{}\n", paint.faint(made));
    // What belongs together stays on one line.
    let facts: Vec<_> =
        facts(report).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    for facts in facts.chunks(FACTS_IN_A_LINE) {
        let _ = writeln!(text, "{}", facts.join(" · "));
    }
}

/// The number of those records in each bucket that `counted` counts, as columns.
fn chart(
    text: &mut String,
    what: &str,
    over_time: &OverTime,
    counted: impl Fn(Events) -> u64,
    paint: Paint,
) {
    let count =
        |bucket: &Bucket| bucket.events_by_reason.values().map(|events| counted(*events)).sum();
    let counts: Vec<u64> = over_time.buckets.iter().map(count).collect();
    let (Some(first), Some(last)) = (over_time.buckets.first(), over_time.buckets.last()) else {
        return;
    };
    let most = counts.iter().copied().max().unwrap_or_default();
    if counts.len() < 2 || most == 0 {
        return;
    }
    let each = std::time::Duration::from_secs(over_time.bucket_seconds);
    title(
        text,
        &format!("{what}, over time in steps of {}", crate::cli::output::human_duration(each)),
        paint,
    );
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

/// The character of one bucket in one row, counted from below.
fn bar_cell(count: u64, most: u64, row: u64, width: usize) -> String {
    // A count above zero is visible.
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
        write_folded(text, &printable(note), |line| {
            if section.is_urgent { paint.doubtful(line).to_string() } else { line }
        });
    }
    if !section.table.rows.is_empty() {
        print_table(text, &section.table, paint);
    }
    if let Some(foot) = &section.foot {
        let _ = writeln!(text, "{}", paint.faint(foot));
    }
}

/// In as many lines as it takes.
fn write_folded(text: &mut String, words: &str, painted: impl Fn(String) -> String) {
    for line in folded(words, COLUMNS, usize::MAX) {
        let _ = writeln!(text, "{}", painted(line));
    }
}

fn title(text: &mut String, title: &str, paint: Paint) {
    let _ = writeln!(text, "\n{}", paint.strong(title));
}

/// The width of a report.
const COLUMNS: usize = 100;
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
fn print_table(text: &mut String, table: &Table, paint: Paint) {
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
fn folded(text: &str, room: usize, lines_max: usize) -> Vec<String> {
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
