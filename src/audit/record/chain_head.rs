//! `head.json`: the head of the chain a moment ago. With it the chain goes on after another program
//! has removed all files, and it is the head to publish. It is written after its lines are with the
//! operating system, so it is never ahead of a whole log.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::Head;
use crate::audit::private_file::private;
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// The file of the chain's head in the log's directory.
pub const HEAD_NAME: &str = "head.json";

#[derive(Serialize, Deserialize)]
struct Landmark {
    hash: String,
    /// The identity of the log; left out by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<LogId>,
    seq: u64,
    #[serde(with = "crate::audit::record::time")]
    time: Timestamp,
}

/// The head noted in `dir`, and when it was noted; `None` without a `head.json`.
pub fn read_head(dir: &Path) -> io::Result<Option<(Head, Timestamp)>> {
    Ok(read(dir)?.map(|Landmark { hash, seq, time, .. }| (Head { hash, seq }, time)))
}

/// The identity of the log in `dir`, as it is noted there; `None`: it is not.
pub fn read_log_id(dir: &Path) -> io::Result<Option<LogId>> {
    Ok(read(dir)?.and_then(|landmark| landmark.log))
}

fn read(dir: &Path) -> io::Result<Option<Landmark>> {
    let text = match fs::read(dir.join(HEAD_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let landmark: Landmark = serde_json::from_slice(&text)?;
    if crate::types::sanitize::digest(&landmark.hash).is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its hash is no SHA-256"));
    }
    Ok(Some(landmark))
}

/// Replaces the noted head, atomically.
pub fn write_head(dir: &Path, head: &Head, log: LogId, time: Timestamp) -> io::Result<()> {
    let (hash, seq) = (head.hash.clone(), head.seq);
    let mut text = serde_json::to_vec(&Landmark { hash, log: Some(log), seq, time })?;
    text.push(b'\n');
    let unfinished = dir.join("head.json.tmp");
    private().write(true).truncate(true).open(&unfinished)?.write_all(&text)?;
    fs::rename(unfinished, dir.join(HEAD_NAME))
}
