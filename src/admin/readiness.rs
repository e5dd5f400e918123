//! Whether the proxy should be sent requests. Not while it drains, and not while denials cannot be
//! recorded: whoever balances between several should take one that keeps its log. A store on disk
//! that fails is told and no more: everything is decided as well from memory, and a restart, which
//! some do to whoever is not ready, would lose that too. So are settings that could not be taken up:
//! the former ones are in effect, and a restart would be the end of the service.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde::Serialize;

use super::Watched;
use super::routes::{Answer, told};

#[derive(Serialize)]
struct Readiness {
    status: Status,
    reasons: Vec<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
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

pub(super) fn answer(watched: &Watched) -> Answer {
    let reasons = reasons(watched);
    let status = reasons.iter().map(|reason| reason.status).max().unwrap_or(Status::Ready);
    let code = match status {
        Status::Ready | Status::Degraded => StatusCode::OK,
        Status::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    let json = serde_json::to_string(&Readiness { status, reasons }).expect("words and texts");
    told(code, "application/json", json + "\n")
}

fn reasons(watched: &Watched) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |part, status, problem| reasons.push(Reason { part, status, problem });
    if watched.draining.load(Ordering::Relaxed) {
        let problem = "the proxy has been told to stop, and takes no more requests".into();
        add("server", Status::NotReady, problem);
    }
    if let Some(error) = watched.audit.health().failing {
        add("audit", Status::NotReady, error);
    }
    if let Some(error) = watched.store.health().failing {
        add("store", Status::Degraded, format!("what is known of origins is kept in memory only: {error}"));
    }
    if let Some(error) = watched.reloads.failing() {
        add("config", Status::Degraded, format!("the settings in effect are those before: {error}"));
    }
    reasons
}
