//! The robots.txt that a record rests on, with the lines that decided marked.

use serde_json::{Value, json};

use crate::audit::evidence::{CaptureRecord, Found};
use crate::audit::read::{ChainCheck, Link};
use crate::audit::{Record, print_time};
use crate::cli::audit::form::printable;
use crate::cli::output::Paint;
use crate::robots::{self, Dialect};
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// Lines before and after a marked one that are shown.
const CONTEXT: u32 = 3;
/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 400;

/// `all`: the whole file, not only the lines near the marked ones.
pub fn file_text(found: &Found, record: &Record, all: bool, paint: Paint) -> String {
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

/// The capture of a fetch as text, under `title`: requests, responses, addresses, times.
pub fn capture_text(title: &str, found: &Found, paint: Paint) -> String {
    let bytes = match found {
        Found::Content(bytes) => bytes,
        Found::Missing => return trouble(&format!("{title}: missing from the evidence"), paint),
        Found::Damaged(why) => {
            return trouble(&format!("{title}: damaged in the evidence: {why}"), paint);
        }
    };
    match serde_json::from_slice::<CaptureRecord>(bytes) {
        Ok(capture) => format!("\n{}\n{}", paint.strong(title), describe(&capture, paint)),
        Err(error) => trouble(&format!("{title}: the evidence is no capture: {error}"), paint),
    }
}

/// A capture as text: what was asked, and each answer.
pub fn describe(capture: &CaptureRecord, paint: Paint) -> String {
    let when = print_time(Timestamp::from_millis(capture.fetched_at));
    let asked_as = capture.user_agent.as_deref().map(|name| format!(" as {}", printable(name)));
    let asked_as = asked_as.unwrap_or_default();
    let mut text = format!("  {} was asked{asked_as}; done {when}\n", printable(&capture.asked));
    for answer in &capture.answers {
        let peer = answer.peer.map(|peer| format!(" by {peer}")).unwrap_or_default();
        text.push_str(&format!("  {} answered {}{peer}\n", printable(&answer.url), answer.status));
        for line in answer.head.lines() {
            text.push_str(&format!("    {}\n", paint.faint(printable(line))));
        }
    }
    if let Some(body) = &capture.body {
        let cut = if body.cut { ", cut at the size limit" } else { "" };
        text.push_str(&format!("  {} bytes{cut}\n", body.bytes));
    }
    if let Some(failure) = &capture.failure {
        text.push_str(&format!(
            "  {}: {}\n",
            paint.bad(printable(&failure.word)),
            printable(&failure.text)
        ));
    }
    text
}

/// The faults, printed first; empty if there are none.
pub fn chain_warnings(check: Option<&ChainCheck>, paint: Paint) -> String {
    let Some(check) = check.filter(|check| !check.holds()) else {
        return String::new();
    };
    let mut text = format!(
        "{}\n",
        paint.bad("WARNING: do not rely on this record; see courtesy audit verify")
    );
    faults(check).iter().for_each(|fault| text.push_str(&format!("  {}\n", paint.bad(fault))));
    text + "\n"
}

/// The same in a few words, beside the hash.
pub const fn chain_words(check: &ChainCheck) -> &'static str {
    match (check.hash_holds, check.before, check.after) {
        (false, _, _) | (_, Link::Differs, _) | (_, _, Link::Differs) => "does not hold: see above",
        (true, Link::Fits, Link::Fits) => "the hash holds, and the lines before and after fit it",
        (true, Link::Absent, Link::Fits) => {
            "the hash holds, and the line after fits it; no line is before it"
        }
        (true, Link::Fits, Link::Absent) => {
            "the hash holds, and the line before fits it; it is the last line"
        }
        (true, Link::Absent, Link::Absent) => "the hash holds; it is the only line",
        (true, Link::Apart, _) | (true, _, Link::Apart) => {
            "the hash holds; lines beside it are not in the dossier, whose tree has its place"
        }
    }
}

/// The check of the chain around a record, as JSON.
pub fn chain_json(check: &ChainCheck) -> Value {
    json!({
        "holds": check.holds(),
        "hash_holds": check.hash_holds,
        "before": check.before,
        "after": check.after,
        "faults": faults(check),
    })
}

/// What speaks against the line, each in words.
pub fn faults(check: &ChainCheck) -> Vec<&'static str> {
    let faults = [
        (
            !check.hash_holds,
            "it was changed after being written: its text is not what its hash was made of",
        ),
        (
            check.before == Link::Differs,
            "the line before it is not the one it was chained to: one of the two was replaced, or lines \
             between them removed",
        ),
        (
            check.after == Link::Differs,
            "the line after it was chained to another line: one of the two was replaced, or lines between \
             them removed",
        ),
    ];
    faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| fault).collect()
}
