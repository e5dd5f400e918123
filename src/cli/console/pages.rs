//! The pages, each a view that its template lays out. Every number leads to the lines that it counts, and every page says
//! how to ask the same on the command line.

mod ask;
mod live;
mod now;
mod person;
mod record;
mod records;
mod site;
pub mod view;

use std::sync::Arc;

use askama::Template;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Form, Router};

use super::archive::{ConsoleArchive, ReportAsked};
use super::reading::{Asked, By, Shared, with_report};
use super::respond::{
    bad, guarded, login_page, message, next_page, operators_only, plain, redirect_with, shown,
};
use crate::admin::guard::{Credential, Role};
use crate::audit::Operation;
use crate::audit::read::report::Report;
use crate::cli::audit::report::page::{Band, print};
use crate::cli::audit::report::sections::{
    Section, column, facts, sections, settings, shown as shown_events,
};
use crate::cli::audit::report::words::{headline, period, verification};
use crate::cli::audit::verify::stated_head;
use view::{Parameters, Shell, TableView, link};

/// Bytes of a form.
const BODY_BYTES_MAX: usize = 8 << 10;

/// The pages of an archive, and the answer where there is none.
pub fn router(archive: &Arc<ConsoleArchive>) -> Router {
    let nothing = Router::new().fallback(nothing);
    pages(archive).fallback_service(in_frame(nothing, archive))
}

/// The pages, where others are served beside them.
pub fn pages(archive: &Arc<ConsoleArchive>) -> Router {
    let pages = Router::new()
        .route("/", get(overview))
        .route("/now", get(now::show))
        .route("/act", post(now::act))
        .route("/records", get(records::list))
        .route("/records/live", get(live::stream))
        .route("/record", get(record::show))
        .route("/record/line", get(record::line))
        .route("/file", get(record::file))
        .route("/file/raw", get(record::raw))
        .route("/sites", get(site::list))
        .route("/site", get(site::show))
        .route("/site/dossier", get(site::dossier))
        .route("/exemptions", get(exemptions))
        .route("/unknown", get(unknown))
        .route("/ask", get(ask::show))
        .route("/person", get(person::show))
        .route("/report", get(report))
        .route("/help", get(help))
        .route("/login", get(login).post(redeem))
        .route("/logout", post(log_out))
        .with_state(Arc::clone(archive));
    in_frame(pages, archive)
}

fn in_frame(pages: Router, archive: &Arc<ConsoleArchive>) -> Router {
    pages
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(archive), guarded))
}

async fn nothing(request: Request) -> Response {
    let path = request.uri().path().to_owned();
    message(StatusCode::NOT_FOUND, "There is no such page", &format!("Nothing is at {path}."))
}

#[derive(Template)]
#[template(path = "console/overview.html", config = "src/templates/askama.toml")]
struct Overview {
    shell: Shell,
    verification: String,
    is_in_doubt: bool,
    head: String,
    headline: String,
    period: String,
    /// Each with the address of the records that it counts.
    facts: Vec<(String, String, Option<String>)>,
    bands: Vec<Band>,
    forwarded: Vec<TableView>,
    settings: Vec<TableView>,
    unknown: Option<Section>,
    denied: Vec<TableView>,
}

/// A sum, with the address of the records that it counts.
fn fact(report: &Report, name: String, value: String) -> (String, String, Option<String>) {
    let event = shown_events(report).find(|event| column(*event) == name);
    let to = match event {
        Some(event) => Some(link("/records", &[("event", event.word())])),
        None if name == "Records" => Some("/records".to_owned()),
        None => None,
    };
    (name, value, to)
}

/// The changes of settings, each with its line, as that role may see them; none where there were none.
fn settings_table(report: &Report, role: Role) -> Option<TableView> {
    let section = settings(report, role == Role::Operator);
    let table = TableView::linked(&section, 1, &|cells: &[String]| {
        Some(link("/record", &[("seq", &cells.get(1)?.replace(',', ""))]))
    });
    (!table.rows.is_empty()).then_some(table)
}

async fn overview(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    let mut parameters = Parameters::of(asked);
    let head = parameters.take("head").filter(|head| !head.trim().is_empty());
    if let Err(why) = parameters.end() {
        return bad(&why);
    }
    let head = head.map(|head| head.trim().to_owned());
    if head.as_deref().is_some_and(|head| stated_head(head).is_none()) {
        return bad(
            "head: it is the number of a line, a colon and 64 hexadecimal digits, or a checkpoint",
        );
    }
    let asked = ReportAsked { head: head.clone(), ..ReportAsked::default() };
    with_report(&archive, &asked, |report| {
        let all = sections(report);
        let find = |title: &str| all.iter().find(|section| section.title == title);
        let site = |cells: &[String]| Some(link("/site", &[("origin", cells.first()?)]));
        let agent = |cells: &[String]| Some(link("/records", &[("agent", cells.first()?)]));
        let counted = |title: &str, name: &str, to: fn(&[String]) -> Option<String>| {
            find(title).map(|section| TableView::counted(section, name, to))
        };
        shown(&Overview {
            shell: Shell::of("Can this be believed?", "/", "courtesy audit report --verify".into()),
            verification: verification(report),
            is_in_doubt: report.verified.as_ref().is_some_and(|verified| !verified.holds),
            head: head.unwrap_or_default(),
            headline: headline(report),
            period: period(report),
            facts: facts(report)
                .into_iter()
                .map(|(name, value)| fact(report, name, value))
                .collect(),
            bands: Band::all(report),
            forwarded: [
                counted("Forwarded although disallowed", "origin", site),
                counted("Forwarded although disallowed, by agent", "agent", agent),
            ]
            .into_iter()
            .flatten()
            .filter(|table| !table.rows.is_empty())
            .collect(),
            settings: settings_table(report, visitor.role).into_iter().collect(),
            unknown: find("What the log cannot tell").cloned(),
            denied: [counted("By origin", "origin", site), counted("By agent", "agent", agent)]
                .into_iter()
                .flatten()
                .collect(),
        })
    })
}

#[derive(Template)]
#[template(path = "console/tables.html", config = "src/templates/askama.toml")]
struct Tables {
    shell: Shell,
    intro: String,
    bands: Vec<Band>,
    notes: Vec<Section>,
    tables: Vec<TableView>,
}

async fn exemptions(
    State(archive): Shared,
    Extension(visitor): By,
    Query(asked): Asked,
) -> Response {
    if let Err(why) = Parameters::of(asked).end() {
        return bad(&why);
    }
    with_report(&archive, &ReportAsked::default(), |report| {
        let all = sections(report);
        let line = |at: usize| {
            move |cells: &[String]| {
                let seq = cells.get(at).filter(|seq| !seq.is_empty())?.replace(',', "");
                Some(link("/record", &[("seq", &seq)]))
            }
        };
        let register = all.iter().find(|section| section.title == "Exemptions");
        let register = register.map(|it| TableView::linked(it, 6, &line(6)));
        let changes = settings_table(report, visitor.role);
        let uses = all.iter().find(|section| section.title == "Uses of exemptions");
        let uses = uses.map(|section| {
            TableView::linked(section, 4, &|cells: &[String]| {
                Some(link("/records", &[("event", "exempted"), ("origin", cells.get(3)?)]))
            })
        });
        shown(&Tables {
            shell: Shell::of("Exemptions and settings", "/exemptions", "courtesy audit report".into()),
            intro: "Who permitted what, until when, by which line of the log; and each change of the settings.".into(),
            bands: Band::all(report),
            notes: Vec::new(),
            tables: [register, uses, changes].into_iter().flatten().collect(),
        })
    })
}

async fn unknown(State(archive): Shared, Query(asked): Asked) -> Response {
    if let Err(why) = Parameters::of(asked).end() {
        return bad(&why);
    }
    with_report(&archive, &ReportAsked::default(), |report| {
        let all = sections(report);
        let find = |title: &str| all.iter().find(|section| section.title == title).cloned();
        let notes: Vec<_> = find("What the log cannot tell").into_iter().collect();
        let table = notes.first().filter(|section| !section.table.rows.is_empty());
        let tables = table.map(|section| TableView::of(section, |_| None)).into_iter();
        let time = find("When it was on").map(|section| {
            TableView::linked(&section, 4, &|cells: &[String]| {
                let seq = cells.get(4).filter(|seq| !seq.is_empty())?.replace(',', "");
                Some(link("/record", &[("seq", &seq)]))
            })
        });
        shown(&Tables {
            shell: Shell::of("What the log cannot tell", "/unknown", "courtesy audit report".into()),
            intro: "What was lost, removed, not counted or not seen. What a whole log could hide, only a head that was published shows: see the first page.".into(),
            bands: Band::all(report),
            tables: tables.chain(time).collect(),
            notes,
        })
    })
}

/// The report as the file that is sent and printed.
async fn report(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    if visitor.role != Role::Operator {
        return operators_only();
    }
    if let Err(why) = Parameters::of(asked).end() {
        return bad(&why);
    }
    with_report(&archive, &ReportAsked::default(), |report| {
        archive.note(&visitor, Operation::Export, Some("the report"));
        plain(print(report), Some("report.html"))
    })
}

#[derive(Template)]
#[template(path = "console/help.html", config = "src/templates/askama.toml")]
struct Help {
    shell: Shell,
}

async fn help() -> Response {
    shown(&Help { shell: Shell::of("Help", "/help", "courtesy audit --help".into()) })
}

/// The page that lets in, with the code of a link.
async fn login(State(archive): Shared, uri: Uri, Query(asked): Asked) -> Response {
    let code = Parameters::of(asked).take("code").unwrap_or_default();
    login_page(StatusCode::OK, &archive, code, &uri)
}

async fn redeem(
    State(archive): Shared,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let mut parameters = Parameters::of(fields);
    let (code, token) = (parameters.take("code"), parameters.take("token"));
    let next = next_page(parameters.take("next"));
    let credential = match (&code, &token) {
        (_, Some(token)) => Credential::Token(token),
        (code, None) => Credential::Code(code.as_deref().unwrap_or_default()),
    };
    let Some((cookie, visitor)) = archive.guard.log_in(credential, &headers) else {
        let why = match credential {
            Credential::Token(_) => {
                "The token is another, or too many wrong ones came within a minute. It is what stands in the file of admin.token_file or admin.viewer_token_file."
            }
            Credential::Code(_) => {
                "The link was used, or is older than ten minutes. Enter in the terminal prints another, or `courtesy console` does."
            }
        };
        return message(StatusCode::FORBIDDEN, "This opens nothing", why);
    };
    let role = if visitor.role == Role::Operator { "operator" } else { "viewer" };
    archive.note(&visitor, Operation::LogIn, Some(role));
    redirect_with(&next, &cookie)
}

async fn log_out(State(archive): Shared, request: Request) -> Response {
    redirect_with("/login", &archive.guard.log_out(request.headers()))
}
