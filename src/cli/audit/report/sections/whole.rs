//! How much of the whole a report tells: the decisions that leave no record, and the records that are
//! not there.

use super::section::{Kind, Line, Section, Table, agent, bar, foot, origin};
use crate::audit::Event;
use crate::audit::read::report::{Decided, Events, Missing, Report, Row, ServiceState, Top};
use crate::cli::audit::report::words::{capital, minute, number, plural, second, share};
use crate::cli::output::human_duration;

/// Processes that were killed which are named, the last first.
const KILLS_NAMED: usize = 3;

/// The section of all decisions, allowed ones included, as far as they were counted.
pub fn decided(report: &Report) -> Section {
    let notes = match &report.decided {
        None => vec![
            "How many requests were decided in all is not counted by origin, agent or client."
                .to_owned(),
        ],
        Some(decided) => match (decided.since, decided.until) {
            (Some(since), Some(until)) => {
                let all = decided.allowed + decided.denied;
                let counted =
                    human_duration(std::time::Duration::from_secs(decided.counted_seconds));
                let by_parent = (decided.by_parent > 0).then(|| by_parent(decided));
                let whole = [
                    format!(
                        "{} decided: {} forwarded, {} denied{}.",
                        plural(all, "request"),
                        number(decided.allowed),
                        number(decided.denied),
                        if all > 0 {
                            format!(" ({})", share(decided.denied, all))
                        } else {
                            String::new()
                        },
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

/// The section of what the log cannot tell: gaps, torn ends, lines that retention removed, time that is not known, and
/// requests of which the path was not seen.
pub fn unseen(report: &Report) -> Section {
    let missing = &report.missing;
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
    say(missing.killed, killed(missing));
    let is_urgent = !notes.is_empty();
    let mut say = |count: u64, note: String| {
        if count > 0 {
            notes.push(note);
        }
    };
    let unknown = report.service.length(ServiceState::Unknown);
    say(
        unknown.as_secs(),
        format!("For {} it is not known whether the proxy was on.", human_duration(unknown)),
    );
    let tunnelled = report.records.events().tunnelled;
    say(tunnelled, format!("What was asked in {} was not seen.", plural(tunnelled, "tunnel")));
    let by_host = report.records.by_host.saturating_sub(tunnelled);
    let verb = if by_host == 1 { "was" } else { "were" };
    say(by_host, format!("{} {verb} decided by the host alone.", plural(by_host, "record")));
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
        title: "What the log cannot tell",
        notes,
        is_urgent,
        table: Table::of(columns, gaps),
        ..Section::default()
    }
}

/// Of processes that were killed: until when their decisions are known.
fn killed(missing: &Missing) -> String {
    let kills = missing.kills.iter().rev().take(KILLS_NAMED).map(|kill| {
        let (until, started) = (second(kill.counted_until), second(kill.started_at));
        format!("until {until}, then killed; started again {started}")
    });
    let kills: Vec<_> = kills.collect();
    let others = missing.killed - kills.len() as u64;
    let others =
        if others > 0 { format!("; and {} before", plural(others, "time")) } else { String::new() };
    format!("Decisions are counted {}{others}.", kills.join("; "))
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

// Rankings: origins, agents, rules and clients, most frequent first, with denied, observed and
// exempted requests in columns of their own.

/// The events that have a column: the first three always, so that reports can be compared.
pub fn shown(report: &Report) -> impl Iterator<Item = Event> + use<> {
    let tunnelled = (report.records.events().tunnelled > 0).then_some(Event::Tunnelled);
    [Event::Denied, Event::WouldDeny, Event::Exempted].into_iter().chain(tunnelled)
}

/// How a column, or a sum, of such records is called.
pub const fn column(event: Event) -> &'static str {
    match event {
        Event::Denied => "Denied",
        Event::WouldDeny => "Would be denied",
        Event::Exempted => "Exempted",
        Event::Tunnelled => "Tunnelled",
    }
}

/// Makes tables that count records, with a column for each of some events.
pub struct Ranked(Vec<Event>);

impl Ranked {
    /// The kinds of events that the report shows, as columns.
    pub fn of(report: &Report) -> Self {
        Self(shown(report).collect())
    }

    /// The section of reasons, the most frequent first.
    pub fn by_reason(&self, report: &Report) -> Section {
        let mut counts: Vec<_> = report.records.events_by_reason.iter().collect();
        counts.sort_by_key(|(_, events)| std::cmp::Reverse(events.all()));
        let rows =
            counts.into_iter().map(|(reason, events)| (capital(reason.row().label), *events));
        Section { title: "By reason", table: self.table("Reason", rows), ..Section::default() }
    }

    /// The section of a ranking: `what` is the title of its first column, `name` the text of a key.
    pub fn by<K>(
        &self,
        title: &'static str,
        what: &'static str,
        top: &Top<Row<K>>,
        name: impl Fn(&K) -> String,
    ) -> Section {
        let rows = top.rows.iter().map(|row| (name(&row.key), row.events));
        Section { title, table: self.table(what, rows), foot: foot(top), ..Section::default() }
    }

    /// The section of rules, with origin, line and pattern.
    pub fn by_rule(&self, report: &Report) -> Section {
        let lines = report.by_rule.rows.iter().map(|row| {
            let key = &row.key;
            let rule = [
                key.origin.clone(),
                key.line.to_string(),
                format!("{}: {}", capital(&key.directive), key.pattern),
                key.sha256.clone().unwrap_or_default(),
            ];
            Line::of(self.counts(row.events).chain(rule))
        });
        let rule = [
            ("Origin", Kind::Text),
            ("Line", Kind::Number),
            ("Rule", Kind::Text),
            ("File SHA-256", Kind::Digest),
        ];
        let table = Table::of(self.columns().chain(rule), lines);
        Section { title: "By rule", table, foot: foot(&report.by_rule), ..Section::default() }
    }

    fn table(
        &self,
        what: &'static str,
        rows: impl Iterator<Item = (String, Events)> + Clone,
    ) -> Table {
        let most = rows.clone().map(|(_, events)| events.all()).max().unwrap_or_default();
        let lines = rows.map(|(name, events)| {
            let cells = std::iter::once(name).chain(self.counts(events));
            Line { bar: Some(bar(events.all(), most)), ..Line::of(cells) }
        });
        Table::of(std::iter::once((what, Kind::Text)).chain(self.columns()), lines)
    }

    fn columns(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.0.iter().map(|event| (column(*event), Kind::Number))
    }

    fn counts(&self, events: Events) -> impl Iterator<Item = String> {
        self.0.iter().map(move |event| number(events.of(*event)))
    }
}

const FORWARDED: [Event; 3] = [Event::WouldDeny, Event::Exempted, Event::Tunnelled];

/// Requests forwarded against the rules: in all, and by origin.
pub fn forwarded(report: &Report) -> Section {
    let forwarded = &report.forwarded;
    let say = |event: &Event| {
        let count = forwarded.events.of(*event);
        (count > 0).then(|| sentence(*event, count))
    };
    let notes = FORWARDED.iter().filter_map(say).collect();
    let ranked =
        Ranked(FORWARDED.iter().copied().filter(|event| forwarded.events.of(*event) > 0).collect());
    Section {
        notes,
        ..ranked.by("Forwarded although disallowed", "Origin", &forwarded.by_origin, origin)
    }
}

/// The same, by client.
pub fn forwarded_by_agent(report: &Report) -> Section {
    let forwarded = &report.forwarded;
    let ranked =
        Ranked(FORWARDED.iter().copied().filter(|event| forwarded.events.of(*event) > 0).collect());
    ranked.by(
        "Forwarded although disallowed, by agent",
        "Product token",
        &forwarded.by_agent,
        agent,
    )
}

fn sentence(event: Event, count: u64) -> String {
    match event {
        Event::Denied => format!("{} denied.", plural(count, "request")),
        Event::WouldDeny => {
            format!(
                "{} forwarded because the mode was observe; enforce denies such.",
                plural(count, "request")
            )
        }
        Event::Exempted => format!("{} forwarded under an exemption.", plural(count, "request")),
        Event::Tunnelled => format!(
            "{} tunnelled to hosts where some paths are disallowed, or to services that --reach names; \
             what was asked there was not seen.",
            plural(count, "connection")
        ),
    }
}
