//! `courtesy store stats`: the size of the store.

use clap::Args;

use super::holder::Holder;
use super::shown::{say_broken, size};
use crate::admin::control::Question;
use crate::cli::exit::{Exit, Failure};
use crate::cli::flags::StateFlags;
use crate::cli::output::{Form, print};
use crate::store::disk::Stats;

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
pub fn run(args: &StatsArgs) -> Result<Exit, Failure> {
    let stats: Option<Stats> = Holder::of(&args.config)?.one(&Question::StoreStats)?;
    let Some(stats) = stats else { return Ok(Exit::No) };
    match args.format {
        Form::Json => {
            print(serde_json::to_string_pretty(&stats).expect("words and numbers") + "\n")?
        }
        Form::Text => {
            print(text(&stats))?;
            say_broken(stats.broken);
        }
    }
    Ok(Exit::Done)
}

fn text(stats: &Stats) -> String {
    let states: Vec<_> =
        stats.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let states = if states.is_empty() { "none".into() } else { states.join(" · ") };
    format!(
        "origins      {}\nstates       {states}\nfiles        {}, with captures\nkept         {}\n\
         on disk      {}\nversion      {}\n",
        stats.entries,
        stats.blobs,
        size(stats.bytes),
        size(stats.file_bytes),
        stats.schema
    )
}
