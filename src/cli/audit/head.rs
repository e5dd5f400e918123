//! `courtesy audit head`: the head of the chain. Published elsewhere, it proves later that nothing
//! was cut off.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::form::printable;
use super::line_selector::{LastLine, last_line};
use super::log_source::{LogSourceFlags, Witnesses, head_of, identity, key};
use crate::audit::checkpoint::{Checkpoint, NoteSigner, SignedCheckpoint};
use crate::audit::read::Log;
use crate::audit::tree::Tree;
use crate::audit::{Head, print_time};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::{Form, print};
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy audit head`.
#[derive(Args, Debug)]
#[command(after_help = "\
A chain of hashes shows that no line was changed or taken out, but not that its end was cut off.
Keep the head out of reach of those who write to the log: `courtesy audit verify --head FILE` then
asks for it. It is read from the files; the proxy may be running.

It is a checkpoint: the size and the root of the tree of its lines and the head of the chain,
signed by the key of the state directory (C2SP tlog-checkpoint). Where that key is not the one that
the log names, or cannot be read, it is the head alone, SEQ:HASH.

Examples:
  courtesy audit head
  courtesy audit head >> heads.txt                        checkpoints, one behind the other
  courtesy audit head --format json | tee -a heads.jsonl  the head, with the checkpoint as a member
  courtesy audit head --engine                            those of all proxies that share an engine
  courtesy audit head | mail -s 'head of the denial log' auditor@example.org

Exit codes: 0 done · 1 lines at the end are damaged and left out · 2 usage · 69 there is no line
yet, or the engine cannot be reached · 78 no engine is set")]
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
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for log in logs {
        // Of several, each is named.
        let dir = log.dir();
        let id = identity(&log);
        let dir = (!is_alone).then(|| dir.to_string_lossy());
        let LastLine { head: Head { seq, hash }, time, damaged } = find(log.clone())?;
        let checkpoint = sign(&args.place, &log, Head { seq, hash: hash.clone() }, time)?;
        if damaged > 0 {
            let lines = if damaged == 1 { "1 line is" } else { &format!("{damaged} lines are") };
            eprintln!(
                "warning: {lines} damaged behind line {seq}, and left out; see courtesy audit verify"
            );
            exit = Exit::No;
        }
        let time = print_time(time);
        text.push_str(&match (args.format, checkpoint) {
            (Form::Text, Some(checkpoint)) => checkpoint.to_string(),
            (Form::Text, None) => {
                let dir = dir.map(|dir| format!("  {}", printable(&dir))).unwrap_or_default();
                format!("{seq}:{hash}  {time}{}{dir}\n", in_text(id))
            }
            (Form::Json, checkpoint) => {
                let mut object = json!({ "hash": hash, "seq": seq, "time": time });
                object["log"] = json!(id);
                object["checkpoint"] = json!(checkpoint.map(|it| it.to_string()));
                if let Some(dir) = dir {
                    object["dir"] = json!(dir);
                }
                let object = without_nulls(object);
                format!("{object}\n")
            }
        });
    }
    print(text)?;
    Ok(exit)
}

/// The checkpoint of a log, where the key of the settings is the one that it names.
pub fn sign(
    place: &LogSourceFlags,
    log: &Log,
    head: Head,
    time: Timestamp,
) -> Result<Option<SignedCheckpoint>, Failure> {
    let (Log::Dir(dir), Some(named)) = (log, key(log)) else { return Ok(None) };
    let file = place.settings()?.audit().key;
    let signer = match file.as_deref().map(NoteSigner::read).transpose() {
        Ok(signer) => signer.flatten(),
        Err(error) => {
            eprintln!(
                "note: not signed, for the key of the state directory cannot be read: {error}"
            );
            None
        }
    };
    let Some(signer) = signer.filter(|it| it.verifier_key(named.name.clone()) == named) else {
        return Ok(None);
    };
    let tree = Tree::of_log(dir, head.seq).or_exit(Exit::InputOutput)?;
    if !tree.is_whole() {
        eprintln!(
            "note: not signed, for some of its lines are not there; see courtesy audit verify"
        );
        return Ok(None);
    }
    let checkpoint = Checkpoint { origin: named.name, head, root: tree.root(), time };
    signer.sign(checkpoint).or_exit(Exit::InputOutput).map(Some)
}

/// The heads that the engine has seen, each with the name of its proxy.
fn print_witnessed(args: &HeadArgs) -> Result<Exit, Failure> {
    let witnesses = Witnesses::ask(args.place.settings()?)?;
    let mut text = String::new();
    for (proxy, log_head) in &witnesses.heads {
        let (Head { hash, seq }, time) = (head_of(log_head), print_time(log_head.time));
        let (id, contradicts) = (log_head.log, log_head.contradicts);
        text.push_str(&match args.format {
            Form::Text => {
                let against = if contradicts { "  contradicts what was seen before" } else { "" };
                format!("{seq}:{hash}  {time}{}  {}{against}\n", in_text(id), printable(proxy))
            }
            Form::Json => {
                let mut object = json!({ "hash": hash, "proxy": proxy, "seq": seq, "time": time });
                object["log"] = json!(id);
                if contradicts {
                    object["contradicts"] = json!(true);
                }
                format!("{}\n", without_nulls(object))
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

/// Behind the head, so that a file of heads says which log each is of.
fn in_text(id: Option<LogId>) -> String {
    id.map(|id| format!("  log:{id}")).unwrap_or_default()
}

fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// The last line of the last segment, and when it was written.
pub fn find(log: Log) -> Result<LastLine, Failure> {
    last_line(log)?
        .ok_or_else(|| anyhow::anyhow!("the log has no line yet"))
        .or_exit(Exit::Unavailable)
}
