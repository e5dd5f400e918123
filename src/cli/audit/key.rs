//! `courtesy audit key`: the public half of the key that signs a log's checkpoints.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::form::printable;
use super::log_source::{LogSourceFlags, key};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{Form, print};

/// The arguments of `courtesy audit key`.
#[derive(Args, Debug)]
#[command(after_help = "\
It is printed as C2SP signed notes write a verifier key: NAME+ID+KEY. The private half is audit.key
in the state directory, made at the first start. Give the public half to those who are to check
checkpoints, by another way than the log: `courtesy audit verify --key KEY` then believes no other.
It is read from the log: from head.json, else from the last line that names it.

Examples:
  courtesy audit key
  courtesy audit key --run last
  courtesy audit verify --head heads.txt --key \"$(cat key.txt)\"

Exit codes: 0 done · 2 usage · 69 the log names no key: it is of an earlier version, or its key
could not be made")]
pub struct KeyArgs {
    /// Read these files instead
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit key`.
pub fn run(args: &KeyArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let is_alone = logs.len() == 1;
    for log in logs {
        let dir = log.dir();
        let dir = dir.to_string_lossy();
        let key = key(&log)
            .ok_or_else(|| anyhow::anyhow!("the log in {} names no key", printable(&dir)))
            .or_exit(Exit::Unavailable)?;
        print(match args.format {
            Form::Text if is_alone => format!("{key}\n"),
            Form::Text => format!("{key}  {}\n", printable(&dir)),
            Form::Json if is_alone => format!("{}\n", json!({ "key": key })),
            Form::Json => format!("{}\n", json!({ "dir": dir, "key": key })),
        })?;
    }
    Ok(Exit::Done)
}
