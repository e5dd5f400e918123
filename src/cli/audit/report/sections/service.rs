//! When the proxy was on, with which settings, and under which exemptions.

use super::section::{Kind, Line, Section, Table};
use crate::audit::Change;
use crate::audit::read::report::{
    RegisterStatus, RegisteredExemption, Report, ServiceState, TimelineSpan,
};
use crate::cli::audit::filters::print_until;
use crate::cli::audit::report::words::{day, number, plural, second};
use crate::cli::output::human_duration;

/// Rows of the spans and of the changes of settings, the last: the drawing has all.
const ROWS_MAX: usize = 50;

/// Characters of a value of a setting.
const VALUE_CHARS_MAX: usize = 60;

/// The word for a state.
pub const fn state(state: ServiceState) -> &'static str {
    match state {
        ServiceState::Enforce => "Enforcing",
        ServiceState::Observe => "Observing",
        ServiceState::On => "On, mode not told",
        ServiceState::Off => "Off",
        ServiceState::Unknown => "Not known",
    }
}

const STATES: [ServiceState; 5] = [
    ServiceState::Enforce,
    ServiceState::Observe,
    ServiceState::On,
    ServiceState::Off,
    ServiceState::Unknown,
];

/// The section of the time: on, off, not known, in which mode.
pub fn service(report: &Report) -> Section {
    let spans = &report.service.spans;
    let lengths = STATES.into_iter().map(|it| (it, report.service.length(it)));
    let lengths = lengths.filter(|(_, length)| !length.is_zero());
    let lengths: Vec<_> =
        lengths.map(|(it, length)| format!("{} {}", state(it), human_duration(length))).collect();
    let line = |span: &TimelineSpan| {
        let exceptions = match span.exceptions {
            0 => String::new(),
            count => format!(" ({} with a mode of their own)", plural(count, "agent or origin")),
        };
        let cells = [
            second(span.since),
            second(span.until),
            format!("{}{exceptions}", state(span.state)),
            human_duration(span.until.since(span.since)),
            span.seq.map(number).unwrap_or_default(),
            span.log.clone().unwrap_or_default(),
        ];
        let is_urgent = matches!(span.state, ServiceState::Observe | ServiceState::Unknown);
        Line { is_urgent, ..Line::of(cells.into_iter().take(columns(report))) }
    };
    let titles = [
        ("From", Kind::Word),
        ("To", Kind::Word),
        ("State", Kind::Text),
        ("How long", Kind::Word),
        ("Line", Kind::Number),
        ("Log", Kind::Text),
    ];
    let is_whole = report.period.since.is_none() && report.service.earlier_spans == 0;
    let first = spans.first().filter(|_| is_whole);
    let begins = first
        .map(|it| format!("The log begins {}. Of before, it tells nothing.", second(it.since)));
    let shown = spans.len().min(ROWS_MAX);
    let before = (spans.len() - shown) as u64 + report.service.earlier_spans;
    let table = Table::of(
        titles.into_iter().take(columns(report)),
        spans[spans.len() - shown..].iter().map(line),
    );
    Section {
        title: "When it was on",
        notes: if lengths.is_empty() { Vec::new() } else { vec![lengths.join(" · ")] }
            .into_iter()
            .chain(begins)
            .collect(),
        table,
        foot: (before > 0).then(|| format!("And {} before.", plural(before, "span"))),
        ..Section::default()
    }
}

/// A column for the log, where there are several.
fn columns(report: &Report) -> usize {
    if report.logs.is_empty() { 5 } else { 6 }
}

/// The section of the settings that changed; `with_clients`: with the values of those that name clients.
pub fn settings(report: &Report, with_clients: bool) -> Section {
    let all = &report.service.changed;
    let shown = all.len().min(ROWS_MAX);
    let lines = all[all.len() - shown..].iter().map(|it| {
        let described = |it: &Change| {
            let is_hidden = it.names_clients() && !with_clients;
            if is_hidden { format!("{}: hidden", it.key) } else { change(it) }
        };
        let changes: Vec<_> = it.changes.iter().map(described).collect();
        Line::of([second(it.time), number(it.seq), it.cause.clone(), changes.join("; ")])
    });
    let columns =
        [("Time", Kind::Word), ("Line", Kind::Number), ("By", Kind::Text), ("What", Kind::Text)];
    let before = (all.len() - shown) as u64 + report.service.earlier_changed;
    Section {
        title: "Changes of settings",
        table: Table::of(columns, lines),
        foot: (before > 0).then(|| format!("And {} before.", plural(before, "change"))),
        ..Section::default()
    }
}

fn change(change: &Change) -> String {
    let value = |value: &serde_json::Value| {
        let text = match value {
            serde_json::Value::Null => "not set".into(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match text.char_indices().nth(VALUE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    format!("{}: {} → {}", change.key, value(&change.old), value(&change.new))
}

/// The section of exemptions: in force, unused, ended, with the line that brought each.
pub fn register(report: &Report) -> Section {
    let line = |row: &RegisteredExemption| {
        let status = match row.status {
            RegisterStatus::InForce => "In force",
            RegisterStatus::Unused => "Unused",
            RegisterStatus::Ended => "Ended",
        };
        let by = match &row.ticket {
            Some(ticket) => format!("{}: {} ({ticket})", row.by, row.reason),
            None => format!("{}: {}", row.by, row.reason),
        };
        let removed = row.removed_by_seq.map(number);
        Line::of([
            status.into(),
            print_until(row.until),
            by,
            concerns(row),
            number(row.used),
            row.last_used.map(day).unwrap_or_default(),
            number(row.brought_by_seq),
            removed.unwrap_or_default(),
        ])
    };
    let columns = [
        ("State", Kind::Word),
        ("Until", Kind::Word),
        ("By whom, and why", Kind::Text),
        ("What", Kind::Text),
        ("Used", Kind::Number),
        ("Last", Kind::Word),
        ("Brought by line", Kind::Number),
        ("Removed by line", Kind::Number),
    ];
    let table = Table::of(columns, report.register.rows.iter().map(line));
    let notes = if table.rows.is_empty() {
        Vec::new()
    } else {
        vec!["An exemption until a day lasts to the end of that day, in UTC.".into()]
    };
    let omitted = report.register.omitted;
    let foot = (omitted > 0).then(|| format!("And {} more.", number(omitted)));
    Section { title: "Exemptions", notes, table, foot, ..Section::default() }
}

/// What an exemption is of.
fn concerns(row: &RegisteredExemption) -> String {
    let paths = match row.paths.as_slice() {
        [] => String::new(),
        paths => format!(" {}", paths.join(" ")),
    };
    let agents = match row.agents.as_slice() {
        [] => String::new(),
        agents => format!(", for {}", agents.join(", ")),
    };
    let delay = row.crawl_delay.as_ref().map(|delay| format!(", delay {delay}"));
    format!("{}{paths}{agents}{}", row.origin, delay.unwrap_or_default())
}
