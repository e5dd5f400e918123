//! Runs `nft`.

use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use anyhow::anyhow;

use super::super::exit::{Exit, Failure, OrExit};
use super::rules::TABLE;

/// Has `nft` execute `script`, all of it or nothing.
pub fn run(script: &str) -> Result<(), Failure> {
    let output = execute(&["-f", "-"], script)?;
    if output.status.success() { Ok(()) } else { Err(failure(&output)) }
}

/// The table as `nft` prints it; `None`: there is none.
pub fn list() -> Result<Option<String>, Failure> {
    let table: Vec<_> = ["list", "table"].into_iter().chain(TABLE.split(' ')).collect();
    let output = execute(&table, "")?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    if message.contains("No such file or directory") { Ok(None) } else { Err(failure(&output)) }
}

fn execute(arguments: &[&str], input: &str) -> Result<Output, Failure> {
    let mut command = Command::new("nft");
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("nft is not installed (package nftables)"),
        _ => anyhow!("cannot run nft: {error}"),
    });
    let mut child = child.or_exit(Exit::Unavailable)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may have ended already; its own message says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

fn failure(output: &Output) -> Failure {
    let message = String::from_utf8_lossy(&output.stderr);
    let is_denied = message.contains("Operation not permitted");
    let exit = if is_denied { Exit::Permission } else { Exit::Unavailable };
    Failure { exit, error: anyhow!("nft: {}", message.trim()) }
}
