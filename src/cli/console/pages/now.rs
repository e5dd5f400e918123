//! What only the running proxy knows: how it is, who waits for what, and the settings in effect; and what an operator
//! may have it do.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Form};

use super::view::{CellView, Parameters, RowView, Shell, TableView, link};
use crate::admin::control::WaitReport;
use crate::admin::guard::{Role, Visitor};
use crate::admin::{Check, Status};
use crate::audit::Operation;
use crate::cli::audit::report::sections::Kind;
use crate::cli::audit::report::words::{capital, number, second};
use crate::cli::console::proxy::RunningProxy;
use crate::cli::console::reading::{Asked, By, Shared};
use crate::cli::console::respond::{bad, message, operators_only, redirect, shown};
use crate::cli::store::waiting::{named, why, why_fetch};
use crate::cli::store::{of_hold, seconds};
use crate::clients::ClientWaits;
use crate::config::Effective;
use crate::types::origin::{Origin, split_url};

#[derive(Template)]
#[template(path = "console/now.html", config = "src/templates/askama.toml")]
struct NowPage {
    shell: Shell,
    /// How it is, and whether that is as it should be.
    verdict: (&'static str, &'static str),
    facts: Vec<(&'static str, String)>,
    /// What was looked at, for that.
    looked_at: String,
    troubles: Vec<String>,
    waits: TableView,
    settings: Option<SettingsView>,
    may_act: bool,
}

/// Places of each kind where requests wait that are shown.
const WAITS_MAX: usize = 50;

/// Settings in effect: those that were set, and the others.
struct SettingsView {
    set: TableView,
    others: TableView,
}

/// `GET /now`
pub async fn show(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    if let Err(why) = Parameters::of(asked).end() {
        return bad(&why);
    }
    let Some(proxy) = &archive.proxy else { return no_proxy() };
    let checks = proxy.checks();
    let worst = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ready);
    let time = |time: Option<_>| time.map_or_else(|| "not since the start".into(), second);
    let last = time(proxy.reloads().last_success());
    // Settings name networks and persons.
    let may_act = visitor.role == Role::Operator;
    shown(&NowPage {
        shell: Shell::of("Now", "/now", "courtesy store waiting".into()),
        verdict: words(worst),
        facts: vec![
            ("Started", second(proxy.started())),
            ("Settings read again", last),
            ("Sessions of the console", archive.guard.session_count().to_string()),
        ],
        looked_at: checks.iter().map(|check| check.part).collect::<Vec<_>>().join(", "),
        troubles: troubles(&checks),
        waits: waits(&proxy.waits(WAITS_MAX), visitor.role),
        settings: may_act.then(|| settings(proxy)),
        may_act,
    })
}

fn no_proxy() -> Response {
    let why = "These pages are of a log. What a running proxy knows, its own console shows.";
    message(StatusCode::NOT_FOUND, "No proxy serves these pages", why)
}

fn words(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Ready => ("Ready", "allowed"),
        Status::Degraded => ("Ready, but something is not as it should be", "forwarded"),
        Status::NotReady => ("Not ready: it should be sent no requests", "forwarded"),
    }
}

fn troubles(checks: &[Check]) -> Vec<String> {
    let each = checks.iter().filter_map(|check| Some((check.part, check.problem.as_deref()?)));
    each.map(|(part, problem)| format!("{part}: {problem}")).collect()
}

/// Who waits for what and why, those with most waiting requests first; the clients are named to operators alone.
fn waits(report: &WaitReport, role: Role) -> TableView {
    let clients = |clients: &ClientWaits| match role {
        Role::Operator => named(clients).join(" · "),
        Role::Viewer => number((clients.clients.len() + clients.other_clients) as u64),
    };
    let row = |place: CellView, waiting: usize, [longest, next, why]: [String; 3], of| {
        let texts = [number(waiting as u64), longest, next, why, of].map(CellView::text);
        RowView { cells: [place].into_iter().chain(texts).collect(), is_urgent: false }
    };
    let lanes = report.pace.lanes.iter().map(|lane| {
        let longest = lane.longest.as_ref();
        let next = longest.and_then(|it| it.next_ms).map(seconds).unwrap_or_default();
        let hold = lane.hold.as_ref().map(of_hold);
        let reasons: Vec<_> = longest.map(why).into_iter().chain(hold).collect();
        let waited = longest.map(|it| seconds(it.waited_ms)).unwrap_or_default();
        let reasons = capital(&reasons.join("; "));
        // A lane may be that of an address, of which there is no page.
        let site = lane.lane.contains("://").then(|| link("/site", &[("origin", &lane.lane)]));
        let place = CellView { text: lane.lane.clone(), to: site };
        row(place, lane.clients.waiting, [waited, next, reasons], clients(&lane.clients))
    });
    let fetches = report.robots.fetches.iter().map(|fetch| {
        let place = CellView::link(
            format!("{}/robots.txt", fetch.origin),
            link("/site", &[("origin", &fetch.origin)]),
        );
        let reasons = capital(&why_fetch(fetch));
        let told = [seconds(fetch.waited_ms), String::new(), reasons];
        row(place, fetch.clients.waiting, told, clients(&fetch.clients))
    });
    let columns = [
        ("Where", Kind::Text),
        ("Waiting", Kind::Number),
        ("The first for", Kind::Word),
        ("Next start in", Kind::Word),
        ("Why", Kind::Text),
        ("Clients", Kind::Text),
    ];
    let rows: Vec<_> = lanes.chain(fetches).collect();
    let others = report.pace.other_lanes + report.robots.other_fetches;
    let requests = report.pace.other_waiting + report.robots.other_waiting;
    TableView {
        title: "Who waits, and why".into(),
        notes: rows.is_empty().then(|| "No request waits.".into()).into_iter().collect(),
        columns: TableView::columns(&columns),
        rows,
        foot: (others > 0)
            .then(|| format!("And {others} more places, where {requests} requests wait.")),
    }
}

fn settings(proxy: &RunningProxy) -> SettingsView {
    let (others, set): (Vec<_>, Vec<_>) =
        proxy.reloads().in_effect().into_iter().partition(|it| it.from == "default");
    let view = |title: &str, settings: Vec<Effective>| {
        let rows = settings.into_iter().map(|setting| {
            let value =
                if setting.value.is_null() { "–".into() } else { setting.value.to_string() };
            let cells = [setting.key, value, setting.from].map(CellView::text);
            RowView { cells: cells.into(), is_urgent: false }
        });
        let columns = [("Setting", Kind::Word), ("Value", Kind::Text), ("From", Kind::Text)];
        TableView {
            title: title.to_owned(),
            columns: TableView::columns(&columns),
            rows: rows.collect(),
            ..TableView::default()
        }
    };
    SettingsView { set: view("Settings", set), others: view("", others) }
}

/// `POST /act`: what an operator has the proxy do. It is a line of the log before it is done.
pub async fn act(
    State(archive): Shared,
    Extension(visitor): By,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    if visitor.role != Role::Operator {
        return operators_only();
    }
    let Some(proxy) = archive.proxy.clone() else { return no_proxy() };
    let mut parameters = Parameters::of(fields);
    let (action, origin) = (parameters.take("action"), parameters.take("origin"));
    if let Err(why) = parameters.end() {
        return bad(&why);
    }
    let origin = origin.map(|text| split_url(text.as_bytes()).map(|(origin, _)| origin));
    let action = action.unwrap_or_default().parse();
    match (action, origin) {
        (Ok(action @ (Operation::Forget | Operation::Fetch)), Some(Ok(origin))) => {
            of_origin(proxy, &visitor, action, origin).await
        }
        (Ok(Operation::Forget | Operation::Fetch), _) => {
            bad("origin: name a site, as https://example.com")
        }
        (Ok(Operation::Reload), None) => {
            proxy.note(&visitor, Operation::Reload, None);
            // What came of it stands on the page.
            let _ = tokio::task::spawn_blocking(move || proxy.reload()).await;
            redirect("/now")
        }
        (Ok(Operation::Verify), None) => {
            proxy.note(&visitor, Operation::Verify, None);
            archive.read_again();
            redirect("/")
        }
        _ => bad("action: it is forget, fetch, reload or verify"),
    }
}

async fn of_origin(
    proxy: RunningProxy,
    visitor: &Visitor,
    action: Operation,
    origin: Origin,
) -> Response {
    let name = origin.to_string();
    proxy.note(visitor, action, Some(&name));
    let work = move || match action {
        Operation::Fetch => proxy.fetch(&origin).map_err(|error| error.to_string()),
        _ => proxy.forget(&origin).map(drop).map_err(|error| error.to_string()),
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => redirect(&link("/site", &[("origin", &name)])),
        Ok(Err(why)) => message(StatusCode::BAD_GATEWAY, "It could not be done", &capital(&why)),
        Err(_) => message(StatusCode::INTERNAL_SERVER_ERROR, "It could not be done", ""),
    }
}
