//! Checks one line in its chain: its own hash, and its links to the lines beside it.

use serde::Serialize;

use super::{Line, Log, Scan, ScanError, ScanItem};
use crate::audit::{AnyLine, Head, checked_hash, split};
use crate::types::sanitize::sha256_hex;

/// How a line stands in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChainCheck {
    /// Its hash is that of its text.
    pub hash_holds: bool,
    pub before: Link,
    pub after: Link,
}

/// How a line and one beside it fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// The later one names the hash of the earlier one.
    Fits,
    /// The later one names another hash: one of the two was replaced, or a line between them
    /// removed.
    Differs,
    /// There is no line on that side; before line 1 there is none to be.
    Absent,
}

impl ChainCheck {
    /// How `line`, without its end, stands where it is first found in `log`; none where it is not.
    pub fn of(line: &[u8], log: Log) -> Result<Option<Self>, ScanError> {
        Ok(beside(line, log)?.map(|(before, after)| Self {
            hash_holds: checked_hash(line).is_ok(),
            before: match before {
                Some(before) => fits(&before, line),
                None => begins(line),
            },
            after: after.map_or(Link::Absent, |after| fits(line, &after)),
        }))
    }

    /// Whether nothing speaks against it.
    pub fn holds(&self) -> bool {
        self.hash_holds && self.before != Link::Differs && self.after != Link::Differs
    }
}

type Lines = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The lines before and after it.
fn beside(wanted: &[u8], log: Log) -> Result<Option<Lines>, ScanError> {
    let mut scan = Scan::new(log)?;
    let mut before: Option<Vec<u8>> = None;
    let mut is_found = false;
    loop {
        let block = match scan.next() {
            Ok(Some(ScanItem::Lines(block))) => block,
            Ok(None) => return Ok(is_found.then_some((before, None))),
            Ok(Some(ScanItem::Rest(_))) | Err(_) if is_found => return Ok(Some((before, None))),
            // An unreadable part is not the line before the next one.
            Ok(Some(ScanItem::Rest(_))) | Err(_) => {
                before = None;
                continue;
            }
        };
        let mut last: Option<&[u8]> = None;
        for Line { bytes, .. } in block.lines() {
            if is_found {
                return Ok(Some((before, Some(bytes.to_vec()))));
            }
            is_found = bytes == wanted;
            if !is_found {
                last = Some(bytes);
            } else if let Some(last) = last {
                before = Some(last.to_vec());
            }
        }
        if let Some(last) = last.filter(|_| !is_found) {
            let before = before.get_or_insert_default();
            before.clear();
            before.extend_from_slice(last);
        }
    }
}

fn fits(earlier: &[u8], later: &[u8]) -> Link {
    let Ok(AnyLine { prev, .. }) = serde_json::from_slice(later) else { return Link::Differs };
    let Some((canonical, written)) = split(earlier) else { return Link::Differs };
    // Of an earlier line that was changed, its text or its hash may be the one that was chained to.
    let is_fit = prev == written || prev == sha256_hex(&[canonical, b"}"].concat());
    if is_fit { Link::Fits } else { Link::Differs }
}

/// Of the first line that is there.
fn begins(line: &[u8]) -> Link {
    match serde_json::from_slice(line) {
        Ok(AnyLine { prev, seq: 1, .. }) if prev != Head::genesis().hash => Link::Differs,
        Ok(_) => Link::Absent,
        Err(_) => Link::Differs,
    }
}
