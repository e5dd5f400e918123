//! Numbers, times and words of records as a report prints them.

use std::collections::BTreeSet;

use crate::audit::print_time;
use crate::audit::read::report::{Asked, ExemptionStatus, Report};
use crate::types::timestamp::Timestamp;

/// The word for the status of an exemption.
pub const fn status(status: ExemptionStatus) -> &'static str {
    match status {
        ExemptionStatus::Running => "running",
        ExemptionStatus::ExpiresSoon => "expires soon",
        ExemptionStatus::Expired => "expired",
    }
}

/// With a capital, as a line or a sentence begins.
pub fn capital(words: &str) -> String {
    // The name of a file and a URL keep their spelling.
    if words.starts_with("robots.txt") || words.starts_with("http") {
        return words.to_owned();
    }
    let mut characters = words.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// `12,345`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 record`, `12,345 records`.
pub fn plural(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {what}{end}", number(count))
}

/// `12.3 %` of `all`.
pub fn share(part: u64, all: u64) -> String {
    match all {
        0 => String::new(),
        _ => format!("{:.1} %", 100.0 * fraction(part, all)),
    }
}

/// A part of all, from 0 to 1; 0 of none.
#[expect(clippy::cast_precision_loss, reason = "for a length on the screen")]
pub fn fraction(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// `2026-11-20 21:17`.
pub fn minute(moment: Timestamp) -> String {
    print_time(moment)[..16].replace('T', " ")
}

/// `2026-11-20 21:17:05`.
pub fn second(moment: Timestamp) -> String {
    print_time(moment)[..19].replace('T', " ")
}

/// `2026-11-20`.
pub fn day(moment: Timestamp) -> String {
    print_time(moment)[..10].to_owned()
}

/// The subject of a report: denied requests, if there are no others.
pub fn subject(report: &Report) -> &'static str {
    match (report.records.all, report.forwarded.records) {
        (1.., 0) => "Denied requests",
        _ => "Disallowed requests",
    }
}

/// What is reported on alone: origins, agents, clients.
pub fn asked(report: &Report) -> String {
    let Asked { origins, agents, clients, .. } = &report.period;
    let parts = [origins, agents, clients].into_iter().filter(|part| !part.is_empty());
    parts.map(|part| part.join(", ")).collect::<Vec<_>>().join("; ")
}

/// The answer to the first question: what was forwarded although it is disallowed.
pub fn headline(report: &Report) -> String {
    let events = report.records.events();
    let forwarded = events.forwarded();
    let were = |count| if count == 1 { "was" } else { "were" };
    let disallowed =
        format!("{} {} disallowed", plural(events.all(), "request"), were(events.all()));
    if events.all() == 0 {
        return "No request was disallowed.".into();
    }
    if forwarded == 0 {
        return format!("{disallowed}, and none of them was forwarded.");
    }
    let parts = [
        (events.would_deny, "observed"),
        (events.exempted, "exempted"),
        (events.tunnelled, "unseen in tunnels"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, what)| format!("{} {what}", number(*count))).collect();
    format!(
        "{disallowed}; {} of them {} forwarded all the same: {}.",
        number(forwarded),
        were(forwarded),
        parts.join(", ")
    )
}

/// The proxies that wrote the log, if known.
pub fn instances(report: &Report) -> Option<String> {
    let writers = &report.writers;
    let list =
        |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let version = if writers.versions.is_empty() {
        String::new()
    } else {
        format!("; started as courtesy {}", list(&writers.versions))
    };
    (!writers.nodes.is_empty()).then(|| format!("by {}{version}", list(&writers.nodes)))
}

/// The verification of the log in words.
pub fn verification(report: &Report) -> String {
    let Some(verified) = &report.verified else {
        return "Not verified: courtesy audit report --verify checks that the log is what was written."
            .into();
    };
    // What `courtesy audit verify` says. Of several logs each is a chain of its own, under no head.
    let verdict = match (report.logs.is_empty(), verified.holds) {
        (true, _) => &verified.verdict,
        (false, true) => "Each log holds in itself; no published head was given",
        (false, false) => "Not every log holds",
    };
    let last = verified.head.as_ref().map(|head| head.seq);
    let read = last.map(|last| format!(" Its last line is {}.", number(last))).unwrap_or_default();
    match &verified.first_fault {
        None => format!("Verified. {verdict}.{read}"),
        Some(first) => {
            let faults = plural(verified.fault_count, "fault");
            format!("Verified. {verdict}.{read} Of {faults}, the first: {first}")
        }
    }
}

/// The time that a report is of, in words.
pub fn period(report: &Report) -> String {
    let since = report.period.since.or(report.log.since).map(minute);
    let until = report.period.until.or(report.log.until).map(minute);
    match (since, until) {
        (Some(since), Some(until)) => format!("{since} to {until} UTC"),
        (Some(since), None) => format!("since {since} UTC"),
        (None, Some(until)) => format!("until {until} UTC"),
        (None, None) => "no time at all: the log is empty".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(count), text);
        }
        assert_eq!(
            (plural(1, "record"), plural(2, "record")),
            ("1 record".into(), "2 records".into())
        );
        assert_eq!((share(1, 8), share(0, 0)), ("12.5 %".into(), String::new()));
    }
}
