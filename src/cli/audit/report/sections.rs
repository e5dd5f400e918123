//! What a report says, section by section, for every form that people read: a form only lays it out.

use super::words::{capital, day, event, fraction, minute, number, plural, reason, share, standing};
use crate::cli::span::span;
use crate::review::report::{ClientKey, ExemptionUse, ProfileKey, Report, Row, Standing, Top};

mod table;
mod whole;

pub use table::{Column, Kind, Line, Table};
use whole::{decided, missing};

/// A part of the report under one heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: &'static str,
    /// Sentences before the table.
    pub notes: Vec<String>,
    /// Whether the notes are what somebody should look at.
    pub is_urgent: bool,
    pub table: Table,
    /// A sentence after it.
    pub foot: Option<String>,
}

/// What stands in the beginning, each number with its name.
pub fn facts(report: &Report) -> Vec<(String, String)> {
    let records = &report.records;
    let mut facts = vec![("Records".into(), number(records.all))];
    facts.extend(records.by_event.iter().map(|(word, count)| (capital(event(*word)), number(*count))));
    if records.by_host > 0 {
        facts.push(("Judged by path".into(), number(records.by_path)));
        facts.push(("Judged by host only".into(), number(records.by_host)));
    }
    facts
}

/// All sections that have something to say, in order.
pub fn sections(report: &Report) -> Vec<Section> {
    let all = report.records.all;
    let sections = [
        decided(report),
        missing(&report.missing),
        by_reason(report),
        ranked("By origin", "Origin", &report.by_origin, all, |key| key.origin.clone()),
        ranked("By agent", "Product token", &report.by_agent, all, |key| {
            key.agent.clone().unwrap_or_else(|| "(none)".into())
        }),
        ranked("By client", "Client", &report.by_client, all, client),
        by_rule(report),
        unreachable(report),
        exemptions(report),
        robots_txt(report),
        ranked("By profile", "Profile", &report.by_profile, all, profile),
    ];
    sections
        .into_iter()
        .filter(|section| !section.notes.is_empty() || !section.table.rows.is_empty())
        .collect()
}

fn by_reason(report: &Report) -> Section {
    let mut counts: Vec<_> = report.records.by_reason.iter().collect();
    counts.sort_by(|one, other| other.1.cmp(one.1));
    let most = counts.first().map_or(0, |(_, count)| **count);
    let lines = counts.into_iter().map(|(word, count)| {
        let cells = [capital(reason(*word)), number(*count), share(*count, report.records.all)];
        Line { bar: Some(fraction(*count, most)), ..Line::of(cells) }
    });
    Section { title: "By reason", table: Table::of(counted("Reason"), lines), ..Section::default() }
}

fn ranked<K>(
    title: &'static str,
    what: &'static str,
    top: &Top<Row<K>>,
    all: u64,
    name: impl Fn(&K) -> String,
) -> Section {
    let most = top.rows.first().map_or(0, |row| row.records);
    let lines = top.rows.iter().map(|row| {
        let cells = [name(&row.key), number(row.records), share(row.records, all)];
        Line { bar: Some(fraction(row.records, most)), ..Line::of(cells) }
    });
    Section { title, table: Table::of(counted(what), lines), foot: foot(top), ..Section::default() }
}

const fn counted(what: &'static str) -> [(&'static str, Kind); 3] {
    [(what, Kind::Text), ("Records", Kind::Number), ("Share", Kind::Number)]
}

fn by_rule(report: &Report) -> Section {
    let lines = report.by_rule.rows.iter().map(|row| {
        let key = &row.key;
        Line::of([
            number(row.records),
            key.origin.clone(),
            key.line.to_string(),
            format!("{}: {}", capital(&key.directive), key.pattern),
            key.sha256.clone().unwrap_or_default(),
        ])
    });
    let columns = [
        ("Records", Kind::Number),
        ("Origin", Kind::Text),
        ("Line", Kind::Number),
        ("Rule", Kind::Text),
        ("File SHA-256", Kind::Digest),
    ];
    let table = Table::of(columns, lines);
    Section { title: "By rule", table, foot: foot(&report.by_rule), ..Section::default() }
}

fn client(key: &ClientKey) -> String {
    let address = key.address.map(|address| address.to_string());
    key.client.clone().or(address).unwrap_or_default()
}

fn profile(key: &ProfileKey) -> String {
    let settings: String = key.settings.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
    format!("{} version {}{settings}", key.profile, key.version)
}

fn unreachable(report: &Report) -> Section {
    let rows = &report.unreachable.rows;
    let most = rows.first().map_or(0, |row| row.seconds);
    let length = |seconds| span(std::time::Duration::from_secs(seconds));
    let lines = rows.iter().map(|row| {
        let cells = [
            match row.agents.as_slice() {
                [] => row.origin.clone(),
                agents => format!("{} (only for {})", row.origin, agents.join(", ")),
            },
            length(row.seconds),
            number(row.outages),
            length(row.longest_seconds),
            row.longest_since.map(minute).unwrap_or_default(),
            number(row.records),
        ];
        Line { bar: Some(fraction(row.seconds, most)), ..Line::of(cells) }
    });
    let columns = [
        ("Origin", Kind::Text),
        ("In all", Kind::Number),
        ("Outages", Kind::Number),
        ("Longest", Kind::Number),
        ("Since", Kind::Word),
        ("Denied for it", Kind::Number),
    ];
    let notes = match rows.is_empty() {
        true => Vec::new(),
        false => vec![
            "From the beginning of each outage to the last record that tells of it: what nobody asked for \
             afterwards is not known."
                .into(),
        ],
    };
    let left = report.unreachable.origins - rows.len() as u64;
    let foot = (left > 0).then(|| format!("And {}.", plural(left, "more origin")));
    Section {
        title: "robots.txt unreachable",
        notes,
        table: Table::of(columns, lines),
        foot,
        ..Section::default()
    }
}

fn exemptions(report: &Report) -> Section {
    let line = |row: &ExemptionUse| {
        let key = &row.key;
        let cells = [
            capital(standing(row.standing)),
            day(key.until),
            match &key.ticket {
                Some(ticket) => format!("{}: {} ({ticket})", key.by, key.reason),
                None => format!("{}: {}", key.by, key.reason),
            },
            key.origin.clone(),
            number(row.records),
            row.first.map(day).unwrap_or_default(),
            row.last.map(day).unwrap_or_default(),
        ];
        Line { is_urgent: row.standing != Standing::Running, ..Line::of(cells) }
    };
    let columns = [
        ("State", Kind::Word),
        ("Until", Kind::Word),
        ("By whom, and why", Kind::Text),
        ("Origin", Kind::Text),
        ("Used", Kind::Number),
        ("First", Kind::Word),
        ("Last", Kind::Word),
    ];
    let table = Table::of(columns, report.exemptions.rows.iter().map(line));
    Section { title: "Exemptions used", table, foot: foot(&report.exemptions), ..Section::default() }
}

fn robots_txt(report: &Report) -> Section {
    let lines = report.robots_txt.iter().flat_map(|file| {
        let origin = match file.earlier {
            0 => file.origin.clone(),
            earlier => format!("{} ({} before)", file.origin, number(earlier)),
        };
        file.versions.iter().map(move |version| {
            Line::of([
                origin.clone(),
                minute(version.first),
                minute(version.last),
                number(version.records),
                version.sha256.clone(),
            ])
        })
    });
    let columns = [
        ("Origin", Kind::Text),
        ("First record", Kind::Word),
        ("Last record", Kind::Word),
        ("Records", Kind::Number),
        ("File SHA-256", Kind::Digest),
    ];
    Section { title: "robots.txt versions", table: Table::of(columns, lines), ..Section::default() }
}

/// What is not in the rows.
fn foot<R>(top: &Top<R>) -> Option<String> {
    let mut sentences = Vec::new();
    if top.others > 0 {
        let more = top.distinct.saturating_sub(top.rows.len() as u64);
        sentences.push(format!("And {} more with {}.", number(more), plural(top.others, "record")));
    }
    if top.is_approximate() {
        sentences.push(format!(
            "There are more than are counted exactly: a number may be short by up to {}.",
            number(top.undercount_at_most)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
