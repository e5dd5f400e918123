//! The metrics page, in the text format of Prometheus or of OpenMetrics. Names follow Prometheus:
//! base units, `_total` on counters. No label names an origin, an agent or a path: their number has
//! no bound. One file here for each part of the program whose counters it prints;
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

use super::parts::MonitoredParts;
use super::response::{AdminRequest, AdminResponse, respond};
use exposition::{Exposition, Format};

/// Responds to a request for the metrics.
pub(super) fn answer(parts: &MonitoredParts, request: &AdminRequest<'_>) -> AdminResponse {
    let mut page = Exposition::default();
    process::add(&mut page, parts);
    config::add(&mut page, parts);
    clients::add(&mut page, parts);
    proxy::add(&mut page, parts);
    robots::add(&mut page, parts);
    egress::add(&mut page, parts);
    pace::add(&mut page, parts);
    engine::add(&mut page, parts);
    store::add(&mut page, parts);
    audit::add(&mut page, parts);
    ca::add(&mut page, parts);
    let format = format(request.headers);
    respond(StatusCode::OK, format.content_type(), page.text(format))
}

/// OpenMetrics if `Accept` names it, else the older text format of Prometheus.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let names_it = |field: &str| field.contains("application/openmetrics-text");
    if accepted.into_iter().any(names_it) { Format::OpenMetrics } else { Format::Prometheus }
}
