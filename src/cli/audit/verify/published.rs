//! The result of checking published heads, in words. A chain by itself shows neither that its end
//! was cut off nor that all of it was rewritten.

use crate::audit::Head;
use crate::audit::read::verify::{Findings, HeadState, HeldHead, NotedHead};

/// Whether the log holds, and under which head.
pub fn verdict(findings: &Findings) -> String {
    match (findings.faults.count, findings.published_up_to()) {
        (0, Some(Head { seq, .. })) => {
            format!("The log holds, up to line {seq} under a published head")
        }
        (0, None) if findings.published.is_empty() && up_to(&findings.witnessed).is_some() => {
            let seq = up_to(&findings.witnessed).map_or(0, |head| head.seq);
            format!("The log holds, up to line {seq} under a head that the shared engine has seen")
        }
        (0, None) if findings.published.is_empty() => {
            "The log holds in itself; no published head was given".into()
        }
        (0, None) if findings.published.iter().any(|held| held.state == HeadState::Beyond) => {
            "The log holds in itself; no published head that was given is of a line in it".into()
        }
        (0, None) => {
            "The log holds in itself; it begins after every published head that was given".into()
        }
        (1, _) => "The log does not hold: one fault".into(),
        (count, _) => format!("The log does not hold: {count} faults, the first of them above all"),
    }
}

/// Lines for people: the heads one by one, and what no head shows.
pub fn lines(findings: &Findings) -> String {
    let mut text = String::new();
    if let Some(head) = findings.published_up_to() {
        text.push_str(&format!(
            "\nPublished head {}:{}: found. {}",
            head.seq,
            head.hash,
            after(findings)
        ));
    }
    text.push_str(&others(findings));
    if findings.published.is_empty() && up_to(&findings.witnessed).is_none() {
        text.push_str(
            "\nWithout a published head it cannot be seen whether lines were cut off at the end, or the whole log \
             written anew: keep what courtesy audit head prints elsewhere, and give it with --head.",
        );
    }
    text.push_str(&noted(findings));
    text
}

/// A line for people: the heads that the shared engine has seen.
pub fn witnessed(findings: &Findings) -> String {
    let held = &findings.witnessed;
    let found = held.iter().filter(|held| held.state == HeadState::Found).count();
    match held.len() {
        0 => "The shared engine has seen no head of this log.\n".into(),
        count => format!("Heads that the shared engine has seen: {count}, found: {found}.\n"),
    }
}

/// The last line that is under one of the heads.
fn up_to(held: &[HeldHead]) -> Option<&Head> {
    let found = held.iter().filter(|held| held.state == HeadState::Found);
    found.map(|held| &held.head).max_by_key(|head| head.seq)
}

/// Lines behind the last one that is under a published head; none without such a head.
pub fn lines_after(findings: &Findings) -> Option<u64> {
    let up_to = findings.published_up_to()?.seq;
    Some(findings.head.as_ref().map_or(0, |last| last.seq.saturating_sub(up_to)))
}

fn after(findings: &Findings) -> String {
    match lines_after(findings).unwrap_or_default() {
        0 => "It is that of the last line.".into(),
        1 => "The line after it is under no published head yet.".into(),
        count => format!("The {count} lines after it are under no published head yet."),
    }
}

/// Of several heads, how many came out how.
fn others(findings: &Findings) -> String {
    let count = |state| findings.published.iter().filter(|held| held.state == state).count();
    let states = [
        (count(HeadState::Found), "found"),
        (count(HeadState::Other), "not that of the line with its number"),
        (count(HeadState::CutOff), "of a line after the last"),
        (count(HeadState::Removed), "of a line before the first, not to be checked any more"),
        (count(HeadState::Beyond), "of a line after the part, of which it says nothing"),
    ];
    let is_told = findings.published.len() == states[0].0 && states[0].0 <= 1;
    if is_told {
        return String::new();
    }
    let states = states
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"));
    format!("\nPublished heads: {}.", states.collect::<Vec<_>>().join(", "))
}

/// The head of `head.json`, which does not count as published.
fn noted(findings: &Findings) -> String {
    let last = findings.head.as_ref().map_or(0, |last| last.seq);
    match &findings.noted {
        NotedHead::NotRead => String::new(),
        NotedHead::Missing => {
            "\nThere is no head.json beside the log, in which the proxy notes its last line.".into()
        }
        NotedHead::Unreadable { why } => {
            format!("\nhead.json beside the log cannot be read: {why}")
        }
        NotedHead::Read(HeldHead { head, state: HeadState::Found }) => {
            let place = match last.saturating_sub(head.seq) {
                0 => "the last one".into(),
                1 => "the last but one".into(),
                behind => format!("{behind} lines before the last one"),
            };
            format!(
                "\nhead.json beside the log notes line {}, {place}. It is not published: who can change the log \
                 can change it.",
                head.seq
            )
        }
        NotedHead::Read(HeldHead { head, .. }) => {
            format!(
                "\nhead.json beside the log notes line {}, which the log does not have so.",
                head.seq
            )
        }
    }
}
