//! What was found, as text and as JSON.

use serde_json::{Value, json};

use super::published;
use crate::audit::read::verify::{Findings, Notes, Notices, Part};
use crate::audit::{Head, print_time};

/// For people.
pub(super) fn text(findings: &Findings) -> String {
    let faults = &findings.faults;
    let mut text: String = faults.described.iter().map(|fault| format!("{fault}\n")).collect();
    if faults.count > faults.described.len() as u64 {
        text.push_str(&format!("… and {} more\n", faults.count - faults.described.len() as u64));
    }
    let holds = findings.verdict();
    let files = plural(findings.files, "file");
    text.push_str(&format!("{holds}. {} in {files}", plural(findings.records, "record")));
    if let Some((from, to)) = findings.times {
        text.push_str(&format!(", from {} to {}", print_time(from), print_time(to)));
    }
    match findings.evidence {
        Some(count) => text.push_str(&format!("; {} of evidence.", plural(count as u64, "piece"))),
        None => text.push_str("; their evidence was not looked at."),
    }
    text.push_str(&notices(&findings.notices));
    if let Some(bytes) = findings.unfinished {
        text.push_str(&format!(" {bytes} bytes at the end are being written."));
    }
    text.push_str(&notes(&findings.notes));
    if let Some(Head { hash, seq }) = &findings.head {
        text.push_str(&format!("\nThe last line is {seq}:{hash}"));
    }
    if let (Some(Part { first, prev }), Some(Head { seq, .. })) = (&findings.part, &findings.head) {
        let before = prev.as_ref().map(|prev| {
            format!(" What comes before them hangs on {}:{prev}.", first.saturating_sub(1))
        });
        let before = before.unwrap_or_default();
        text.push_str(&format!("\nIt is a part of a log: lines {first} to {seq}.{before}"));
    }
    text.push_str(&published::lines(findings));
    text + "\n"
}

/// Notes, a line each.
fn notes(notes: &Notes) -> String {
    let mut text: String = notes.described.iter().map(|note| format!("\nNote: {note}")).collect();
    if notes.count > notes.described.len() as u64 {
        text.push_str(&format!(
            "\n… and {} more notes",
            notes.count - notes.described.len() as u64
        ));
    }
    text
}

/// The counts of notices, as sentences.
fn notices(notices: &Notices) -> String {
    let Notices {
        gaps,
        lost,
        torn,
        pruned,
        totals,
        pulses,
        published,
        started,
        checkpoints,
        settings,
        stopped,
        not_stopped,
        changed,
        paced,
        files,
        counts,
        allowed,
        evidence_lost,
        rewound,
        unknown,
    } = *notices;
    let sentences = [
        (
            gaps,
            format!(
                "{} could not be written and are lost, in {}.",
                plural(lost, "record"),
                plural(gaps, "gap")
            ),
        ),
        (torn, format!("After a crash an end of it was set aside ({}).", times(torn))),
        (pruned, format!("Retention has removed old lines ({}).", times(pruned))),
        (totals, format!("{} of totals.", plural(totals, "line"))),
        (published, format!("{} published by a command.", plural(published, "checkpoint"))),
        (pulses, format!("{} of totals so far.", plural(pulses, "line"))),
        (
            started + stopped,
            format!(
                "The proxy was started {}, and stopped cleanly {}.",
                times(started),
                times(stopped)
            ),
        ),
        (
            not_stopped,
            format!(
                "It was started again without having been stopped cleanly ({}).",
                times(not_stopped)
            ),
        ),
        (checkpoints, format!("{} in it.", plural(checkpoints, "checkpoint"))),
        (settings, format!("Its settings were changed ({}).", times(settings))),
        (changed, format!("{} of changes of robots.txt files.", plural(changed, "line"))),
        (paced, format!("{} of delays that robots.txt files ask for.", plural(paced, "line"))),
        (files, format!("{} of files that decide.", plural(files, "line"))),
        (counts, format!("{} of what was asked of a site.", plural(counts, "line"))),
        (allowed, format!("{} of allowed requests.", plural(allowed, "line"))),
        (rewound, format!("It was found cut off or written anew ({}).", times(rewound))),
        (
            evidence_lost,
            format!("{} of evidence could not be kept.", plural(evidence_lost, "piece")),
        ),
        (
            unknown,
            format!("{} of a kind that this version does not know.", plural(unknown, "line")),
        ),
    ];
    sentences
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, sentence)| format!(" {sentence}"))
        .collect()
}

/// As JSON.
pub(super) fn object(findings: &Findings) -> Value {
    json!({
        "holds": findings.faults.count == 0,
        "fault_count": findings.faults.count,
        "faults": findings.faults.described,
        "note_count": findings.notes.count,
        "notes": findings.notes.described,
        "files": findings.files,
        "lines": findings.lines,
        "records": findings.records,
        "from": findings.times.map(|(from, _)| print_time(from)),
        "to": findings.times.map(|(_, to)| print_time(to)),
        "evidence": findings.evidence,
        "notices": findings.notices,
        "unfinished": findings.unfinished,
        "checkpoints": findings.checkpoints,
        "head": findings.head,
        "part": findings.part,
        "logs": findings.logs,
        "verdict": findings.verdict(),
        "noted_head": findings.noted,
        "published": {
            "heads": findings.published,
            "lines_after": published::lines_after(findings),
            "up_to": findings.published_up_to().map(|head| head.seq),
        },
        "witnessed": findings.witnessed,
    })
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}
