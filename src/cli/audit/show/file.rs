//! The robots.txt that a record rests on, with the lines that decided marked.

use crate::audit::Record;
use crate::audit::evidence::Found;
use crate::cli::paint::Paint;
use crate::robots::{self, Dialect};
use crate::types::sanitize;

/// Lines before and after a marked one that are shown.
const CONTEXT: u32 = 3;
/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 400;

/// `all`: the whole file, not only the lines near the marked ones.
pub fn of(found: &Found, record: &Record, all: bool, paint: Paint) -> String {
    let body = match found {
        Found::Content(body) => body,
        Found::Missing => return trouble("its robots.txt is missing from the evidence", paint),
        Found::Damaged(why) => {
            return trouble(&format!("its robots.txt is damaged in the evidence: {why}"), paint);
        }
    };
    // The last line's end begins no other line.
    let body = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n")).unwrap_or(body);
    let rule = record.rule.as_ref().map(|rule| rule.line);
    let group = record.group.as_ref().map(|group| group.line);
    // Without marks, show the beginning.
    let marks = [rule, group, rule.or(group).is_none().then_some(1)];
    let is_near = |number: u32| marks.iter().flatten().any(|mark| mark.abs_diff(number) <= CONTEXT);
    let dialect = Dialect { size_limit: usize::MAX, ..Dialect::RFC9309.clone() };
    let mut last = 0;
    let mut text = format!("\n{}\n", paint.strong("robots.txt"));
    for (number, line) in robots::lines(body, &dialect) {
        if !all && !is_near(number) {
            continue;
        }
        if number != last + 1 {
            text.push_str(&paint.faint("         …\n"));
        }
        last = number;
        let line = sanitize::text(line, SHOWN_BYTES_MAX);
        let row = match (Some(number) == rule, Some(number) == group) {
            (true, _) => format!("▶ {number:>6}  {}", paint.bad(line)),
            (false, true) => format!("▷ {number:>6}  {}", paint.strong(line)),
            (false, false) => format!("  {}", paint.faint(format!("{number:>6}  {line}"))),
        };
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    let lines = robots::lines(body, &dialect).map(|(number, _)| number).last().unwrap_or_default();
    if last < lines {
        text.push_str(&paint.faint(format!("         … {lines} lines in all; --all shows them\n")));
    }
    text
}

/// A warning on a line of its own.
pub fn trouble(what: &str, paint: Paint) -> String {
    format!("\n{} {what}\n", paint.doubtful("warning:"))
}
