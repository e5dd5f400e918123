//! What was found, as text and as JSON.

use serde_json::{Value, json};

use super::published;
use crate::audit::read::verify::{Findings, Notices, Part};
use crate::audit::{Head, print_time};

/// For people: the verdict, what does not hold, and then one fact a line.
pub(super) fn text(findings: &Findings) -> String {
    let mut facts = vec![format!("{}.", findings.verdict())];
    let faults = &findings.faults;
    facts.extend(faults.described.iter().map(ToString::to_string));
    facts.extend(more(faults.count, faults.described.len(), "faults"));
    let records = plural(findings.records, "record");
    let files = plural(findings.files, "file");
    let times = findings
        .times
        .map(|(from, to)| format!(", from {} to {}", print_time(from), print_time(to)));
    facts.push(format!("{records} in {files}{}.", times.unwrap_or_default()));
    facts.push(match findings.evidence {
        Some(count) => format!("{} of evidence.", plural(count as u64, "piece")),
        None => "Their evidence was not looked at.".into(),
    });
    facts.extend(notices(&findings.notices));
    facts.extend(
        findings.unfinished.map(|bytes| format!("{bytes} bytes at the end are being written.")),
    );
    let notes = &findings.notes;
    facts.extend(notes.described.iter().map(|note| format!("Note: {note}")));
    facts.extend(more(notes.count, notes.described.len(), "notes"));
    facts.extend(
        findings.head.as_ref().map(|Head { hash, seq }| format!("The last line is {seq}:{hash}")),
    );
    if let (Some(Part { first, prev }), Some(Head { seq, .. })) = (&findings.part, &findings.head) {
        facts.push(format!("It is a part of a log: lines {first} to {seq}."));
        facts.extend(prev.as_ref().map(|prev| {
            format!("What comes before them hangs on {}:{prev}.", first.saturating_sub(1))
        }));
    }
    facts.join("\n") + &published::lines(findings) + "\n"
}

/// How many are not described.
fn more(count: u64, described: usize, what: &str) -> Option<String> {
    let more = count - described as u64;
    (more > 0).then(|| format!("… and {more} more {what}"))
}

/// The counts of notices, as sentences.
fn notices(notices: &Notices) -> Vec<String> {
    let Notices {
        gaps,
        lost,
        torn,
        pruned,
        totals,
        pulses,
        operated,
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
        (operated, format!("{} of who looked or acted by the console.", plural(operated, "line"))),
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
    sentences.into_iter().filter(|(count, _)| *count > 0).map(|(_, sentence)| sentence).collect()
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
