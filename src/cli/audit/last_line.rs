//! The last line of a log: where its chain stands.

use crate::audit::read::{Log, Scan, ScanError, ScanItem};
use crate::audit::{AnyLine, Head, checked_hash};
use crate::types::timestamp::Timestamp;

/// The last line of a log.
#[derive(Debug)]
pub struct LastLine {
    pub head: Head,
    /// When it was written.
    pub time: Timestamp,
    /// Lines behind it that are damaged, and so are no head.
    pub damaged: u64,
}

/// None in a log that has no line.
pub fn last_line(log: Log) -> Result<Option<LastLine>, ScanError> {
    let mut scan = Scan::new(log)?.from_last_segment();
    let mut last = None;
    while let Some(piece) = scan.next()? {
        let ScanItem::Lines(block) = piece else { continue };
        let mut damaged = 0;
        let found = block.bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').find_map(|line| {
            let found = head(line);
            damaged += u64::from(found.is_none());
            found
        });
        last = match (found, last) {
            (Some((head, time)), _) => Some(LastLine { head, time, damaged }),
            (None, Some(before)) => Some(LastLine { damaged: before.damaged + damaged, ..before }),
            (None, None) => None,
        };
    }
    Ok(last)
}

/// What a line of any kind is as a head; none where it is damaged.
fn head(line: &[u8]) -> Option<(Head, Timestamp)> {
    let hash = checked_hash(line).ok()?.to_owned();
    let AnyLine { seq, time, .. } = AnyLine::parse(line).ok()?;
    Some((Head { hash, seq }, time?))
}
