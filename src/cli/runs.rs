//! `courtesy runs`: the runs whose records are kept, with how they ended.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::flags::StateFlags;
use super::output::{human_duration, print, quoted};
use super::run::run_file::{RunEnd, RunFile, RunState, RunSums, read};
use super::run::{begun, names};
use crate::audit::print_time;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy runs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy runs
  courtesy runs --last 10 --json | jq -r 'select(.state == \"killed\") | .run'
  courtesy audit query --run ID                     the records of one
  courtesy audit show ID                            a record of any

The latest is the last. A run is under way, was killed, or ended with an exit code, which is that of
its command. Of the command its program and arguments are shown, without what may be secrets: the
user and the query of a URL, and values whose name says so (--password, TOKEN=, Authorization:).

Exit codes: 0 listed · 74 the directory of the runs cannot be read")]
pub struct RunsArgs {
    /// The last N alone
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StateFlags,
}

/// Runs `courtesy runs`.
pub fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    let runs = args.place.load()?.settings.state_dir.join("runs");
    let mut ids = if runs.is_dir() { names(&runs)? } else { Vec::new() };
    ids.retain(|id| begun(id).is_some());
    // The identifiers sort by time.
    ids.sort_unstable();
    if let Some(last) = args.last {
        ids.drain(..ids.len().saturating_sub(last));
    }
    if ids.is_empty() && !args.json {
        eprintln!("there are no runs in {}", runs.display());
    }
    let now = SystemClock.wall();
    let lines: String = ids.iter().map(|id| line(&runs, id, args.json, now)).collect();
    print(lines)?;
    Ok(Exit::Done)
}

fn line(runs: &Path, id: &str, as_json: bool, now: Timestamp) -> String {
    let found = read(&runs.join(id));
    if as_json { format!("{}\n", in_json(id, found)) } else { in_text(id, found, now) }
}

fn in_text(id: &str, found: Option<(RunFile, RunState)>, now: Timestamp) -> String {
    let Some((run, state)) = found else {
        let begun = begun(id).map(print_time).unwrap_or_default();
        return format!("{id}  {}  not known\n", to_the_second(&begun));
    };
    let command: Vec<_> = run.command.iter().map(|word| quoted(word)).collect();
    let (state, took, sums) = match &state {
        RunState::UnderWay => ("under way".to_owned(), Some(now), String::new()),
        RunState::Killed => ("killed".to_owned(), None, String::new()),
        RunState::Ended(end) => (format!("exit {}", end.code), Some(end.at), sums(&end.sums)),
    };
    let took = took.map_or_else(|| "–".to_owned(), |at| human_duration(at.since(run.begun)));
    let begun = print_time(run.begun);
    let begun = to_the_second(&begun);
    format!("{id}  {begun}  {took:<12}  {state:<9}  {}{sums}\n", command.join(" "))
}

/// `2026-11-26 08:10:54`, in UTC.
fn to_the_second(time: &str) -> String {
    time.split(['.', 'Z']).next().unwrap_or_default().replace('T', " ")
}

fn sums(sums: &RunSums) -> String {
    let RunSums { requests, forwarded, denied, not_retrieved, .. } = sums;
    let mut text = format!("  ({requests} requests, {forwarded} forwarded");
    for (count, what) in [(denied, "denied"), (not_retrieved, "not retrieved")] {
        if *count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text + ")"
}

fn in_json(id: &str, found: Option<(RunFile, RunState)>) -> Value {
    let Some((run, state)) = found else {
        return json!({ "run": id, "begun": begun(id).map(print_time), "state": null });
    };
    let word = match &state {
        RunState::UnderWay => "under_way",
        RunState::Killed => "killed",
        RunState::Ended(_) => "ended",
    };
    let mut value = json!({
        "run": id, "begun": print_time(run.begun), "state": word, "command": run.command,
        "sealed": run.sealed, "version": run.version,
    });
    if let RunState::Ended(RunEnd { at, code, sums }) = state {
        value["ended"] = json!(print_time(at));
        value["code"] = json!(code);
        value["sums"] = json!(sums);
    }
    value
}
