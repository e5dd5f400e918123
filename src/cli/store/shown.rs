//! The printed form of what is known of an origin: dates instead of numbers, and words for causes.
//! The names of its members are a public interface.

use std::collections::BTreeMap;
use std::time::Duration;

use bytesize::ByteSize;
use serde::Serialize;

use crate::audit::{RECORD_TEXT_BYTES_MAX, RECORD_URL_BYTES_MAX, print_time};
use crate::cli::output::human_duration;
use crate::pace::hold::Cause;
use crate::pace::{LaneHold, LaneView};
use crate::store::fetch::FetchIdentity;
use crate::store::{self, EngineReport, Failed, Good, PersistedState, Report};
use crate::types::sanitize::{self, hex};

/// What is known of an origin, as `courtesy store get --format json` prints it.
#[derive(Serialize)]
pub struct Shown {
    pub origin: String,
    /// As whom what follows was fetched, without version and contact; `null`: as this program alone,
    /// the common copy, which decides for every agent without an answer of its own.
    pub asked_as: Option<String>,
    /// One per profile.
    pub states: Vec<State>,
    /// The last file.
    pub file: Option<File>,
    /// The last fetch, if it returned no file.
    pub failed: Option<Attempt>,
    /// Whether the site's pages responded when that was last checked.
    pub site_up: bool,
    /// What holds for one agent alone, instead of `states`, `file` and `failed`.
    pub agents: Vec<OfAgent>,
    /// Whether agents may get different files: an agent that is not named fetches for itself, or has
    /// the common copy fetched, before anything applies to it.
    pub others_ask: bool,
    /// When requests may start there, if that is not at once; of a running proxy.
    pub pace: Option<Pace>,
    /// What the proxies that share an engine know; of a running proxy that has one.
    pub engine: Option<OfEngine>,
}

/// What proxies know together.
#[derive(Serialize)]
pub struct OfEngine {
    /// Why the engine does not respond.
    pub fault: Option<String>,
    /// One per profile.
    pub states: Vec<State>,
    /// The last file.
    pub file: Option<File>,
    /// The last fetch, if it returned no file.
    pub failed: Option<Attempt>,
    /// Proxies that send requests there.
    pub proxies: usize,
    pub hold: Option<LaneHold>,
}

impl OfEngine {
    fn of(shared: EngineReport) -> Self {
        let (_, known) = shared.known.unwrap_or_default().shown();
        Self {
            fault: shared.fault,
            states: known.states.into_iter().map(State::of).collect(),
            file: known.good.map(|good| File::of(good, None)),
            failed: known.failed.map(Attempt::of),
            proxies: shared.proxies,
            hold: shared.hold.map(LaneHold::from),
        }
    }
}

/// The pace at an origin.
#[derive(Serialize)]
pub struct Pace {
    /// Requests that wait.
    pub waiting: usize,
    /// Milliseconds until the next start.
    pub next_ms: u64,
    pub hold: Option<LaneHold>,
}

impl Pace {
    fn of(view: LaneView) -> Self {
        let groups = view.ahead.groups.iter().map(|(_, next)| *next);
        let next = groups.chain([view.ahead.next]).max().unwrap_or_default();
        let hold = view.ahead.hold.map(LaneHold::from);
        Self { waiting: view.waiting, next_ms: millis(next), hold }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// The response to one agent.
#[derive(Serialize)]
pub struct OfAgent {
    /// The User-Agent of its fetch, without version and contact.
    pub asked_as: String,
    pub states: Vec<State>,
    /// Its last file.
    pub file: Option<File>,
    /// Its last fetch, if it returned no file.
    pub answer: Option<Attempt>,
}

/// The state under one profile.
#[derive(Serialize)]
pub struct State {
    pub profile: String,
    /// The settings of the profile that differ from the built-in ones.
    pub settings: BTreeMap<String, String>,
    pub state: String,
    pub since: String,
    pub next_try: String,
    /// Failed attempts in the outage.
    pub failures: u32,
    /// Whether a copy of an earlier file is in use.
    pub copy: bool,
}

/// The last good file.
#[derive(Serialize)]
pub struct File {
    pub sha256: String,
    /// The length of the file.
    #[serde(rename = "octets")]
    pub bytes: u64,
    /// If they were counted, which an export does not do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// The file exceeds the size limit.
    pub cut: bool,
    /// It is no robots.txt, but a page.
    pub page: bool,
    /// The status of the response.
    pub status: u16,
    pub url: String,
    /// Redirects that were followed.
    pub redirects: u8,
    pub fetched_at: String,
    /// When the origin last confirmed it.
    pub confirmed_at: String,
}

/// The last fetch that returned no file.
#[derive(Serialize)]
pub struct Attempt {
    pub at: String,
    pub url: String,
    /// The word of a record's `cause`.
    pub cause: &'static str,
    /// The same for people.
    pub why: String,
}

impl Shown {
    /// Puts the report of an origin into words and dates.
    pub fn of(report: Report) -> Self {
        let others_ask = !report.persisted.agents.is_empty();
        let (asked_as, knowledge) = report.persisted.shown();
        let lines = report.lines;
        Self {
            origin: report.origin,
            asked_as: asked_as.map(|identity| name(&identity)),
            states: knowledge.states.into_iter().map(State::of).collect(),
            file: knowledge.good.map(|good| File::of(good, lines)),
            failed: knowledge.failed.map(Attempt::of),
            site_up: knowledge.site_up,
            agents: knowledge.agents.into_iter().map(OfAgent::of).collect(),
            others_ask,
            pace: report.pace.map(Pace::of),
            engine: report.shared.map(OfEngine::of),
        }
    }
}

impl OfAgent {
    fn of(agent: store::PersistedAgent) -> Self {
        Self {
            asked_as: name(&agent.identity),
            states: agent.states.into_iter().map(State::of).collect(),
            file: agent.good.map(|good| File::of(good, None)),
            answer: agent.failed.map(Attempt::of),
        }
    }
}

impl State {
    fn of(kept: PersistedState) -> Self {
        Self {
            profile: kept.profile.name,
            settings: kept.profile.settings,
            state: kept.state,
            since: print_time(kept.since),
            next_try: print_time(kept.next_try),
            failures: kept.failures,
            copy: kept.has_copy,
        }
    }
}

impl File {
    fn of(good: Good, lines: Option<usize>) -> Self {
        let file = good.file;
        Self {
            sha256: hex(&file.sha256.0),
            bytes: file.bytes,
            lines,
            cut: file.cut,
            page: file.page,
            status: file.status,
            url: printable_url(&file.url),
            redirects: file.hops,
            fetched_at: print_time(file.fetched_at),
            confirmed_at: print_time(good.at),
        }
    }
}

impl Attempt {
    fn of(failed: Failed) -> Self {
        Self {
            at: print_time(failed.at),
            url: printable_url(&failed.url),
            cause: failed.cause.word(),
            why: sanitize::text(failed.cause.to_string().as_bytes(), RECORD_TEXT_BYTES_MAX),
        }
    }
}

fn name(identity: &FetchIdentity) -> String {
    sanitize::text(identity.as_str().as_bytes(), RECORD_TEXT_BYTES_MAX)
}

/// As in records.
fn printable_url(url: &str) -> String {
    sanitize::url(url.as_bytes(), RECORD_URL_BYTES_MAX)
}

/// A hold for people.
pub fn of_hold(hold: &LaneHold) -> String {
    let why = match hold.cause {
        Cause::RetryAfter => format!("it answered {} with Retry-After", hold.status),
        Cause::RateLimit => "its quota is exhausted (RateLimit)".into(),
        Cause::BackOff => format!("it failed, or answered {}", hold.status),
    };
    format!("nothing starts for {}: {why}", seconds(hold.left_ms))
}

/// A label and its value.
pub fn block(name: &str, lines: Vec<String>) -> Vec<String> {
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    names.zip(lines).map(|(name, line)| format!("  {name:<12} {line}")).collect()
}

/// A time in milliseconds for people.
pub fn seconds(millis: u64) -> String {
    human_duration(Duration::from_millis(millis))
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

/// On standard error, because it is not part of the result.
pub fn say_broken(count: u64) {
    if count > 0 {
        eprintln!(
            "note: what is kept of {count} origins does not hold and is left out; they are asked again"
        );
    }
}
