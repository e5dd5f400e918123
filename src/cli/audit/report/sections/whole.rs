//! How much of the whole a report tells: the decisions that leave no record, and the records that are
//! not there.

use super::section::Section;
use super::table::{Kind, Line, Table};
use crate::audit::read::report::{Decided, Missing, Report};
use crate::cli::audit::report::words::{minute, number, plural, share};
use crate::cli::human_duration::human_duration;

/// The section of all decisions, allowed ones included, as far as they were counted.
pub fn decided(report: &Report) -> Section {
    let notes = match &report.decided {
        None => vec!["How many requests were decided in all is not counted by origin.".to_owned()],
        Some(decided) => match (decided.since, decided.until) {
            (Some(since), Some(until)) => {
                let all = decided.allowed + decided.denied;
                let counted =
                    human_duration(std::time::Duration::from_secs(decided.counted_seconds));
                let by_parent = (decided.by_parent > 0).then(|| by_parent(decided));
                let whole = [
                    format!(
                        "{} decided: {} forwarded, {} denied ({}).",
                        plural(all, "request"),
                        number(decided.allowed),
                        number(decided.denied),
                        share(decided.denied, all),
                    ),
                    format!(
                        "{} by path, {} by host only.",
                        number(decided.by_path),
                        number(decided.by_host)
                    ),
                    format!(
                        "Counted for {counted} between {} and {} UTC.",
                        minute(since),
                        minute(until)
                    ),
                ];
                whole.into_iter().chain(by_parent).collect()
            }
            _ => vec![
                "The log does not say how many requests were decided in all in this time."
                    .to_owned(),
            ],
        },
    };
    Section { title: "All decisions", notes, ..Section::default() }
}

fn by_parent(decided: &Decided) -> String {
    // One that is sent a second time goes twice.
    let went = decided.by_parent.min(decided.allowed);
    let share = share(went, decided.allowed);
    format!("{} of those forwarded went by a parent proxy ({share}).", number(went))
}

/// The section of what the log lacks: gaps, torn ends, lines that retention removed.
pub fn missing(missing: &Missing) -> Section {
    let mut notes = Vec::new();
    let mut say = |count: u64, note: String| {
        if count > 0 {
            notes.push(note);
        }
    };
    say(
        missing.gaps,
        format!(
            "{} could not be written and {} lost.",
            plural(missing.lost_records, "record"),
            if missing.lost_records == 1 { "is" } else { "are" }
        ),
    );
    say(
        missing.torn,
        format!(
            "The end of the log was torn {}, as after a crash; {} set aside in denials.torn.",
            plural(missing.torn, "time"),
            plural(missing.torn_bytes, "byte"),
        ),
    );
    say(
        missing.pruned_up_to,
        format!(
            "Lines up to number {} were removed, being older than they are kept.",
            number(missing.pruned_up_to)
        ),
    );
    say(
        missing.absent_lines,
        format!("{} absent from the log: see courtesy audit verify.", are(missing.absent_lines)),
    );
    say(
        missing.unreadable_lines,
        format!(
            "{} cannot be read: see courtesy audit verify.",
            plural(missing.unreadable_lines, "line")
        ),
    );
    say(
        missing.changed_lines,
        format!("{} changed after being written, and not counted.", were(missing.changed_lines)),
    );
    let is_urgent = !notes.is_empty();
    if notes.is_empty() {
        notes.push("Nothing, as far as the log tells.".into());
    }
    let gaps = missing.largest_gaps.iter().map(|gap| {
        Line::of([minute(gap.since), minute(gap.until), number(gap.lost), gap.why.clone()])
    });
    let columns = [
        ("From", Kind::Word),
        ("To", Kind::Word),
        ("Records lost", Kind::Number),
        ("Why", Kind::Text),
    ];
    Section {
        title: "What is missing",
        notes,
        is_urgent,
        table: Table::of(columns, gaps),
        foot: None,
    }
}

/// Doubts about the whole log, printed first.
pub fn warning(missing: &Missing) -> Option<String> {
    let changed = missing.changed_lines;
    let counted = if changed == 1 { "it is not counted" } else { "they are not counted" };
    (changed > 0).then(|| {
        format!(
            "{} changed after being written: {counted}. See courtesy audit verify.",
            were(changed)
        )
    })
}

fn were(lines: u64) -> String {
    format!("{} {}", plural(lines, "line"), if lines == 1 { "was" } else { "were" })
}

fn are(lines: u64) -> String {
    format!("{} {}", plural(lines, "line"), if lines == 1 { "is" } else { "are" })
}
