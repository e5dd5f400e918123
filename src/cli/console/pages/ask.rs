//! One box that asks: why was this URL denied, or would it have been, for that agent and at that time? From the robots.txt
//! that the log has as evidence, also for what was never asked for.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;

use super::view::{Parameters, Shell, link, quoted};
use crate::audit::RobotsStatus;
use crate::audit::read::Filter;
use crate::audit::read::filter::Place;
use crate::audit::read::history::{FileHistory, History};
use crate::audit::read::report::{RegisteredExemption, Report, ServiceState, TimelineSpan};
use crate::cli::audit::report::words::second;
use crate::cli::audit::{filters, history};
use crate::cli::check::answer::{Outcome, Ruling};
use crate::cli::check::online::ruling;
use crate::cli::console::archive::{ConsoleArchive, ReportAsked};
use crate::cli::console::jobs::Reading;
use crate::cli::console::reading::{Asked, Shared};
use crate::cli::console::respond::{bad, busy, shown};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

#[derive(Template)]
#[template(path = "console/ask.html", config = "src/templates/askama.toml")]
struct AskPage {
    shell: Shell,
    url: String,
    agent: String,
    time: String,
    answer: Option<AskAnswer>,
}

/// What the evidence says.
struct AskAnswer {
    verdict: String,
    class: &'static str,
    why: Vec<String>,
    file: Option<String>,
    links: Vec<(String, String)>,
}

impl AskAnswer {
    /// The same with why it was forwarded then, where robots.txt disallows it: under an exemption, or because the mode
    /// was observe.
    fn forwarded(mut self, report: Option<&Report>, url: &str, agent: &str, at: Timestamp) -> Self {
        if self.class != "denied" {
            return self;
        }
        let Some(report) = report else {
            self.why.push("Whether an exemption covered it, or the mode was observe, is not known until the log was read as a whole: ask again.".into());
            return self;
        };
        let origin = split_url(url.as_bytes()).map(|(origin, _)| origin.to_string());
        let origin = origin.unwrap_or_default();
        let covers = |row: &&RegisteredExemption| {
            let is_of_agent = row.agents.is_empty()
                || row.agents.iter().any(|token| token.eq_ignore_ascii_case(agent));
            let is_of_time = row.brought_at <= at
                && at < row.until
                && row.removed_at.is_none_or(|removed| at < removed);
            let is_of_site = Place::parse(&row.origin).is_ok_and(|place| place.covers(&origin));
            row.crawl_delay.is_none() && is_of_agent && is_of_time && is_of_site
        };
        // The last span ends with the last line: what is in effect then goes on.
        let spans = &report.service.spans;
        let span = spans.iter().rfind(|span| span.since <= at);
        let is_observed = |span: &&TimelineSpan| span.state == ServiceState::Observe;
        let forwarded = if let Some(row) = report.register.rows.iter().find(covers) {
            let paths = match row.paths.as_slice() {
                [] => String::new(),
                paths => format!(", for {}", paths.join(", ")),
            };
            let (by, reason, until) = (&row.by, &row.reason, second(row.until));
            Some(format!(
                "An exemption of {by} ({reason}) covered the site then, until {until} UTC{paths}."
            ))
        } else {
            span.filter(is_observed)
                .map(|_| "The mode was observe then, so that nothing was refused.".to_owned())
        };
        if let Some(forwarded) = forwarded {
            self.verdict = "Disallowed, and forwarded all the same".into();
            self.class = "forwarded";
            self.why.insert(0, forwarded);
        }
        self
    }
}

/// `GET /ask?url=…&agent=…&time=…`
pub async fn show(State(archive): Shared, Query(asked): Asked) -> Response {
    let mut parameters = Parameters::of(asked);
    let [url, agent, time] =
        ["url", "agent", "time"].map(|name| parameters.take(name).unwrap_or_default());
    if let Err(why) = parameters.end() {
        return bad(&why);
    }
    let command = match url.as_str() {
        "" => "courtesy check URL --agent AGENT".into(),
        url => format!("courtesy check {} --agent {}", quoted(url), quoted(&agent)),
    };
    let shell = Shell::of("Why, or why not?", "/ask", command);
    if url.is_empty() {
        return shown(&AskPage { shell, url, agent, time, answer: None });
    }
    let at = match time.as_str() {
        "" => SystemClock.wall(),
        text => match filters::since(text) {
            Ok(at) => at,
            Err(why) => return bad(&format!("time: {why}")),
        },
    };
    let (asked_url, asked_agent) = (url.clone(), agent.clone());
    // Whether it was forwarded all the same is known where the log was read as a whole, as for the first page.
    let whole = archive.report(&ReportAsked::default());
    match archive.search(move |archive| answer(archive, &asked_url, &asked_agent, at)).await {
        None => busy(),
        Some(Err(why)) => bad(&why),
        Some(Ok(answer)) => {
            let read = match whole {
                Reading::Done(read) => Some(read),
                Reading::UnderWay(_) | Reading::Busy => None,
            };
            let report = read.as_deref().and_then(|read| read.report.as_ref().ok());
            let answer = answer.forwarded(report, &url, &agent, at);
            shown(&AskPage { shell, url, agent, time, answer: Some(answer) })
        }
    }
}

fn answer(
    archive: &ConsoleArchive,
    url: &str,
    agent: &str,
    at: Timestamp,
) -> Result<AskAnswer, String> {
    let (origin, _) = split_url(url.as_bytes()).map_err(|error| format!("url: {error}"))?;
    let origin = origin.to_string();
    let place = Place::parse(&origin).map_err(|error| error.to_string())?;
    let filter = Filter { origins: vec![place], events: history::events(), ..Filter::default() };
    let (mut history, mut profile) = (History::default(), None);
    archive.each(&filter, &mut |log, content| {
        if let crate::audit::Content::Record(record) = &content
            && record.time <= at
        {
            profile = Some(record.profile.clone());
        }
        history.add(&content, log);
    })?;
    let links = vec![
        ("The site".to_owned(), link("/site", &[("origin", &origin)])),
        ("Records of this URL".to_owned(), link("/records", &[("url", url)])),
    ];
    let site = history.sites.remove(&origin).unwrap_or_default();
    let token = (!agent.is_empty()).then_some(agent);
    let Some(version) = in_effect(&site.versions, token, at) else {
        return Ok(AskAnswer {
            verdict: "Not known".into(),
            class: "notice",
            why: vec![format!(
                "The log has no robots.txt of {origin} from before {} UTC.",
                second(at)
            )],
            file: None,
            links,
        });
    };
    let since = format!(
        "By the robots.txt that was in use from {} to {} UTC at least{}.",
        second(version.first),
        second(version.last),
        if at > version.last { ", the last one before that time" } else { "" }
    );
    let Some(sha256) = &version.sha256 else {
        let (verdict, class, why) = match version.state {
            RobotsStatus::Unavailable => (
                "Allowed",
                "allowed",
                "The site had no robots.txt, so everything is allowed (RFC 9309, 2.3.1.3).",
            ),
            _ => (
                "Denied",
                "denied",
                "The robots.txt could not be had, so everything is disallowed (RFC 9309, 2.3.1.4).",
            ),
        };
        return Ok(AskAnswer {
            verdict: verdict.into(),
            class,
            why: vec![why.into(), since],
            file: None,
            links,
        });
    };
    let body = archive.file(sha256).map_err(|why| format!("The robots.txt {sha256}: {why}"))?;
    let (profile, reading) = match profile {
        Some(known) => {
            let made =
                crate::policy::profile::recorded(&known.name, known.version, &known.settings)?;
            (made, format!("Read as {}, as the records of that time are.", known.name))
        }
        None => (Profile::default(), "Read as rfc9309: no record says otherwise.".to_owned()),
    };
    let rules = RobotsTxt::parse(&body, &profile.dialect.of_matcher());
    let ruling = ruling(&rules, token, url.as_bytes());
    let line = ruling.line.map(|line| line.to_string()).unwrap_or_default();
    let file = link("/file", &[("sha256", sha256), ("line", &line)]);
    Ok(AskAnswer {
        verdict: match ruling.decision {
            Outcome::Allow => "Allowed",
            Outcome::Disallow => "Denied",
            Outcome::Undecided => "Undecided, and so denied",
        }
        .into(),
        class: if matches!(ruling.decision, Outcome::Allow) { "allowed" } else { "denied" },
        why: vec![why(&ruling), since, reading],
        file: Some(file),
        links,
    })
}

/// The version that decided for the agent at that time: one fetched for it alone before the common one.
fn in_effect<'a>(
    versions: &'a [FileHistory],
    token: Option<&str>,
    at: Timestamp,
) -> Option<&'a FileHistory> {
    let before = || versions.iter().filter(|version| version.first <= at);
    let is_own = |version: &&FileHistory| {
        let mut agents = version.asked_as.iter();
        token.is_some_and(|token| {
            agents.any(|name| {
                name.split(' ').next().is_some_and(|name| name.eq_ignore_ascii_case(token))
            })
        })
    };
    let latest = |a: &&'a FileHistory, b: &&'a FileHistory| {
        (a.last.min(at), a.first).cmp(&(b.last.min(at), b.first))
    };
    let own = before().filter(is_own).max_by(latest);
    own.or_else(|| before().max_by(latest))
}

fn why(ruling: &Ruling) -> String {
    let basis = &ruling.basis;
    let group = basis
        .group
        .as_ref()
        .map(|group| format!(" of the group \"{}\" in line {}", group.token, group.line));
    let group = group.unwrap_or_default();
    match (ruling.line, basis.directive, &basis.pattern) {
        (Some(line), Some(directive), Some(pattern)) => {
            format!("Line {line}, \"{directive}: {pattern}\",{group} is the longest that matches.")
        }
        _ if group.is_empty() => {
            "No group of the file is for this agent, so everything is allowed.".into()
        }
        _ => format!("No line{group} matches, so it is allowed."),
    }
}
