//! The metrics page, in the text format of Prometheus or of OpenMetrics. Names follow Prometheus: base
//! units, `_total` on counters. No label names an origin, an agent or a path: their number has no
//! bound. One file here for each part of the program whose counters it prints;
//! `docs/reference/metrics.md` lists all metrics.

mod audit;
mod ca;
mod clients;
mod config;
mod egress;
mod engine;
mod exposition;
mod pace;
mod process;
mod proxy;
mod robots;
mod store;

use http::StatusCode;
use http::header::{ACCEPT, HeaderMap};

use super::response::{AdminRequest, AdminResponse, respond};
use super::watched::Watched;
use exposition::{Exposition, Format};

/// Responds to a request for the metrics.
pub(super) fn answer(watched: &Watched, request: &AdminRequest<'_>) -> AdminResponse {
    let mut page = Exposition::default();
    process::add(&mut page, watched);
    config::add(&mut page, watched);
    clients::add(&mut page, watched);
    proxy::add(&mut page, watched);
    robots::add(&mut page, watched);
    egress::add(&mut page, watched);
    pace::add(&mut page, watched);
    engine::add(&mut page, watched);
    store::add(&mut page, watched);
    audit::add(&mut page, watched);
    ca::add(&mut page, watched);
    let format = format(request.headers);
    respond(StatusCode::OK, format.content_type(), page.text(format))
}

/// OpenMetrics if `Accept` names it, else the older text format of Prometheus.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}
