//! What the log holds about a person: a name or an address that asked, from when to when, and where else it may stand.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;

use super::view::{Parameters, Shell, link, quoted};
use crate::admin::guard::Role;
use crate::audit::Operation;
use crate::audit::read::Filter;
use crate::audit::read::report::Report;
use crate::cli::audit::filters;
use crate::cli::audit::report::words::{minute, number};
use crate::cli::console::archive::ReportAsked;
use crate::cli::console::reading::{Asked, By, Shared, with_report};
use crate::cli::console::respond::{bad, operators_only, shown};

#[derive(Template)]
#[template(path = "console/person.html", config = "src/templates/askama.toml")]
struct PersonPage {
    shell: Shell,
    client: String,
    facts: Vec<(&'static str, String)>,
    records: Option<String>,
}

/// `GET /person?client=…`
pub async fn show(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    if visitor.role != Role::Operator {
        return operators_only();
    }
    let mut parameters = Parameters::of(asked);
    let client = parameters.take("client").unwrap_or_default();
    if let Err(why) = parameters.end() {
        return bad(&why);
    }
    let command = match client.as_str() {
        "" => "courtesy audit query --client CLIENT".into(),
        client => format!("courtesy audit query --client {}", quoted(client)),
    };
    let shell = Shell::of("What is held about a person?", "/help", command);
    if client.is_empty() {
        return shown(&PersonPage { shell, client, facts: Vec::new(), records: None });
    }
    let wanted = match filters::client(&client) {
        Ok(wanted) => wanted,
        Err(why) => return bad(&format!("client: {why}")),
    };
    // Not about whom: the log must not hold more about a person for being asked.
    archive.note(&visitor, Operation::Person, None);
    let asked = ReportAsked {
        filter: Filter { clients: vec![wanted], ..Filter::default() },
        clients: vec![client.clone()],
        ..ReportAsked::default()
    };
    with_report(&archive, &asked, |report| {
        let records = link("/records", &[("client", &client)]);
        shown(&PersonPage {
            shell,
            facts: facts(report),
            records: (report.records.all > 0).then_some(records),
            client: client.clone(),
        })
    })
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let records = &report.records;
    let time = |time: Option<_>| time.map_or_else(|| "-".into(), minute);
    vec![
        ("Records", number(records.all)),
        ("First", time(records.first)),
        ("Last", time(records.last)),
        ("Agents", number(report.by_agent.distinct)),
        ("Sites", number(report.by_origin.distinct)),
    ]
}
