//! A report as text, at most a hundred columns wide.

mod table;

use std::fmt::Write as _;

use super::super::table::printable;
use super::sections::{Section, facts, sections, warning};
use super::words::{instances, minute, number, period, subject, verification};
use crate::audit::read::report::{Bucket, Events, NamedLog, OverTime, Report};
use crate::cli::paint::Paint;
use table::{COLUMNS, folded, print_table};

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
        &format!(
            "{what}, over time in steps of {}",
            crate::cli::human_duration::human_duration(each)
        ),
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
