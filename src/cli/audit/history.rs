//! `courtesy audit history`: the versions of a site's robots.txt, with what each added and removed, and
//! what was asked under it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::difference::{Difference, file_lines};
use super::filters::{since, until};
use super::form::printable;
use super::log_source::LogSourceFlags;
use super::report::words::{number, plural, second};
use super::search::{Search, Taken};
use crate::audit::read::filter::Place;
use crate::audit::read::history::{FileHistory, History, KeptDelay, SiteHistory};
use crate::audit::read::{Filter, Log};
use crate::audit::{
    AllowedEvent, Content, CountsEvent, Event, FileEvent, PacedEvent, RobotsStatus, SiteCounts,
    print_time,
};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Form, human_duration, print, seconds};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit history`.
#[derive(Args, Debug)]
#[command(after_help = "\
For each robots.txt that decided: from when to when, what it added and removed, and what was asked
under it, by agent: allowed, denied, held, and how the site responded; how fast, and which delays
that its lines ask for were kept. Counts are written each hour
and at the end of a proxy, and belong to the hour that they end; what is asked inside a tunnel is
not seen.

Examples:
  courtesy audit history https://example.com
  courtesy audit history example.com --since 2026-11-01 --until 2026-11-30
  courtesy audit history '*.example.com' --format json
  courtesy audit query --origin https://example.com --event allowed    each request, of a run

Exit codes: 0 done · 1 the log does not name the site, or a line is damaged and left out · 2 usage ·
69 there is no log · 74 a part of it could not be read")]
pub struct HistoryArgs {
    /// An origin (https://example.com), a host (example.com, example.com:8080), or hosts (*.example.com)
    #[arg(value_name = "ORIGIN", value_parser = Place::parse)]
    origin: Place,
    /// Read these files instead, or dossiers or bundles
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// From then on, as of courtesy audit query
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Until then; of a day, to its end
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Agents that are named.
const AGENTS_SHOWN: usize = 10;

/// The `event` of each kind of line that a history is made of.
pub fn events() -> Vec<String> {
    let notices = [FileEvent::WORD, CountsEvent::WORD, AllowedEvent::WORD, PacedEvent::WORD];
    Event::ALL.into_iter().map(Event::word).chain(notices).map(str::to_owned).collect()
}

/// Runs `courtesy audit history`.
pub fn run(args: &HistoryArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let dirs: Vec<_> = logs.iter().map(Log::dir).collect();
    let filter = Filter {
        since: args.since,
        until: args.until,
        origins: vec![args.origin.clone()],
        events: events(),
        ..Filter::default()
    };
    let mut search = Search::new(logs, filter)?.with_notices();
    let mut history = History::default();
    let _ = search.run(&mut |hit| match Content::parse(hit.line) {
        Ok(_) if hit.is_changed => Ok(Taken::Good),
        Ok(content) => {
            history.add(&content, hit.log);
            Ok(Taken::Good)
        }
        Err(_) => Ok(Taken::Damaged),
    })?;
    let read = search.conclude("left out");
    if history.sites.is_empty() {
        eprintln!("the log does not name that site, or not in that time");
        return Ok(if read == Exit::Done { Exit::No } else { read });
    }
    let form: fn(&str, &SiteHistory, &[PathBuf]) -> String = match args.format {
        Form::Text => text,
        Form::Json => |origin, site, dirs| format!("{}\n", object(origin, site, dirs)),
    };
    print(
        history.sites.iter().map(|(origin, site)| form(origin, site, &dirs)).collect::<String>(),
    )?;
    Ok(read)
}

fn text(origin: &str, site: &SiteHistory, dirs: &[PathBuf]) -> String {
    let mut text = format!("{}\n", printable(origin));
    let mut before = None;
    for (at, version) in site.versions.iter().enumerate() {
        let file = file_of(version, dirs);
        let _ = writeln!(text, "\n{}. {}", at + 1, heading(version));
        if let Some(asked) = &version.asked {
            text.push_str(&asked_text(asked));
            text.push_str(&agents_text(version));
            text.push_str(&speed_text(version));
        } else {
            text.push_str("   what was asked under it is not counted in this log\n");
        }
        text.push_str(&file_text(file.as_deref(), before.as_deref(), version));
        before = file.ok().or(before);
    }
    if let Some(asked) = &site.undecided {
        let _ = write!(
            text,
            "\nWithout a robots.txt, as of what the operator does not permit:\n{}",
            asked_text(asked)
        );
    }
    if site.omitted > 0 {
        let _ =
            writeln!(text, "\n{} of further versions are left out", plural(site.omitted, "line"));
    }
    text.push('\n');
    text
}

fn heading(version: &FileHistory) -> String {
    let [first, last] = [version.first, version.last].map(second);
    let what = match (&version.sha256, version.state) {
        (Some(sha256), _) => format!("robots.txt with SHA-256 {sha256}"),
        (None, RobotsStatus::Unavailable) => "no robots.txt: everything is allowed".to_owned(),
        (None, _) => "robots.txt cannot be had".to_owned(),
    };
    let cause = version.cause.as_deref().map(|cause| format!(" ({})", printable(cause)));
    let agents: Vec<_> = version.asked_as.iter().map(|agent| printable(agent)).collect();
    let agents = (!agents.is_empty()).then(|| format!(", as fetched for {}", agents.join(", ")));
    let more = [cause, agents].into_iter().flatten().collect::<String>();
    format!("{first} to {last} UTC: {what}{more}")
}

fn asked_text(asked: &SiteCounts) -> String {
    let mut parts = vec![
        format!("{} allowed", number(asked.allowed)),
        format!("{} denied", number(asked.denied)),
    ];
    let more = [
        (asked.would_deny, "disallowed and forwarded, as observed"),
        (asked.exempted, "disallowed and forwarded under an exemption"),
        (asked.tunnelled, "tunnelled unseen"),
        (asked.resting, "told to come back later"),
        (asked.failed, "without a response"),
    ];
    parts.extend(
        more.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", number(*count))),
    );
    let mut text = format!("   {} asked: {}\n", number(asked.asked()), parts.join(", "));
    let statuses: Vec<_> =
        asked.statuses.iter().map(|(class, count)| format!("{} {class}", number(*count))).collect();
    if !statuses.is_empty() {
        let _ = writeln!(
            text,
            "   responses: {}; {} received",
            statuses.join(", "),
            plural(asked.bytes, "byte")
        );
    }
    if asked.paced > 0 {
        let waited = human_duration(Duration::from_millis(asked.waited_ms));
        let _ =
            writeln!(text, "   {} held until their time, for {waited} in all", number(asked.paced));
    }
    text
}

fn agents_text(version: &FileHistory) -> String {
    let mut agents: Vec<_> = version.agents.iter().collect();
    agents.sort_by_key(|(_, asked)| std::cmp::Reverse(asked.asked()));
    let rest = agents.len().saturating_sub(AGENTS_SHOWN);
    let shown = agents.iter().take(AGENTS_SHOWN).map(|(agent, asked)| {
        let agent = agent.as_deref().map_or("without an agent".into(), printable);
        format!("{agent} {} ({} denied)", number(asked.asked()), number(asked.denied))
    });
    let shown: Vec<_> = shown.collect();
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("   by {}{rest}\n", shown.join(", "))
}

/// How fast it was asked, and what its file wanted of that.
fn speed_text(version: &FileHistory) -> String {
    let mut text = String::new();
    if let Some(until) = version.busiest.until {
        let (asked, until) = (number(version.busiest.asked), second(until));
        let _ = writeln!(text, "   at most {asked} asked in an hour, that until {until} UTC");
    }
    for delay in &version.delays {
        let kept = seconds(Duration::from_millis(delay.delay_ms));
        let observed = if delay.is_observed { "; no request waited for it" } else { "" };
        let (line, words) = (delay.line, printable(&delay.text));
        let _ = writeln!(
            text,
            "   {kept} kept between two requests, for line {line}: \"{words}\"{observed}"
        );
    }
    text
}

fn file_text(
    file: Result<&[String], &String>,
    before: Option<&[String]>,
    version: &FileHistory,
) -> String {
    let file = match file {
        Ok(file) => file,
        Err(why) if version.sha256.is_some() => {
            return format!("   its text cannot be shown: {why}\n");
        }
        Err(_) => return String::new(),
    };
    let Some(before) = before else { return format!("   {}\n", plural(file.len() as u64, "line")) };
    format!("   against the one before, {}", Difference::of(before, file).text())
}

fn object(origin: &str, site: &SiteHistory, dirs: &[PathBuf]) -> Value {
    let mut before: Option<Vec<String>> = None;
    let versions: Vec<_> = site
        .versions
        .iter()
        .map(|version| {
            let file = file_of(version, dirs);
            let difference = match (&file, &before) {
                (Ok(file), Some(before)) => Some(Difference::of(before, file)),
                _ => None,
            };
            let lines = |is_added| difference.as_ref().map(|it| it.lines_of(is_added));
            let agents: Vec<_> = version
                .agents
                .iter()
                .map(|(agent, asked)| json!({ "agent": agent, "asked": counts(asked) }))
                .collect();
            let object = json!({
                "sha256": version.sha256, "state": version.state, "cause": version.cause,
                "first": print_time(version.first), "last": print_time(version.last),
                "asked_as": version.asked_as, "asked": version.asked.as_ref().map(counts), "agents": agents,
                "added": lines(true), "removed": lines(false),
                "lines": file.as_ref().ok().map(Vec::len),
                "busiest": version.busiest.until.map(|until| {
                    json!({ "asked": version.busiest.asked, "until": print_time(until) })
                }),
                "delays": version.delays.iter().map(delay_object).collect::<Vec<_>>(),
            });
            before = file.ok().or(before.take());
            object
        })
        .collect();
    json!({
        "origin": origin, "versions": versions, "undecided": site.undecided.as_ref().map(counts),
        "omitted": site.omitted,
    })
}

fn delay_object(delay: &KeptDelay) -> Value {
    json!({
        "line": delay.line, "text": delay.text, "delay_ms": delay.delay_ms, "observed": delay.is_observed,
    })
}

/// The members that are counts, and the time that they are of.
fn counts(asked: &SiteCounts) -> Value {
    let mut value = serde_json::to_value(asked).expect("it is made of plain values");
    if let Value::Object(members) = &mut value {
        for name in ["agent", "event", "node", "origin", "prev", "rows", "seq", "sha256", "state"] {
            members.remove(name);
        }
        members.insert("asked".into(), asked.asked().into());
    }
    value
}

/// The lines of its file, or why they cannot be had.
pub fn file_of(version: &FileHistory, dirs: &[PathBuf]) -> Result<Vec<String>, String> {
    let sha256 = version.sha256.as_deref().ok_or("there is none")?;
    file_lines(dirs.get(version.log).ok_or("there is no such log")?, sha256)
}
