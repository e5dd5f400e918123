//! `courtesy store get`: what is known of one origin.

use std::time::Duration;

use clap::Args;

use super::holder::Holder;
use super::origin_arg::origin;
use super::shown::{Attempt, File, Hold, OfAgent, OfEngine, Pace, Shown, State, size};
use crate::admin::control::Question;
use crate::audit::parse_time;
use crate::cli::exit::{Exit, Failure};
use crate::cli::flags::StateFlags;
use crate::cli::human_duration::human_duration;
use crate::cli::output::{Form, print};
use crate::cli::paint::Paint;
use crate::pace::hold::Cause;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy store get`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store get https://example.com
  courtesy store get --format json http://example.com:8080 | jq '.states[].next_try'

A running proxy that shares an engine also says what that knows, and how many proxies are there.
Ends with 1 when nothing is known of the origin. What its robots.txt says to a crawler is for
courtesy check.")]
pub struct GetArgs {
    /// Scheme, host and, if it is not the scheme's own, port: https://example.com
    #[arg(value_parser = origin)]
    origin: Origin,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy store get`.
pub fn run(args: &GetArgs) -> Result<Exit, Failure> {
    let origin = args.origin.to_string();
    let report = Holder::of(&args.config)?.one(&Question::StoreGet { origin: origin.clone() })?;
    match (report.map(Shown::of), args.format) {
        (None, Form::Json) => print("null\n")?,
        (None, Form::Text) => print(format!("Nothing is known of {origin}.\n"))?,
        (Some(shown), Form::Json) => {
            print(serde_json::to_string_pretty(&shown).expect("words and numbers") + "\n")?;
            return Ok(Exit::Done);
        }
        (Some(shown), Form::Text) => {
            print(text(&shown, SystemClock.wall(), Paint::for_stdout()))?;
            return Ok(Exit::Done);
        }
    }
    Ok(Exit::No)
}

fn text(shown: &Shown, now: Timestamp, paint: Paint) -> String {
    let mut lines = vec![paint.strong(&shown.origin)];
    let asked_as = shown.asked_as.iter();
    lines.extend(asked_as.map(|name| format!("as {}, for it alone", paint.strong(name))));
    lines.extend(shown.states.iter().flat_map(|state| of_state(state, now, paint)));
    lines.extend(shown.file.iter().flat_map(|file| of_file(file, now)));
    lines.extend(shown.failed.iter().flat_map(|failed| of_failure(failed, now)));
    lines.extend(shown.pace.iter().flat_map(of_pace));
    lines.extend(shown.engine.iter().flat_map(|engine| of_engine(engine, now)));
    lines.extend(shown.agents.iter().flat_map(|agent| of_agent(agent, now, paint)));
    if shown.others_ask {
        lines.push(
            "  any other agent is asked for, or the common copy, before it goes by that".into(),
        );
    }
    lines.join("\n") + "\n"
}

fn of_state(state: &State, now: Timestamp, paint: Paint) -> Vec<String> {
    let word = match state.state.as_str() {
        "rules" => paint.good("rules"),
        "unavailable" => paint.good("no robots.txt"),
        "unreachable" => paint.bad("unreachable"),
        other => paint.doubtful(other),
    };
    let mut lines = vec![format!("{word}, since {}", when(&state.since, now))];
    if state.failures > 0 {
        let copy = if state.copy { "the last good copy is kept" } else { "there is no copy" };
        let tries = if state.failures == 1 { "try" } else { "tries" };
        lines.push(format!("{} failed {tries}; {copy}", state.failures));
    }
    lines.push(format!("asked again {}", when(&state.next_try, now)));
    let changed = state.settings.iter().map(|(name, value)| format!("with {name} = {value}"));
    lines.extend(changed);
    block(&state.profile, lines)
}

fn of_file(file: &File, now: Timestamp) -> Vec<String> {
    let lines = file.lines.map(|count| format!("{count} lines, ")).unwrap_or_default();
    let cut = if file.cut { ", the beginning of a longer one" } else { "" };
    let page = if file.page { ", a page and no robots.txt" } else { "" };
    let redirects = match file.redirects {
        0 => String::new(),
        1 => ", after 1 redirect".into(),
        count => format!(", after {count} redirects"),
    };
    let mut lines = vec![
        format!("{lines}{}{cut}{page}", size(file.bytes)),
        format!("sha256 {}", file.sha256),
        format!("{}, status {}{redirects}", file.url, file.status),
        format!("fetched {}", when(&file.fetched_at, now)),
    ];
    if file.confirmed_at != file.fetched_at {
        lines.push(format!("still so {}", when(&file.confirmed_at, now)));
    }
    block("file", lines)
}

fn of_failure(failed: &Attempt, now: Timestamp) -> Vec<String> {
    block("last try", vec![failed.why.clone(), failed.url.clone(), when(&failed.at, now)])
}

fn of_pace(pace: &Pace) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(pace.hold.as_ref().map(of_hold));
    lines.extend((pace.next_ms > 0).then(|| format!("next start in {}", seconds(pace.next_ms))));
    lines.extend((pace.waiting > 0).then(|| format!("{} requests wait", pace.waiting)));
    block("pace", lines)
}

fn of_hold(hold: &Hold) -> String {
    let why = match hold.cause {
        Cause::RetryAfter => format!("it answered {} with Retry-After", hold.status),
        Cause::RateLimit => "its quota is exhausted (RateLimit)".into(),
        Cause::BackOff => format!("it failed, or answered {}", hold.status),
    };
    format!("nothing starts for {}: {why}", seconds(hold.rest_ms))
}

fn seconds(millis: u64) -> String {
    human_duration(Duration::from_millis(millis))
}

/// What the proxies of the engine know, in fewer words: most of it stands above as well.
fn of_engine(engine: &OfEngine, now: Timestamp) -> Vec<String> {
    if let Some(fault) = &engine.fault {
        return block("engine", vec![format!("away: {fault}")]);
    }
    let mut lines = Vec::new();
    lines.extend(engine.states.iter().map(|state| {
        let next_try = when(&state.next_try, now);
        format!("{} ({}), asked again {next_try}", state.state, state.profile)
    }));
    lines.extend(engine.file.iter().map(|file| {
        format!("file sha256 {}, still so {}", file.sha256, when(&file.confirmed_at, now))
    }));
    lines.extend(
        engine.failed.iter().map(|it| format!("last try: {}, {}", it.why, when(&it.at, now))),
    );
    if lines.is_empty() {
        lines.push("nothing is shared of it".to_owned());
    }
    lines.extend(engine.hold.as_ref().map(of_hold));
    lines.push(match engine.proxies {
        1 => "1 proxy sends requests there".to_owned(),
        proxies => format!("{proxies} proxies send requests there"),
    });
    block("engine", lines)
}

fn of_agent(agent: &OfAgent, now: Timestamp, paint: Paint) -> Vec<String> {
    let mut lines = vec![format!("as {}, for it alone", paint.strong(&agent.asked_as))];
    lines.extend(agent.states.iter().flat_map(|state| of_state(state, now, paint)));
    lines.extend(agent.file.iter().flat_map(|file| of_file(file, now)));
    lines.extend(agent.answer.iter().flat_map(|failed| of_failure(failed, now)));
    lines
}

/// A label and its value.
fn block(name: &str, lines: Vec<String>) -> Vec<String> {
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    names.zip(lines).map(|(name, line)| format!("  {name:<12} {line}")).collect()
}

/// To the second, with the distance from now.
fn when(time: &str, now: Timestamp) -> String {
    let date = time.split('.').next().unwrap_or(time);
    match parse_time(time) {
        Some(moment) if moment > now => {
            format!("{date}Z, in {}", human_duration(now.until(moment)))
        }
        Some(moment) => format!("{date}Z, {} ago", human_duration(now.since(moment))),
        None => time.to_owned(),
    }
}
