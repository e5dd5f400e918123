//! The list of records, the newest first. Its parameters are the flags of `courtesy audit query`, with the same values.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use clap::{Args, Command, FromArgMatches};

use super::view::{CellView, Parameters, RowView, Shell, TableView, link, quoted};
use crate::audit::read::Filter;
use crate::audit::{Content, Event, Notice, Reason, Record, print_time};
use crate::cli::audit::filters::{FilterFlags, ProfileFlag};
use crate::cli::audit::notices;
use crate::cli::audit::report::sections::Kind;
use crate::cli::audit::report::words::capital;
use crate::cli::audit::show::words;
use crate::cli::console::archive::{MergedPage, PageLine};
use crate::cli::console::reading::{Asked, By, Shared};
use crate::cli::console::respond::{bad, busy, shown};

/// Rows of a page.
const ROWS: usize = 50;
const ROWS_MAX: usize = 200;

#[derive(Template)]
#[template(path = "console/records.html", config = "src/templates/askama.toml")]
struct RecordsPage {
    shell: Shell,
    /// The fields of the form, in order: name, value, what to write.
    fields: Vec<(&'static str, String, &'static str)>,
    events: Vec<(&'static str, bool)>,
    reasons: Vec<(&'static str, bool)>,
    /// Conditions that hold, each with the address without it.
    conditions: Vec<(String, String)>,
    table: TableView,
    older: Option<String>,
    newest: Option<String>,
    note: String,
    live: Option<LiveView>,
}

/// How new records are added to the page.
struct LiveView {
    /// The page with or without that.
    toggle: String,
    /// Where they come from, while that is wanted, and the line after which.
    stream: Option<(String, u64)>,
}

/// What people filter by most; the other flags are parameters all the same.
const FIELDS: [(&str, &str); 8] = [
    ("since", "2h, 7d, 2026-11-20"),
    ("until", "2026-11-21"),
    ("origin", "https://example.com, *.example.com"),
    ("agent", "ExampleBot"),
    ("client", "10.0.3.0/24, a name"),
    ("rule", "14, /private/"),
    ("url", "*/private/*"),
    ("id", "01K9ZQ"),
];

/// The filter that parameters describe, read as the flags of the command line are.
pub fn filter(pairs: &[(String, String)]) -> Result<Filter, String> {
    let command = FilterFlags::augment_args(Command::new("records").no_binary_name(true));
    let command = ProfileFlag::augment_args(command);
    let arguments =
        pairs.iter().map(|(name, value)| format!("--{}={value}", name.replace('_', "-")));
    let matches = command
        .disable_help_flag(true)
        .try_get_matches_from(arguments)
        .map_err(|error| first_line(&error.to_string()))?;
    let flags = FilterFlags::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    let profile = ProfileFlag::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    Ok(flags.filter_with(&profile))
}

fn first_line(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or_default();
    text.trim().trim_start_matches("error: ").replace("--", "")
}

/// `GET /records`
pub async fn list(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    let mut parameters = Parameters::of(asked);
    let before = parameters.take("before");
    let is_live = parameters.take("live").is_some();
    let limit = parameters.take("limit").map(|text| text.parse::<usize>());
    let limit = match limit {
        None => ROWS,
        Some(Ok(limit)) if (1..=ROWS_MAX).contains(&limit) => limit,
        Some(_) => return bad("limit: it is a number from 1 to 200"),
    };
    let pairs = parameters.rest().to_vec();
    let filter = match filter(&pairs) {
        Ok(filter) => filter,
        Err(why) => return bad(&why),
    };
    let cursor = before.clone();
    let role = visitor.role;
    let found =
        archive.search(move |archive| archive.page(role, &filter, cursor.as_deref(), limit)).await;
    let page = match found {
        None => return busy(),
        Some(Err(why)) => return bad(&why),
        Some(Ok(page)) => page,
    };
    let newest = page.newest.unwrap_or_default();
    let mut view = view(&pairs, before, archive.logs.len() > 1, page);
    if archive.proxy.is_some() && view.newest.is_none() {
        let stream = is_live.then(|| (address("/records/live", &pairs, &[("live", "1")]), newest));
        let more: &[(&str, &str)] = if is_live { &[] } else { &[("live", "1")] };
        view.live = Some(LiveView { toggle: address("/records", &pairs, more), stream });
    }
    shown(&view)
}

fn address(path: &str, pairs: &[(String, String)], more: &[(&str, &str)]) -> String {
    let own = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    link(path, &own.chain(more.iter().copied()).collect::<Vec<_>>())
}

fn view(
    pairs: &[(String, String)],
    before: Option<String>,
    is_of_several: bool,
    page: MergedPage,
) -> RecordsPage {
    let value = |name: &str| {
        let mut values = pairs.iter().filter(|(known, _)| known == name);
        values.next().map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let has = |name: &str, word: &str| pairs.iter().any(|(a, b)| a == name && b == word);
    let address = |pairs: &[_], more: &[(&str, &str)]| address("/records", pairs, more);
    let without = |at: usize| {
        let others = pairs.iter().enumerate().filter(|(other, _)| *other != at);
        address(&others.map(|(_, pair)| pair.clone()).collect::<Vec<_>>(), &[])
    };
    let conditions = pairs.iter().enumerate();
    let conditions =
        conditions.map(|(at, (name, value))| (format!("{name} = {value}"), without(at)));
    let flags: Vec<_> =
        pairs.iter().map(|(name, value)| format!(" --{name} {}", quoted(value))).collect();
    let note = match (page.lines.is_empty(), page.is_cut, page.older.is_some()) {
        (true, true, _) => "Nothing was found yet: the log goes on, and the search with it.".into(),
        (true, false, _) if pairs.is_empty() => {
            "The log has no record: nothing was disallowed. Allowed requests are counted by site."
                .into()
        }
        (true, false, _) => "No record fits. Take away a condition.".into(),
        (false, true, _) => "The search has not come to the beginning of the log yet.".into(),
        (false, false, true) => String::new(),
        (false, false, false) => "No older records fit.".into(),
    };
    let damaged = match page.damaged {
        0 => String::new(),
        count => format!(" {count} lines cannot be read and were passed over: see Cannot tell."),
    };
    RecordsPage {
        shell: Shell::of("Records", "/records", format!("courtesy audit query{}", flags.concat())),
        fields: FIELDS.map(|(name, hint)| (name, value(name), hint)).to_vec(),
        events: Event::ALL
            .map(Event::word)
            .iter()
            .chain(Notice::WORDS)
            .map(|word| (*word, has("event", word)))
            .collect(),
        reasons: Reason::ALL.into_iter().map(|it| (it.word(), has("reason", it.word()))).collect(),
        conditions: conditions.collect(),
        table: table(&page.lines, is_of_several),
        older: page.older.as_ref().map(|older| address(pairs, &[("before", older)])),
        newest: before.map(|_| address(pairs, &[])),
        note: note + &damaged,
        live: None,
    }
}

/// The lines as rows; each leads to its own page, and its values to the lines that have them, too.
pub fn table(lines: &[PageLine], is_of_several: bool) -> TableView {
    let rows = lines.iter().map(|PageLine { log, seq, line, is_changed }| {
        let to = link("/record", &[("log", &log.to_string()), ("seq", &seq.to_string())]);
        let mark = if *is_changed { "! " } else { "" };
        let number = CellView::link(format!("{mark}{seq}"), to);
        let cells = match Content::parse(line) {
            Ok(Content::Record(record)) => cells(&record),
            Ok(Content::Notice(notice)) => {
                let text = CellView::text(notices::words(&notice));
                let time = CellView::text(time(notice.time()));
                let word = link("/records", &[("event", notice.word())]);
                [
                    time,
                    CellView::default(),
                    CellView::default(),
                    text,
                    CellView::link(notice.word(), word),
                ]
            }
            Err(_) => Default::default(),
        };
        let log = is_of_several.then(|| CellView::text((log + 1).to_string()));
        RowView {
            cells: log.into_iter().chain([number]).chain(cells).collect(),
            is_urgent: *is_changed,
        }
    });
    let titles = [
        ("Line", Kind::Number),
        ("Time (UTC)", Kind::Word),
        ("Agent", Kind::Text),
        ("Client", Kind::Text),
        ("What", Kind::Text),
        ("Because", Kind::Text),
    ];
    let log = is_of_several.then_some(("Log", Kind::Number));
    let titles: Vec<_> = log.into_iter().chain(titles).collect();
    TableView { columns: TableView::columns(&titles), rows: rows.collect(), ..TableView::default() }
}

fn time(time: crate::types::timestamp::Timestamp) -> String {
    print_time(time)[..23].replace('T', " ")
}

fn cells(record: &Record) -> [CellView; 5] {
    let client = record.client.name.clone();
    let address = || record.client.address.as_ref().map(ToString::to_string);
    let client = client.or_else(address).unwrap_or_default();
    let agent = record.agent.clone().unwrap_or_default();
    let because = match &record.rule {
        Some(rule) => format!("line {}, {}: {}", rule.line, rule.directive, rule.pattern),
        None => record.reason.row().label.to_owned(),
    };
    let event = capital(words::event(record.event));
    let of = |name: &str, value: &str| link("/records", &[(name, value)]);
    [
        CellView::text(time(record.time)),
        CellView { to: (!agent.is_empty()).then(|| of("agent", &agent)), text: agent },
        CellView { to: (!client.is_empty()).then(|| of("client", &client)), text: client },
        CellView::text(format!("{} {}", record.method, record.url)),
        CellView::link(format!("{event}: {because}"), of("reason", record.reason.word())),
    ]
}
