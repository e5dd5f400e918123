//! `courtesy demo`: runs the real proxy with scripted sites on loopback, and reports what it does with
//! a crawler's requests. Needs no network and leaves no files.

mod pace;
mod report;
mod scenes;
mod stage;

use std::io::{self, Write};

use clap::Args;
use serde_json::{Map, Value};

use super::exit::{Exit, Failure};
use super::output::Paint;
use report::{Form, Report};
use stage::Stage;

/// The arguments of `courtesy demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each marked line is a check: ✓ as expected, ✗ not. The exit code is 0 when all are, else 1.")]
pub struct DemoArgs {
    /// Print one JSON object for each event
    #[arg(long)]
    json: bool,
}

/// Runs `courtesy demo`.
pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    let form = if args.json { Form::Json } else { Form::Text(Paint::for_stdout()) };
    let mut stage = Stage::set(Report::new(io::stdout().lock(), form))?;
    match play(&mut stage) {
        Ok(true) => Ok(Exit::Done),
        Ok(false) => Ok(Exit::No),
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(error.into()),
    }
}

fn play(stage: &mut Stage<impl Write>) -> io::Result<bool> {
    stage.report.say(&format!(
        "A crawler that knows nothing of robots.txt, the proxy that obeys it for the crawler (on \
         {}), and some sites: all on this machine, so the sites' names stand for addresses.",
        stage.proxy
    ))?;
    scenes::rules(stage)?;
    scenes::down(stage)?;
    pace::asks_for_time(stage)?;
    pace::has_had_enough(stage)?;
    scenes::play_outage(stage)?;
    record(stage)?;
    stage.report.summary()
}

/// Shows the records that the proxy has written.
fn record(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "The record",
        "Each 403 above left one line in the audit log, written before the answer was sent. \
         Line 1 says that the proxy was started, and by which settings; the others that are no \
         refusals say which robots.txt files changed.",
    )?;
    let (records, denied) = (stage.records(), stage.denied);
    let lines = stage.lines();
    let numbers = lines.iter().filter_map(|line| line["seq"].as_u64());
    let complete = records.len() == denied && numbers.eq(1..=lines.len() as u64);
    let result = format!("{} records", records.len());
    let what = format!("{denied} refusals, in lines numbered from 1 without a gap");
    stage.report.check(complete, &what, &result, &[])?;
    if let Some(Value::Object(first)) = records.first() {
        stage.report.say("The first of them, with what is null left out:")?;
        let lines: Vec<String> = members(first).iter().map(|line| stage.named(line)).collect();
        stage.report.show(&lines)?;
    }
    Ok(())
}

/// A line for each member, and for each of the members of an object.
fn members(record: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in record.iter().filter(|(_, value)| !value.is_null()) {
        match value {
            Value::Object(inner) => {
                lines.extend(members(inner).into_iter().map(|line| format!("{name}.{line}")))
            }
            _ => lines.push(format!("{name}: {value}")),
        }
    }
    lines
}
