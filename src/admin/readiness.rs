//! Readiness: whether the proxy should be sent requests. It is not ready while it drains or cannot
//! record denials, so that a load balancer prefers an instance that keeps its log. Some faults are
//! reported without making it unready: a failed store on disk (decisions are made from memory, and
//! a restart of an unready instance would lose that), settings that could not be reloaded (the
//! former ones are in effect, and a restart would end the service), and an expired CA (only
//! interception stops), and a parent proxy that refuses the credentials, or CONNECT to port 80, where
//! other hosts have another; while the only one refuses, the proxy is not ready. A shared engine
//! that is away is another, unless `engine.required` says that the proxy is to wait for its first
//! contact.

use std::sync::atomic::Ordering;

use http::{StatusCode, Uri};
use serde::Serialize;

use super::parts::MonitoredParts;
use super::response::{AdminRequest, AdminResponse, respond};
use crate::ca::CA_REMEDY;
use crate::engine::CLOCK_OFFSET_MAX_MICROS;

#[derive(Serialize)]
struct Readiness {
    status: Status,
    /// Absent in responses to unauthorized requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<Vec<Reason>>,
    /// What was looked at, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Vec<Check>>,
}

/// How a part is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ready,
    /// Ready, but something is not as it should be.
    Degraded,
    NotReady,
}

/// Something that is not as it should be.
#[derive(Serialize)]
struct Reason {
    part: &'static str,
    /// What it makes of the whole.
    status: Status,
    problem: String,
}

/// A part of the proxy, and whether it is as it should be.
#[derive(Debug, Serialize)]
pub struct Check {
    pub part: &'static str,
    pub status: Status,
    /// What is not as it should be.
    #[serde(skip)]
    pub problem: Option<String>,
}

impl Check {
    /// Of each part.
    pub fn all(parts: &MonitoredParts) -> Vec<Self> {
        let of = |(part, worst, problem): (_, _, Option<_>)| {
            let status = if problem.is_some() { worst } else { Status::Ready };
            Self { part, status, problem }
        };
        looked_at(parts).into_iter().map(of).collect()
    }
}

pub(super) fn answer(parts: &MonitoredParts, request: &AdminRequest<'_>) -> AdminResponse {
    let checks = Check::all(parts);
    let reason = |check: &Check| {
        let problem = check.problem.clone()?;
        Some(Reason { part: check.part, status: check.status, problem })
    };
    let reasons: Vec<_> = checks.iter().filter_map(reason).collect();
    let status = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ready);
    let code = match status {
        Status::Ready | Status::Degraded => StatusCode::OK,
        Status::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    let readiness = Readiness {
        status,
        reasons: request.is_authorized.then_some(reasons),
        checks: (request.is_authorized && is_verbose(request.uri)).then_some(checks),
    };
    let json = serde_json::to_string(&readiness).expect("words and texts");
    respond(code, "application/json", json + "\n")
}

fn is_verbose(uri: &Uri) -> bool {
    uri.query()
        .is_some_and(|query| query.split('&').any(|it| matches!(it, "verbose" | "verbose=true")))
}

/// Each part, what trouble with it makes of the whole, and the trouble where there is some.
fn looked_at(parts: &MonitoredParts) -> [(&'static str, Status, Option<String>); 7] {
    let draining = parts.draining.load(Ordering::Relaxed);
    let stopping = || "the proxy is stopping: send it no more requests".to_owned();
    let in_memory = |error| format!("origins are stored in memory only: {error}");
    let former = |error| format!("the settings in effect are those before: {error}");
    let no_https = |invalidity| {
        format!("HTTPS is not intercepted, and CONNECT is refused: {invalidity}; {CA_REMEDY}")
    };
    [
        ("server", Status::NotReady, draining.then(stopping)),
        audit(parts),
        ("store", Status::Degraded, parts.store.health().failing.map(in_memory)),
        engine(parts),
        ("config", Status::Degraded, parts.reloads.failing().map(former)),
        ("ca", Status::Degraded, parts.leaves.invalidity().map(no_https)),
        parents(parts),
    ]
}

fn audit(parts: &MonitoredParts) -> (&'static str, Status, Option<String>) {
    let health = parts.audit.health();
    match health.failing {
        Some(failing) => ("audit", Status::NotReady, Some(failing)),
        None => ("audit", Status::Degraded, health.rewound),
    }
}

/// Parents that refuse the name and password, or the port of http: the settings are wrong, here or
/// there. Other failures of a parent pass, and are in its metrics. While the only way out refuses,
/// another instance may serve.
fn parents(parts: &MonitoredParts) -> (&'static str, Status, Option<String>) {
    let refusals: Vec<_> =
        parts.egress.parent_stats().into_iter().filter_map(|it| it.refusal).collect();
    let stops_all = refusals.iter().any(|it| it.stops_all);
    let reasons: Vec<_> = refusals.into_iter().map(|it| it.reason).collect();
    let worst = if stops_all { Status::NotReady } else { Status::Degraded };
    ("parent", worst, (!reasons.is_empty()).then(|| reasons.join("; ")))
}

fn engine(parts: &MonitoredParts) -> (&'static str, Status, Option<String>) {
    let Some(engine) = &parts.engine else { return ("engine", Status::Ready, None) };
    let seen = engine.status();
    // Without a rank nothing with a delay is started.
    let needs_engine = parts.is_engine_required || parts.keeps_share && seen.rank.is_none();
    let is_missing = needs_engine && !seen.was_reached;
    let worst = if is_missing { Status::NotReady } else { Status::Degraded };
    let fault = seen.last_error.as_ref().map(ToString::to_string).unwrap_or_default();
    let problem = if !seen.is_up {
        Some(match seen.rank {
            Some(rank) => {
                let (number, width) = (rank.rank + 1, rank.width());
                format!(
                    "the shared engine is away, and this proxy keeps part {number} of {width} of the pace: {fault}"
                )
            }
            None => format!(
                "the shared engine has not been reached, and nothing with a delay is sent before \
                 (engine.share would say how many proxies there are): {fault}"
            ),
        })
    } else if seen.may_evict {
        Some("the shared engine may forget holds and outages: set its maxmemory-policy to noeviction".into())
    } else if seen
        .clock_offset
        .is_some_and(|offset| offset.unsigned_abs() > CLOCK_OFFSET_MAX_MICROS)
    {
        Some("this machine's clock and the engine's differ by more than a minute: what is fetched here is not shared".into())
    } else if let Some(name) = seen.namesake {
        Some(format!(
            "another live proxy has the name {name}, too: give each its own engine.name, or leave it out"
        ))
    } else if seen.has_other_settings() {
        let (same, all) = (seen.same_settings, seen.members);
        Some(format!(
            "of {all} proxies of the engine {} have other settings (robots, origins, pace, exemptions)",
            all - same
        ))
    } else if let (1.., width) = seen.missing {
        let missing = seen.missing.0;
        Some(format!(
            "proxies of the engine are missing: their cells ({missing} of {width}) are left free for \
             ten minutes from when they were seen last"
        ))
    } else {
        None
    };
    ("engine", worst, problem)
}
