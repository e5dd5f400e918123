//! The values of `--head`: published heads, given or in files.

use std::path::Path;

use serde::Deserialize;

use crate::audit::Head;
use crate::audit::read::verify::GivenHead;
use crate::clients::password::NAMED_LIST_BYTES_MAX;
use crate::runtime::files;
use crate::types::LogId;

/// The value of one `--head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads(pub Vec<GivenHead>);

/// Parses `SEQ:HASH`, or reads a file with such heads. In a file, `log:ID` in the same line names the log.
///
/// # Errors
///
/// What is wrong with the text or the file.
pub fn heads(text: &str) -> Result<Heads, String> {
    if let Some(head) = head(text) {
        return Ok(Heads(vec![head]));
    }
    let file = files::read_text(Path::new(text), NAMED_LIST_BYTES_MAX).map_err(|error| {
        format!("neither SEQ:HASH (as in 12:9f86d0…, 64 digits) nor a file: {error}")
    })?;
    let heads: Vec<GivenHead> = match object(&file) {
        Some(head) => vec![head],
        None => file.lines().flat_map(of_line).collect(),
    };
    if heads.is_empty() {
        Err("there is no SEQ:HASH in that file".into())
    } else {
        Ok(Heads(heads))
    }
}

/// Those of a line of text, or the one of a line of JSON.
fn of_line(line: &str) -> Vec<GivenHead> {
    let log = line.split_whitespace().find_map(|word| LogId::parse(word.strip_prefix("log:")?));
    let words = line.split_whitespace().filter_map(head).map(|head| head.of_log(log));
    words.chain(object(line)).collect()
}

/// As `courtesy audit head --format json` prints it.
fn object(text: &str) -> Option<GivenHead> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(flatten)]
        head: Head,
        #[serde(default)]
        log: Option<LogId>,
    }
    let Named { head, log } = serde_json::from_str(text).ok()?;
    Some(GivenHead::published(head).of_log(log))
}

/// `SEQ:HASH`.
fn head(text: &str) -> Option<GivenHead> {
    let (seq, hash) = text.split_once(':')?;
    let hash = hash.to_ascii_lowercase();
    crate::types::sanitize::digest(&hash)?;
    Some(GivenHead::published(Head { hash, seq: seq.parse().ok()? }))
}
