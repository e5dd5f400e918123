//! `courtesy engine`: the proxies that share the engine of the settings; and that engine for commands, which
//! read it and are no members.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::output::{Paint, print, seconds};
use crate::audit::print_time;
use crate::config::Settings;
use crate::engine::{
    Engine, Error, KnownProxy, Micros, MissingReason, Pending, RedisEngine, Roster,
};
use crate::runtime::clock::SystemClock;
use crate::server::{SetupErrors, observer};
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy engine`.
#[derive(Args, Debug)]
pub struct EngineArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the proxies that share the engine, and those that are missing
    Members(MembersArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy engine members
  courtesy engine members --json | jq -r '.proxies[] | select(.state != \"live\").name'
  courtesy engine members --json | jq .cells_free

It asks the engine of the settings (engine.url) itself, from any machine that reaches it, and no
proxy need run here. It is no member, and writes nothing there.

A proxy is live while its heartbeats come. One that is silent has not signed off; its part of each
site's pace is left free for ten minutes from its last heartbeat, since it may go on without the
engine. One that is alone says in its heartbeats that it does. An unclaimed part was given before
the engine lost its data. Settings are the same as those that this command reads, or other ones:
robots, origins, pace and exemptions count. Dates are in UTC, by the engine's clock.

Exit codes: 0 listed · 69 the engine cannot be reached · 78 no engine is set")]
struct MembersArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy engine`.
pub fn run(args: &EngineArgs) -> Result<Exit, Failure> {
    match &args.command {
        Command::Members(args) => members(args),
    }
}

fn members(args: &MembersArgs) -> Result<Exit, Failure> {
    let settings = args.config.load()?.settings;
    let client = EngineClient::connect(&settings)?;
    let roster = client.wait(client.engine.roster()).map_err(|error| Failure {
        exit: Exit::Unavailable,
        error: anyhow!("the shared engine does not say which proxies there are: {error}"),
    })?;
    if args.json {
        print(format!("{}\n", in_json(&roster)))?;
    } else if roster.proxies.is_empty() {
        let prefix = &settings.engine.prefix;
        eprintln!(
            "no proxy with engine.prefix \"{prefix}\" has been at the engine for ten minutes"
        );
    } else {
        print(in_text(&roster, Paint::for_stdout()))?;
    }
    Ok(Exit::Done)
}

// The form for programs. Its names are a public interface.

fn in_json(roster: &Roster) -> Value {
    let (cells_free, cells) = roster.left_free;
    json!({
        "time": date(roster.now),
        "proxies": roster.proxies.iter().map(|it| proxy_in_json(it, roster)).collect::<Vec<_>>(),
        "missing": roster.missing().count(),
        "cells": cells,
        "cells_free": cells_free,
        "free_until": roster.free_until().map(date),
    })
}

fn proxy_in_json(proxy: &KnownProxy, roster: &Roster) -> Value {
    let free_until = match proxy.missing {
        Some(MissingReason::Silent(until)) => Some(date(until)),
        Some(MissingReason::Alone) | None => None,
    };
    json!({
        "name": proxy.name.as_deref().map(shown),
        "process": proxy.process,
        "part": proxy.rank.map(|rank| rank + 1),
        "parts": roster.left_free.1,
        "last_heartbeat": proxy.name.as_ref().and(proxy.seen).map(date),
        "state": state(proxy),
        "free_until": free_until,
        "same_settings": proxy.has_same_settings,
        "format": proxy.format,
        "version": proxy.version.as_deref().map(shown),
    })
}

const fn state(proxy: &KnownProxy) -> &'static str {
    match (proxy.missing, &proxy.name) {
        (None, _) => "live",
        (Some(MissingReason::Alone), _) => "alone",
        (Some(MissingReason::Silent(_)), Some(_)) => "silent",
        (Some(MissingReason::Silent(_)), None) => "unclaimed",
    }
}

/// Bytes of a name that are shown. Any program that writes to the server could have written it.
const NAME_BYTES_MAX: usize = 200;

fn shown(name: &str) -> String {
    sanitize::text(name.as_bytes(), NAME_BYTES_MAX)
}

fn date(time: Micros) -> String {
    print_time(Timestamp::from_millis(time / 1000))
}

// The form for people.

/// The columns; of `STATE` the texts are coloured.
const COLUMNS: [&str; 8] =
    ["part", "name", "process", "last heartbeat", "state", "settings", "format", "version"];
const STATE: usize = 4;

fn in_text(roster: &Roster, paint: Paint) -> String {
    let rows: Vec<_> = roster.proxies.iter().map(|it| row(it, roster)).collect();
    let head = COLUMNS.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(width);
    let mut text = paint.faint(line(&head, &widths, |_, cell| cell)) + "\n";
    for (row, proxy) in rows.iter().zip(&roster.proxies) {
        let painted = |column: usize, cell: String| match (column, proxy.missing) {
            (STATE, None) => paint.good(cell),
            (STATE, Some(_)) => paint.bad(cell),
            _ => cell,
        };
        text += &(line(row, &widths, painted) + "\n");
    }
    let said: Vec<_> = statements(roster).into_iter().map(|it| it + "\n").collect();
    text + "\n" + &said.concat()
}

fn line(
    row: &[String; COLUMNS.len()],
    widths: &[usize; COLUMNS.len()],
    paint: impl Fn(usize, String) -> String,
) -> String {
    let padded = |(column, cell): (usize, &String)| {
        let width = if column + 1 == COLUMNS.len() { 0 } else { widths[column] };
        paint(column, format!("{cell:<width$}"))
    };
    row.iter().enumerate().map(padded).collect::<Vec<_>>().join("  ")
}

fn row(proxy: &KnownProxy, roster: &Roster) -> [String; COLUMNS.len()] {
    let none = || "–".to_owned();
    let width = roster.left_free.1;
    let seen = proxy.seen.filter(|_| proxy.name.is_some());
    let state = match proxy.missing {
        Some(MissingReason::Silent(until)) => {
            format!("{}, free until {}", state(proxy), clock(until))
        }
        Some(MissingReason::Alone) | None => state(proxy).to_owned(),
    };
    let settings = proxy.has_same_settings.map(|is_same| if is_same { "same" } else { "other" });
    [
        proxy.rank.map_or_else(none, |rank| format!("{} of {width}", rank + 1)),
        proxy.name.as_deref().map_or_else(none, shown),
        if proxy.process.is_empty() { none() } else { proxy.process.clone() },
        seen.map_or_else(none, |seen| ago(roster.now, seen)),
        state,
        settings.map_or_else(none, str::to_owned),
        proxy.format.map_or_else(none, |format| format.to_string()),
        proxy.version.as_deref().map_or_else(none, shown),
    ]
}

/// To a tenth of a second.
fn ago(now: Micros, then: Micros) -> String {
    let tenths = now.saturating_sub(then) / 100_000;
    format!("{} ago", seconds(Duration::from_millis(tenths * 100)))
}

/// `19:14:03 UTC`.
fn clock(time: Micros) -> String {
    let date = date(time);
    let clock = date.split_once('T').map_or(&*date, |(_, clock)| clock);
    format!("{} UTC", clock.split(['.', 'Z']).next().unwrap_or_default())
}

/// What the list means.
fn statements(roster: &Roster) -> Vec<String> {
    let mut said = vec![missing(roster)];
    let names = roster.namesakes().into_iter();
    said.extend(names.map(|name| {
        let name = shown(name);
        format!("several live proxies have the name {name}: give each its own engine.name, or leave it out")
    }));
    said.extend(other_settings(roster));
    said
}

/// Which proxies are missing, and what that costs.
pub fn missing(roster: &Roster) -> String {
    let (all, missing) = (roster.proxies.len(), roster.missing().count());
    let (free, cells) = roster.left_free;
    if missing == 0 {
        let are = if all == 1 {
            "the only proxy is there"
        } else {
            &format!("all {all} proxies are there")
        };
        return format!("{are}: no part of the pace is left free");
    }
    let is_alone = |it: &&KnownProxy| it.missing == Some(MissingReason::Alone);
    let alone = roster.missing().filter(is_alone).count();
    let until = roster.free_until().map(|until| format!("until {}", clock(until)));
    let as_long = (alone > 0).then(|| format!("as long as {alone} may go on without the engine"));
    let lasts: Vec<_> = until.into_iter().chain(as_long).collect();
    let (are, their) = if missing == 1 { ("is", "its") } else { ("are", "their") };
    let stops = if free >= cells { "; nothing with a delay starts by the engine" } else { "" };
    format!(
        "{missing} of {all} proxies {are} missing: {their} cells ({free} of {cells}) are left free {}{stops}",
        lasts.join(", and ")
    )
}

/// How many live proxies have other settings; `None`: none has.
pub fn other_settings(roster: &Roster) -> Option<String> {
    let live = roster.live().count();
    let others = roster.live().filter(|it| it.has_same_settings == Some(false)).count();
    let have = if others == 1 { "has" } else { "have" };
    (others > 0).then(|| {
        format!(
            "{others} of {live} live proxies {have} other settings than these (robots, origins, pace, \
             exemptions)"
        )
    })
}

// The shared engine of the settings, as a command reads it.

/// Added to the time in which the engine itself gives a connection up: its fault
/// is to be known by then.
const FAULT_WAIT: Duration = Duration::from_millis(500);

/// A connection to the engine, and the runtime that waits for its responses.
#[derive(Debug)]
pub struct EngineClient {
    pub engine: Arc<RedisEngine>,
    runtime: Runtime,
    connect_timeout: Duration,
}

impl EngineClient {
    /// The engine that the settings name; see [`observer`] for `scratch`. `None`: they name none.
    pub fn start(settings: &Settings, scratch: Option<&str>) -> Result<Option<Self>, Failure> {
        let engine = observer(settings, scratch, &(Arc::new(SystemClock) as _));
        let Some(engine) = engine.map_err(SetupErrors::from)? else { return Ok(None) };
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let connect_timeout = engine.settings().connect_timeout();
        Ok(Some(Self { engine, runtime, connect_timeout }))
    }

    /// The same, connected; without an engine or a connection the command cannot go on.
    pub fn connect(settings: &Settings) -> Result<Self, Failure> {
        let none = || anyhow!("no shared engine is set: engine.url, or engine.url_file");
        let observer =
            Self::start(settings, None)?.ok_or_else(none).or_exit(Exit::Configuration)?;
        observer.wait_until_reachable().map_err(|why| Failure {
            exit: Exit::Unavailable,
            error: anyhow!("the shared engine cannot be reached: {why}"),
        })?;
        Ok(observer)
    }

    /// Waits until all its nodes can be reached.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    pub fn wait_until_reachable(&self) -> Result<(), String> {
        let (reached, wait) =
            (self.engine.wait_until_reachable(), self.connect_timeout + FAULT_WAIT);
        let reached = self.runtime.block_on(async { timeout(wait, reached).await });
        let fault = || self.engine.status().last_error.map(|fault| fault.to_string());
        reached.map_err(|_| fault().unwrap_or_else(|| "no response in time".to_owned()))
    }

    /// The result of an operation.
    pub fn wait<T>(&self, pending: Pending<T>) -> Result<T, Error> {
        self.runtime.block_on(pending)
    }

    /// Runs `future` to its end.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = 1_790_000_000_000_000;

    fn proxy(name: &str, rank: u32, missing: Option<MissingReason>) -> KnownProxy {
        KnownProxy {
            name: Some(name.to_owned()),
            process: "1f".to_owned(),
            rank: Some(rank),
            seen: Some(NOW - 1_240_000),
            missing,
            format: Some(1),
            has_same_settings: Some(rank == 0),
            version: None,
        }
    }

    #[test]
    fn the_list_ends_with_what_it_means() {
        let (silent, alone) = (MissingReason::Silent(NOW + 60_000_000), MissingReason::Alone);
        let mut roster = Roster {
            now: NOW,
            proxies: vec![proxy("a", 0, None), proxy("b\u{1b}[2J", 1, Some(silent))],
            left_free: (1, 2),
        };
        let until = "left free until 14:14:20 UTC";
        assert_eq!(
            missing(&roster),
            format!("1 of 2 proxies is missing: its cells (1 of 2) are {until}")
        );
        let text = in_text(&roster, Paint::OFF);
        assert!(text.contains("2 of 2  b\\x1B[2J  1f       1.2 s ago"), "{text}");
        assert!(text.contains("silent, free until 14:14:20 UTC"), "{text}");
        roster.proxies[0] = proxy("a", 0, Some(alone));
        roster.left_free = (2, 2);
        let said = missing(&roster);
        assert!(said.ends_with(&format!(
            "{until}, and as long as 1 may go on without the engine; nothing with a delay starts by the engine"
        )), "{said}");
        assert_eq!(other_settings(&roster), None, "of a silent one they are those before");
        roster.proxies = vec![proxy("a", 0, None), proxy("a", 1, None)];
        roster.left_free = (0, 2);
        let said = statements(&roster).join("\n");
        assert!(said.starts_with("all 2 proxies are there: no part"), "{said}");
        assert!(said.contains("several live proxies have the name a:"), "{said}");
        assert!(said.contains("1 of 2 live proxies has other settings"), "{said}");
    }
}
