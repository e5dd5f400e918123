//! `courtesy audit head`: the head of the chain. Published elsewhere, it proves later that nothing
//! was cut off.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::last_line::last;
use super::log_source::LogSourceFlags;
use super::table::printable;
use super::witnesses::{Witnesses, head_of};
use crate::audit::read::Log;
use crate::audit::{Head, print_time};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{Form, print};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit head`.
#[derive(Args, Debug)]
#[command(after_help = "\
A chain of hashes shows that no line was changed or taken out, but not that its end was cut off.
Keep the head out of reach of those who write to the log: `courtesy audit verify --head SEQ:HASH`
then asks for it. It is read from the files; the proxy may be running.

Examples:
  courtesy audit head
  courtesy audit head --format json | tee -a heads.jsonl
  courtesy audit head --engine                            those of all proxies that share an engine
  courtesy audit head | mail -s 'head of the denial log' auditor@example.org

Exit codes: 0 done · 2 usage · 69 there is no line yet, or the engine cannot be reached")]
pub struct HeadArgs {
    /// Read these files instead
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// Print the heads of all logs that the shared engine of the settings has seen
    #[arg(long, conflicts_with_all = ["files", "run", "dir"])]
    engine: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit head`.
pub fn run(args: &HeadArgs) -> Result<Exit, Failure> {
    if args.engine {
        return print_witnessed(args);
    }
    let logs = args.place.logs(&args.files)?;
    let is_alone = logs.len() == 1;
    let mut text = String::new();
    for log in logs {
        // Of several, each is named.
        let dir = log.dir();
        let dir = (!is_alone).then(|| dir.to_string_lossy());
        let (Head { seq, hash }, time) = find(log)?;
        let time = print_time(time);
        text.push_str(&match (args.format, dir) {
            (Form::Text, None) => format!("{seq}:{hash}  {time}\n"),
            (Form::Text, Some(dir)) => format!("{seq}:{hash}  {time}  {}\n", printable(&dir)),
            (Form::Json, None) => {
                format!("{}\n", json!({ "hash": hash, "seq": seq, "time": time }))
            }
            (Form::Json, Some(dir)) => {
                format!("{}\n", json!({ "dir": dir, "hash": hash, "seq": seq, "time": time }))
            }
        });
    }
    print(text)?;
    Ok(Exit::Done)
}

/// The heads that the engine has seen, each with the name of its proxy.
fn print_witnessed(args: &HeadArgs) -> Result<Exit, Failure> {
    let witnesses = Witnesses::ask(args.place.settings()?)?;
    let mut text = String::new();
    for (proxy, log_head) in &witnesses.heads {
        let (Head { hash, seq }, time) = (head_of(log_head), print_time(log_head.time));
        text.push_str(&match args.format {
            Form::Text => format!("{seq}:{hash}  {time}  {}\n", printable(proxy)),
            Form::Json => {
                format!("{}\n", json!({ "hash": hash, "proxy": proxy, "seq": seq, "time": time }))
            }
        });
    }
    print(text)?;
    if witnesses.heads.is_empty() {
        return Err(anyhow::anyhow!("the engine has seen no head of a log yet"))
            .or_exit(Exit::Unavailable);
    }
    Ok(Exit::Done)
}

/// The last line of the last segment, and when it was written.
fn find(log: Log) -> Result<(Head, Timestamp), Failure> {
    last(log)?.ok_or_else(|| anyhow::anyhow!("the log has no line yet")).or_exit(Exit::Unavailable)
}
