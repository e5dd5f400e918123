//! `courtesy demo`: the real proxy before scripted sites on loopback, and an account of what it
//! does with a crawler's requests. Needs no network and leaves nothing behind.

mod account;
mod crawler;
mod month;
mod origin;
mod scenes;
mod stage;

use std::io::{self, Write};

use clap::Args;

use super::exit::{Exit, Failure};
use super::paint::Paint;
use account::{Account, Form};
use stage::Stage;

#[derive(Args, Debug)]
#[command(after_help = "\
Every line with a mark was checked: ✓ as expected, ✗ not. Ends with 0 when all were, else with 1.")]
pub struct DemoArgs {
    /// Print one JSON object for each event
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    let form = if args.json { Form::Json } else { Form::Text(Paint::for_stdout()) };
    let mut stage = Stage::set(Account::new(io::stdout().lock(), form))?;
    let as_expected = play(&mut stage)?;
    Ok(if as_expected { Exit::Done } else { Exit::No })
}

fn play(stage: &mut Stage<impl Write>) -> io::Result<bool> {
    stage.account.say(&format!(
        "A crawler that knows nothing of robots.txt, the proxy that obeys it for the crawler (on \
         {}), and some sites: all on this machine, so the sites' names stand for addresses.",
        stage.proxy
    ))?;
    scenes::rules(stage)?;
    scenes::missing(stage)?;
    scenes::down(stage)?;
    scenes::slow(stage)?;
    scenes::moved(stage)?;
    scenes::huge(stage)?;
    scenes::page(stage)?;
    scenes::recovery(stage)?;
    month::outage(stage)?;
    record(stage)?;
    stage.account.summary()
}

/// What is left for the auditor.
fn record(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.account.scene(
        "The record",
        "Every denial above has left one line in the audit log, written before the 403 was sent.",
    )?;
    let records = stage.records();
    let numbers: Vec<_> = records.iter().filter_map(|record| record["seq"].as_u64()).collect();
    let without_gaps = !numbers.is_empty() && numbers.iter().copied().eq(1..=numbers.len() as u64);
    let result = format!("{} records", records.len());
    stage.account.check(without_gaps, "numbered from 1, without a gap", &result, &[])?;
    if let Some(first) = records.first() {
        stage.account.say("The first of them:")?;
        let text = serde_json::to_string_pretty(first).unwrap_or_default();
        let lines: Vec<String> = stage.named(&text).lines().map(Into::into).collect();
        stage.account.show(&lines)?;
    }
    Ok(())
}
