//! `courtesy store`: what is known of origins, from the proxy that runs with this state directory
//! or, if none does, from its file.

mod shown;
pub mod waiting;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::exit::{Exit, Failure};
use super::flags::StateFlags;
use super::output::{Form, Paint, human_duration, print};
use crate::admin::control::{
    ControlError, End, Question, StoreQuestion, Tell, answer_question, ask_control,
};
use crate::audit::parse_time;
use crate::runtime::clock::{Clock, SystemClock};
use crate::store::Report;
use crate::store::disk::{Offline, OpenError, Stats};
use crate::types::origin::{Origin, Scheme, split_url};
use crate::types::timestamp::Timestamp;
pub use shown::size;
use shown::{Attempt, File, OfAgent, OfEngine, Pace, State, block, say_broken};
pub use shown::{Shown, of_hold, seconds};

/// The arguments of `courtesy store`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store get https://example.com        what is known of it, and until when
  courtesy store forget https://example.com     its robots.txt is fetched again at the next request
  courtesy store waiting                        what waits at the running proxy, and why
  courtesy store export | jq -r 'select(.states[].state == \"unreachable\").origin'

They work beside running proxies and without any. The store is state/state.db in the state
directory, a file of SQLite; how large it may become is store.max_size.")]
pub struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Tell how much the store has
    Stats(StatsArgs),
    /// Tell what is known of an origin
    Get(GetArgs),
    /// Forget an origin: its robots.txt is fetched again at the next request
    Forget(OriginArgs),
    /// Print what is kept of each origin, one line of JSON for each
    #[command(after_help = "\
Examples:
  courtesy store export | jq -r '[.origin, .states[].state] | @tsv'
  courtesy store export | jq -r 'select(.failed).origin'          who did not answer last")]
    Export(PlainArgs),
    /// Tell which requests wait at the running proxy, where, for how long and why
    Waiting(waiting::WaitingArgs),
    /// Give back to the system what the file does not need
    Compact(PlainArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store forget https://example.com
  courtesy store forget http://example.com:8080 || echo nothing was known

Ends with 1 when nothing was known of the origin. The records of what was denied stay as they are.")]
struct OriginArgs {
    /// Scheme, host and, if it is not the scheme's own, port: https://example.com
    #[arg(value_parser = origin)]
    origin: Origin,
    #[command(flatten)]
    config: StateFlags,
}

#[derive(Args, Debug)]
struct PlainArgs {
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy store`.
pub fn run(args: StoreArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Stats(args) => run_stats(&args),
        Command::Get(args) => run_get(&args),
        Command::Forget(args) => forget(&args),
        Command::Export(args) => export(&args),
        Command::Waiting(args) => waiting::run(&args),
        Command::Compact(args) => compact(&args),
    }
}

fn forget(args: &OriginArgs) -> Result<Exit, Failure> {
    let origin = args.origin.to_string();
    let was_known =
        Holder::of(&args.config)?.one(&StoreQuestion::Forget { origin: origin.clone() })?;
    if was_known == Some(true) {
        print(format!(
            "{origin} is forgotten; its robots.txt is fetched again at the next request.\n"
        ))?;
        Ok(Exit::Done)
    } else {
        print(format!("Nothing was known of {origin}.\n"))?;
        Ok(Exit::No)
    }
}

fn export(args: &PlainArgs) -> Result<Exit, Failure> {
    let mut output = BufWriter::new(io::stdout().lock());
    let exported = Holder::of(&args.config)?.ask(&StoreQuestion::Export, &mut |item| {
        let report: Report = serde_json::from_value(item)?;
        serde_json::to_writer(&mut output, &Shown::of(report))?;
        output.write_all(b"\n")
    });
    let ended = exported.and_then(|end| output.flush().map(|()| end).map_err(ControlError::Tell));
    match ended {
        Ok(end) => {
            say_broken(end.broken);
            Ok(Exit::Done)
        }
        // The reader of the output has closed it.
        Err(ControlError::Tell(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(error.into()),
    }
}

fn compact(args: &PlainArgs) -> Result<Exit, Failure> {
    let (before, after) = Holder::of(&args.config)?.open()?.compact()?;
    print(format!("{} before, {} now.\n", shown::size(before), shown::size(after)))?;
    Ok(Exit::Done)
}

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
pub fn run_get(args: &GetArgs) -> Result<Exit, Failure> {
    let origin = args.origin.to_string();
    let report = Holder::of(&args.config)?.one(&StoreQuestion::Get { origin: origin.clone() })?;
    match (report.map(Shown::of), args.format) {
        (None, Form::Json) => print("null\n")?,
        (None, Form::Text) => print(format!("Nothing is known of {origin}.\n"))?,
        (Some(shown), Form::Json) => {
            print(serde_json::to_string_pretty(&shown).expect("words and numbers") + "\n")?;
            return Ok(Exit::Done);
        }
        (Some(shown), Form::Text) => {
            print(get_text(&shown, SystemClock.wall(), Paint::for_stdout()))?;
            return Ok(Exit::Done);
        }
    }
    Ok(Exit::No)
}

/// What is known of an origin, a line each.
pub fn get_text(shown: &Shown, now: Timestamp, paint: Paint) -> String {
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

/// The arguments of `courtesy store stats`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store stats
  courtesy store stats --format json | jq .states")]
pub struct StatsArgs {
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy store stats`.
pub fn run_stats(args: &StatsArgs) -> Result<Exit, Failure> {
    let stats: Option<Stats> = Holder::of(&args.config)?.one(&StoreQuestion::Stats)?;
    let Some(stats) = stats else { return Ok(Exit::No) };
    match args.format {
        Form::Json => {
            print(serde_json::to_string_pretty(&stats).expect("words and numbers") + "\n")?
        }
        Form::Text => {
            print(stats_text(&stats))?;
            say_broken(stats.broken);
        }
    }
    Ok(Exit::Done)
}

fn stats_text(stats: &Stats) -> String {
    let states: Vec<_> =
        stats.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let states = if states.is_empty() { "none".into() } else { states.join(" · ") };
    format!(
        "origins      {}\nstates       {states}\nfiles        {}\nkept         {}\non disk      {}\n",
        stats.entries,
        stats.files,
        size(stats.bytes),
        size(stats.file_bytes)
    )
}

/// An origin in its usual notation.
pub fn origin(text: &str) -> Result<Origin, String> {
    match split_url(text.as_bytes()) {
        Ok((origin, rest)) if *rest == *b"/" => Ok(origin),
        Ok((origin, _)) => Err(format!("an origin ends after host and port: write {origin}")),
        Err(error) => match Origin::from_authority(Scheme::Https, text) {
            Ok(origin) => Err(format!("the scheme is missing: write {origin}, or http://…")),
            Err(_) => Err(error.to_string()),
        },
    }
}

/// The proxy that serves this state directory or, without one, the file itself.
pub struct Holder {
    state_dir: PathBuf,
    shared_dir: PathBuf,
}

impl Holder {
    /// The holder of the store in the configured state directory.
    pub fn of(config: &StateFlags) -> Result<Self, Failure> {
        let settings = config.load()?.settings;
        Ok(Self { shared_dir: settings.shared_state_dir(), state_dir: settings.state_dir })
    }

    /// Passes on each item of the response.
    pub fn ask(&self, question: &StoreQuestion, tell: Tell<'_>) -> Result<End, ControlError> {
        match ask_control(&self.state_dir, &Question::Store(question.clone()), tell)? {
            Some(end) => Ok(end),
            None => match self.open() {
                Ok(file) => answer_question(question, &file, tell),
                Err(OpenError::Missing(path)) if question.is_of_origin() => {
                    warn!("there is no store at {} yet", path.display());
                    Ok(End::default())
                }
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The only item of the response, if there is one.
    pub fn one<T: DeserializeOwned>(
        &self,
        question: &StoreQuestion,
    ) -> Result<Option<T>, ControlError> {
        let mut items = Vec::new();
        self.ask(question, &mut |item| {
            items.push(item);
            Ok(())
        })?;
        Ok(items.pop().map(serde_json::from_value).transpose()?)
    }

    fn open(&self) -> Result<Offline, OpenError> {
        Offline::open(&self.shared_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_out() {
        assert_eq!(origin("https://Example.com").unwrap().to_string(), "https://example.com");
        assert_eq!(
            origin("http://example.com:8080/").unwrap().to_string(),
            "http://example.com:8080"
        );
        for (text, message) in [
            ("example.com", "the scheme is missing: write https://example.com, or http://…"),
            (
                "example.com:8443",
                "the scheme is missing: write https://example.com:8443, or http://…",
            ),
            (
                "https://example.com/a",
                "an origin ends after host and port: write https://example.com",
            ),
            ("a b", "the URL is not absolute: it must begin with http:// or https://"),
        ] {
            assert_eq!(origin(text).unwrap_err(), message, "{text}");
        }
    }
}
