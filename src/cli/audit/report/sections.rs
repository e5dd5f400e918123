//! The sections of a report, for the page and the summary: these only lay them out.

mod section;
mod service;
mod whole;

use std::time::Duration;

use super::words::{capital, day, minute, number, plural, status};
use crate::audit::read::report::{
    ClientKey, ExemptionStatus, ExemptionUse, FetchedSites, NodeKey, PacedKey, PacedLine,
    PacedTotals, ProfileKey, Report,
};
use crate::cli::audit::filters::print_until;
use crate::cli::output::{human_duration, seconds};
pub use section::{Kind, Line, Section, Table};
use section::{agent, bar, foot, origin};
use service::{register, service};
pub use service::{settings, state};
use whole::{Ranked, decided, forwarded, forwarded_by_agent, unseen};
pub use whole::{column, shown, warning};

/// The facts at the top, each number with its name.
pub fn facts(report: &Report) -> Vec<(String, String)> {
    let records = &report.records;
    let mut facts = vec![("Records".into(), number(records.all))];
    let events = records.events();
    facts.extend(shown(report).map(|event| (column(event).to_owned(), number(events.of(event)))));
    if records.by_host > 0 {
        facts.push(("Judged by path".into(), number(records.by_path)));
        facts.push(("Judged by host only".into(), number(records.by_host)));
    }
    facts
}

/// All sections that are not empty, in order.
pub fn sections(report: &Report) -> Vec<Section> {
    let ranked = Ranked::of(report);
    let sections = [
        service(report).of_summary(),
        settings(report, true),
        decided(report).of_summary(),
        fetched(report).of_summary(),
        forwarded(report).of_summary(),
        forwarded_by_agent(report),
        register(report).of_summary(),
        Section { is_of_summary: report.register.rows.is_empty(), ..exemptions(report) },
        unseen(report).of_summary(),
        ranked.by_reason(report),
        ranked.by("By origin", "Origin", &report.by_origin, origin).of_summary(),
        ranked.by("By agent", "Product token", &report.by_agent, agent),
        ranked.by("By client", "Client", &report.by_client, client),
        by_node(&ranked, report),
        ranked.by_rule(report).of_summary(),
        paced(report).of_summary(),
        unreachable(report).of_summary(),
        robots_txt(report),
        ranked.by("By profile", "Profile", &report.by_profile, profile),
    ];
    sections
        .into_iter()
        .filter(|section| !section.notes.is_empty() || !section.table.rows.is_empty())
        .collect()
}

fn client(key: &ClientKey) -> String {
    let address = key.address.as_ref().map(ToString::to_string);
    key.client.clone().or(address).unwrap_or_else(|| "(not recorded)".into())
}

/// Where there is more than one.
fn by_node(ranked: &Ranked, report: &Report) -> Section {
    let node = |key: &NodeKey| key.node.clone().unwrap_or_else(|| "(not named)".into());
    match report.by_node.distinct {
        0 | 1 => Section::default(),
        _ => ranked.by("By instance", "Instance", &report.by_node, node),
    }
}

fn profile(key: &ProfileKey) -> String {
    let settings: String =
        key.settings.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
    format!("{} version {}{settings}", key.profile, key.version)
}

/// What was asked of each site, allowed requests among them.
fn fetched(report: &Report) -> Section {
    let FetchedSites { sites, rows, others } = &report.fetched;
    let most = rows.first().map_or(0, |row| row.asked);
    let lines = rows.iter().map(|row| {
        let numbers = [row.asked, row.allowed, row.denied, row.forwarded, row.held, row.bytes];
        let cells = [row.origin.clone()].into_iter().chain(numbers.map(number));
        Line { bar: Some(bar(row.asked, most)), ..Line::of(cells) }
    });
    let columns = [
        ("Origin", Kind::Text),
        ("Asked", Kind::Number),
        ("Allowed", Kind::Number),
        ("Denied", Kind::Number),
        ("Forwarded all the same", Kind::Number),
        ("Held", Kind::Number),
        ("Bytes", Kind::Number),
    ];
    let notes = if rows.is_empty() {
        Vec::new()
    } else {
        let lines = "Counted by the proxy each hour and at its end; by version of robots.txt: courtesy audit history.";
        vec![lines.into()]
    };
    let left = sites.saturating_sub(rows.len() as u64);
    let foot = (*others > 0).then(|| match left {
        0 => format!("And {} to sites that are not counted apart.", plural(*others, "request")),
        _ => format!("And {} to {} more.", plural(*others, "request"), plural(left, "site")),
    });
    Section {
        title: "What was asked",
        notes,
        table: Table::of(columns, lines),
        foot,
        ..Section::default()
    }
}

/// Who was held, where, and by which line.
fn paced(report: &Report) -> Section {
    let held = report.paced.totals.filter(|totals| totals.held > 0 || totals.resting > 0);
    let mut notes = Vec::new();
    if let Some(PacedTotals { held, waited_ms, resting }) = held {
        notes.push(format!(
            "{} held until their time, for {} in all; {} told to come back later.",
            plural(held, "request"),
            human_duration(Duration::from_millis(waited_ms)),
            number(resting)
        ));
    }
    let lines = &report.paced.lines;
    let line = |row: &PacedLine| {
        let PacedKey { line, text, .. } = &row.key;
        let exempted = row.key.exempted_by.as_ref().map(|by| format!(" (exempted by {by})"));
        let clamped = if row.key.clamped { " (the most that is kept)" } else { "" };
        let observed = if row.key.observed { " (observe: not kept)" } else { "" };
        let unseen = if row.key.not_seen { " (tunnels; pace not seen)" } else { "" };
        Line::of([
            row.key.origin.clone(),
            row.key.group.clone().unwrap_or_else(|| "(outside of groups)".into()),
            format!("{line}: {text}"),
            format!(
                "{}{clamped}{}{observed}{unseen}",
                seconds(Duration::from_millis(row.key.delay_ms)),
                exempted.unwrap_or_default()
            ),
            number(row.days),
            row.first.map(day).unwrap_or_default(),
            row.last.map(day).unwrap_or_default(),
        ])
    };
    let columns = [
        ("Origin", Kind::Text),
        ("Group", Kind::Text),
        ("Line", Kind::Text),
        ("Between two requests", Kind::Text),
        ("Days", Kind::Number),
        ("First", Kind::Word),
        ("Last", Kind::Word),
    ];
    let left = lines.distinct.saturating_sub(lines.rows.len() as u64);
    let foot = (left > 0).then(|| format!("And {}.", plural(left, "more line")));
    let table = Table::of(columns, lines.rows.iter().map(line));
    Section { title: "Requests that waited", notes, table, foot, ..Section::default() }
}

fn unreachable(report: &Report) -> Section {
    let rows = &report.unreachable.rows;
    let most = rows.first().map_or(0, |row| row.seconds);
    let length = |seconds| human_duration(std::time::Duration::from_secs(seconds));
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
        Line { bar: Some(bar(row.seconds, most)), ..Line::of(cells) }
    });
    let columns = [
        ("Origin", Kind::Text),
        ("In all", Kind::Number),
        ("Outages", Kind::Number),
        ("Longest", Kind::Number),
        ("Since", Kind::Word),
        ("Records of it", Kind::Number),
    ];
    let notes = if rows.is_empty() {
        Vec::new()
    } else {
        vec![
        "From the beginning of each outage to the last record that tells of it: what was not asked for \
         afterwards is not known."
            .into(),
    ]
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
            capital(status(row.status)),
            print_until(key.until),
            match &key.ticket {
                Some(ticket) => format!("{}: {} ({ticket})", key.by, key.reason),
                None => format!("{}: {}", key.by, key.reason),
            },
            key.origin.clone(),
            number(row.records),
            row.first.map(day).unwrap_or_default(),
            row.last.map(day).unwrap_or_default(),
        ];
        Line { is_urgent: row.status != ExemptionStatus::Running, ..Line::of(cells) }
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
    Section {
        title: "Uses of exemptions",
        table,
        foot: foot(&report.exemptions),
        ..Section::default()
    }
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
