//! `head.json`: the head of the chain a moment ago. With it the chain goes on after another program
//! has removed all files, and it is the head to publish. It is written after its lines are with the
//! operating system, so it is never ahead of a whole log.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::Head;
use crate::audit::private_file::private;
use crate::types::timestamp::Timestamp;

/// The file of the chain's head in the log's directory.
pub const HEAD_NAME: &str = "head.json";

#[derive(Serialize, Deserialize)]
struct Landmark {
    hash: String,
    seq: u64,
    #[serde(with = "super::time")]
    time: Timestamp,
}

/// The head noted in `dir`, and when it was noted; `None` without a `head.json`.
pub fn read_head(dir: &Path) -> io::Result<Option<(Head, Timestamp)>> {
    let text = match fs::read(dir.join(HEAD_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Landmark { hash, seq, time } = serde_json::from_slice(&text)?;
    if crate::types::sanitize::digest(&hash).is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its hash is no SHA-256"));
    }
    Ok(Some((Head { hash, seq }, time)))
}

/// Replaces the noted head, atomically.
pub fn write_head(dir: &Path, head: &Head, time: Timestamp) -> io::Result<()> {
    let mut text = serde_json::to_vec(&Landmark { hash: head.hash.clone(), seq: head.seq, time })?;
    text.push(b'\n');
    let unfinished = dir.join("head.json.tmp");
    private().write(true).truncate(true).open(&unfinished)?.write_all(&text)?;
    fs::rename(unfinished, dir.join(HEAD_NAME))
}
