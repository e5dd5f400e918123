//! The result of checking published heads, in words. A chain by itself shows neither that its end
//! was cut off nor that all of it was rewritten.

use crate::audit::Head;
use crate::audit::read::verify::{Checkpoints, Findings, HeadState, HeldHead, NotedHead, SignedBy};

/// Lines for people: the heads one by one, and what no head shows.
pub fn lines(findings: &Findings) -> String {
    let mut text = String::new();
    if let Some(head) = findings.published_up_to() {
        text.push_str(&format!(
            "\nPublished head {}:{}: found.\n{}{}",
            head.seq,
            head.hash,
            after(findings),
            signer_of(findings, head)
        ));
    }
    text.push_str(&others(findings));
    text.push_str(&own(findings));
    if findings.published.is_empty() && findings.witnessed_up_to().is_none() {
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
    let count = |state| findings.witnessed.iter().filter(|held| held.state == state).count();
    let (others, found) = (count(HeadState::OtherLog), count(HeadState::Found));
    let own = match findings.witnessed.len() - others {
        0 => "The shared engine has seen no head of this log.\n".into(),
        count => format!("Heads that the shared engine has seen: {count}, found: {found}.\n"),
    };
    let other = findings.witnessed.iter().filter(|held| held.state == HeadState::OtherLog);
    let other = other.filter_map(|HeldHead { head, log, .. }| {
        Some(format!("Of another log of this proxy, {}, it has seen line {}.\n", (*log)?, head.seq))
    });
    own + &other.collect::<String>()
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

/// The signer of the checkpoint of a line, where it is one.
fn signer_of(findings: &Findings, head: &Head) -> String {
    let held = findings.published.iter().filter(|held| held.head == *head);
    let signed = held.filter_map(|held| held.signed).next();
    signed.map(|by| format!("\nIt is signed by {}.", signer(by))).unwrap_or_default()
}

const fn signer(by: SignedBy) -> &'static str {
    match by {
        SignedBy::GivenKey => "the key that was given",
        SignedBy::LogKey => {
            "the key that the log itself names, which does not say whose it is (--key)"
        }
        SignedBy::Other => "a key that the log does not name",
    }
}

/// The checkpoints that are lines of the log, and what is kept of lines that were removed.
fn own(findings: &Findings) -> String {
    let Checkpoints { up_to, signed, lines_kept_by_hash: kept, .. } = &findings.checkpoints;
    let last = up_to.zip(*signed).map(|(line, by)| {
        format!("\nThe last checkpoint in it is of line {line}, signed by {}.", signer(by))
    });
    let kept = (*kept > 0).then(|| {
        format!("\nOf the lines 1 to {kept}, which are not there, the hashes alone are kept.")
    });
    last.into_iter().chain(kept).collect()
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
        (count(HeadState::OtherLog), "of another log, of which this one says nothing"),
        (count(HeadState::Kept), "of a line before the first, found by the hashes that are kept"),
        (
            count(HeadState::NotSigned),
            "not signed by the key that was given, of which nothing is said",
        ),
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
        NotedHead::Read(HeldHead { head, state: HeadState::Found, .. }) => {
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
