//! `courtesy audit head`: the head of the chain. Published elsewhere, it proves later that nothing
//! was cut off.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::log_source::LogSourceFlags;
use super::table::printable;
use crate::audit::read::{Log, Scan, ScanError, ScanItem};
use crate::audit::{Content, Head, print_time, split};
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
  courtesy audit head | mail -s 'head of the denial log' auditor@example.org

Exit codes: 0 done · 69 there is no line yet")]
pub struct HeadArgs {
    /// Read these files instead
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit head`.
pub fn run(args: &HeadArgs) -> Result<Exit, Failure> {
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

/// The last line of the last segment, and when it was written.
fn find(log: Log) -> Result<(Head, Timestamp), Failure> {
    last(log)?.ok_or_else(|| anyhow::anyhow!("the log has no line yet")).or_exit(Exit::Unavailable)
}

/// None in a log that has no line.
pub fn last(log: Log) -> Result<Option<(Head, Timestamp)>, ScanError> {
    let mut scan = Scan::new(log)?.from_last_segment();
    let mut last = None;
    while let Some(piece) = scan.next()? {
        let ScanItem::Lines(block) = piece else { continue };
        // A damaged line is no head; `verify` reports it.
        let found = block.bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').find_map(|line| {
            let content = Content::parse(line).ok()?;
            let (_, hash) = split(line)?;
            Some((Head { hash: hash.to_owned(), seq: content.seq() }, content.time()))
        });
        last = found.or(last);
    }
    Ok(last)
}
