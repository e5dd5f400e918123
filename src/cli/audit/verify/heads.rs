//! The values of `--head`: published heads, given or in files.

use std::path::Path;

use crate::audit::Head;
use crate::clients::limits::NAMED_LIST_BYTES_MAX;
use crate::runtime::files;

/// The value of one `--head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads(pub Vec<Head>);

/// Parses `SEQ:HASH`, or reads a file with such heads.
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
    let whole: Option<Head> = serde_json::from_str(&file).ok();
    let words = file.split_whitespace().filter_map(head);
    let of_lines = file.lines().filter_map(|line| serde_json::from_str(line).ok());
    let heads: Vec<Head> = match whole {
        Some(head) => vec![head],
        None => words.chain(of_lines).collect(),
    };
    if heads.is_empty() {
        Err("there is no SEQ:HASH in that file".into())
    } else {
        Ok(Heads(heads))
    }
}

/// `SEQ:HASH`.
fn head(text: &str) -> Option<Head> {
    let (seq, hash) = text.split_once(':')?;
    let hash = hash.to_ascii_lowercase();
    crate::types::sanitize::digest(&hash)?;
    Some(Head { hash, seq: seq.parse().ok()? })
}
