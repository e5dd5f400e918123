//! One site: the versions of its robots.txt with what each changed, under each what was asked, and what became of it;
//! the exemptions that named it, and its dossier.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;

use super::records::table;
use super::view::{Parameters, Shell, TableView, link, quoted};
use crate::admin::guard::Role;
use crate::audit::read::Filter;
use crate::audit::read::filter::Place;
use crate::audit::read::history::History;
use crate::audit::{Event, Operation};
use crate::cli::audit::dossier::{Dossier, VersionView, columns, facts, versions};
use crate::cli::audit::history;
use crate::cli::audit::report::sections::{facts as facts_of, sections};
use crate::cli::audit::report::words::capital;
use crate::cli::console::archive::{ConsoleArchive, ReportAsked, words};
use crate::cli::console::proxy::RunningProxy;
use crate::cli::console::reading::{Asked, By, Shared, with_report};
use crate::cli::console::respond::{bad, busy, operators_only, plain, shown};
use crate::cli::output::Paint;
use crate::cli::store::{Shown, get_text};
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::split_url;

/// Lines that are shown of what was forwarded.
const FORWARDED_MAX: usize = 20;

#[derive(Template)]
#[template(path = "console/sites.html", config = "src/templates/askama.toml")]
struct SitesPage {
    shell: Shell,
    tables: Vec<TableView>,
}

/// `GET /sites`
pub async fn list(State(archive): Shared, Query(asked): Asked) -> Response {
    if let Err(why) = Parameters::of(asked).end() {
        return bad(&why);
    }
    with_report(&archive, &ReportAsked::default(), |report| {
        let all = sections(report);
        let table = |title: &str| {
            let section = all.iter().find(|section| section.title == title);
            let to = |cells: &[String]| Some(link("/site", &[("origin", cells.first()?)]));
            section.map(|section| TableView::of(section, to))
        };
        let by_records =
            table("By origin").map(|table| TableView { title: "By records".into(), ..table });
        shown(&SitesPage {
            shell: Shell::of("Sites", "/sites", "courtesy audit history ORIGIN".into()),
            tables: table("What was asked").into_iter().chain(by_records).collect(),
        })
    })
}

#[derive(Template)]
#[template(path = "console/site.html", config = "src/templates/askama.toml")]
struct SitePage {
    shell: Shell,
    facts: Vec<(&'static str, String)>,
    columns: Vec<(&'static str, usize)>,
    versions: Vec<VersionView>,
    forwarded: TableView,
    exemptions: Option<TableView>,
    paced: Option<TableView>,
    /// What the log has records of.
    on_record: String,
    links: Vec<(String, String)>,
    /// Of one log a dossier can be made.
    dossier: Option<String>,
    /// What the running proxy knows of it.
    now: Option<Vec<String>>,
    may_act: bool,
    origin: String,
}

/// `GET /site?origin=https://example.com`
pub async fn show(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    let origin = match origin(asked) {
        Ok(origin) => origin,
        Err(why) => return bad(&why),
    };
    let place = Place::parse(&origin).expect("it was read as one before");
    let filter = Filter { origins: vec![place], ..Filter::default() };
    let asked = ReportAsked {
        filter: filter.clone(),
        origins: vec![origin.clone()],
        ..ReportAsked::default()
    };
    // The sum of the site first: it shows how far it has come.
    let tables = match crate::cli::console::reading::report_of(&archive, &asked) {
        Err(response) => return *response,
        Ok(read) => match &read.report {
            Err(why) => return bad(why),
            Ok(report) => {
                let all = sections(report);
                let find = |title: &str| all.iter().find(|section| section.title == title);
                let register = find("Exemptions").map(|section| {
                    TableView::linked(section, 6, &|cells: &[String]| {
                        let seq = cells.get(6).filter(|seq| !seq.is_empty())?.replace(',', "");
                        Some(link("/record", &[("seq", &seq)]))
                    })
                });
                let on_record = facts_of(report).into_iter().filter(|(_, value)| value != "0");
                let on_record = on_record.map(|(name, value)| format!("{name} {value}"));
                (
                    register,
                    find("Requests that waited").map(|section| TableView::of(section, |_| None)),
                    on_record.collect::<Vec<_>>().join(" · "),
                )
            }
        },
    };
    let name = origin.clone();
    let viewed = archive.search({
        let role = visitor.role;
        move |archive| view(archive, role, name, &filter, tables)
    });
    let page = match viewed.await {
        None => return busy(),
        Some(Err(why)) => return bad(&why),
        Some(Ok(page)) => page,
    };
    let Some(proxy) = archive.proxy.clone() else { return shown(&page) };
    let known = tokio::task::spawn_blocking(move || known(&proxy, &origin)).await;
    shown(&SitePage { now: known.ok(), may_act: visitor.role == Role::Operator, ..page })
}

fn origin(asked: Vec<(String, String)>) -> Result<String, String> {
    let mut parameters = Parameters::of(asked);
    let origin = parameters.take("origin").ok_or("origin: name a site, as https://example.com")?;
    parameters.end()?;
    match Place::parse(origin.trim()) {
        Ok(Place::Origin(origin)) => Ok(origin.to_string()),
        Ok(Place::Host { .. }) => Ok(format!("https://{}", origin.trim())),
        Err(error) => Err(format!("origin: {error}")),
    }
}

fn view(
    archive: &ConsoleArchive,
    role: Role,
    origin: String,
    filter: &Filter,
    (exemptions, paced, on_record): (Option<TableView>, Option<TableView>, String),
) -> Result<SitePage, String> {
    let mut history = History::default();
    let filter_all = Filter { events: history::events(), ..filter.clone() };
    archive.each(&filter_all, &mut |log, content| history.add(&content, log))?;
    let site = history.sites.remove(&origin).unwrap_or_default();
    let forwarded = Event::ALL.into_iter().filter(|event| *event != Event::Denied);
    let forwarded: Vec<_> = forwarded.map(|event| event.word().to_owned()).collect();
    let filter_forwarded = Filter { events: forwarded, ..filter.clone() };
    let page = archive.page(role, &filter_forwarded, None, FORWARDED_MAX)?;
    let count: u64 = site
        .versions
        .iter()
        .filter_map(|version| version.asked.as_ref())
        .map(|asked| asked.forwarded())
        .sum();
    let versions = versions(&site, &archive.dirs());
    let records = |events: &[&str]| {
        let events = events.iter().map(|event| ("event", *event));
        link(
            "/records",
            &[("origin", origin.as_str())].into_iter().chain(events).collect::<Vec<_>>(),
        )
    };
    let links = vec![
        ("Denied".into(), records(&["denied"])),
        ("Forwarded although disallowed".into(), records(&["would_deny", "exempted", "tunnelled"])),
        ("Ask for a URL of it".into(), link("/ask", &[("url", &format!("{origin}/"))])),
        ("Changes and notices".into(), records(&["changed", "paced", "file", "counts", "allowed"])),
    ];
    let count = count.max(page.lines.len() as u64);
    Ok(SitePage {
        shell: Shell::of(&origin, "/sites", format!("courtesy audit history {}", quoted(&origin))),
        facts: facts(&site, usize::try_from(count).unwrap_or(usize::MAX)),
        columns: columns(&versions),
        versions,
        forwarded: TableView {
            title: "Forwarded although disallowed".into(),
            foot: page.older.map(|_| "And more: see the records.".to_owned()),
            ..table(&page.lines, archive.logs.len() > 1)
        },
        exemptions,
        paced,
        on_record,
        links,
        now: None,
        may_act: false,
        dossier: (archive.logs.len() == 1 && role == Role::Operator)
            .then(|| link("/site/dossier", &[("origin", &origin)])),
        origin,
    })
}

/// What the running proxy knows of a site now, a line each.
fn known(proxy: &RunningProxy, origin: &str) -> Vec<String> {
    let Ok((parsed, _)) = split_url(origin.as_bytes()) else { return Vec::new() };
    match proxy.origin(&parsed) {
        Ok(None) => vec!["Nothing: it was not asked for since it was forgotten.".into()],
        Ok(Some(report)) => {
            let text = get_text(&Shown::of(report), SystemClock.wall(), Paint::OFF);
            // The first line names it, as the page does.
            text.lines().skip(1).map(|line| line.trim_end().to_owned()).collect()
        }
        Err(error) => vec![format!("It cannot be told: {error}")],
    }
}

/// `GET /site/dossier?origin=…`: what this site may see, and nothing of another, as a file to hand over.
pub async fn dossier(
    State(archive): Shared,
    Extension(visitor): By,
    Query(asked): Asked,
) -> Response {
    if visitor.role != Role::Operator {
        return operators_only();
    }
    let origin = match origin(asked) {
        Ok(origin) => origin,
        Err(why) => return bad(&why),
    };
    archive.note(&visitor, Operation::Export, Some(&format!("the dossier of {origin}")));
    let name = origin.split_once("://").map_or("site", |(_, host)| host).replace(':', "-");
    let made = archive.search(move |archive| {
        let place = Place::parse(&origin).map_err(|error| error.to_string())?;
        let filter = Filter { origins: vec![place], ..Filter::default() };
        let why = |failure| capital(&words(failure));
        let dossier = Dossier::of(&archive.logs, &filter, archive.place(), &[]).map_err(why)?;
        let mut file = Vec::new();
        dossier.write(&mut file).map_err(why)?;
        Ok::<_, String>(file)
    });
    match made.await {
        None => busy(),
        Some(Err(why)) => bad(&why),
        Some(Ok(file)) => plain(file, Some(&format!("{name}.tar"))),
    }
}
