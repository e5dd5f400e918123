//! The last line of a log: where its chain stands.

use crate::audit::read::{Log, Scan, ScanError, ScanItem};
use crate::audit::{Content, Head, split};
use crate::types::timestamp::Timestamp;

/// None in a log that has no line.
pub fn last(log: Log) -> Result<Option<(Head, Timestamp)>, ScanError> {
    Ok(last_line(log)?.map(|line| (line.head, line.time)))
}

/// The last line of a log.
#[derive(Debug)]
pub struct LastLine {
    pub head: Head,
    /// When it was written.
    pub time: Timestamp,
    /// The proxy that wrote it.
    pub node: Option<String>,
}

/// None in a log that has no line.
pub fn last_line(log: Log) -> Result<Option<LastLine>, ScanError> {
    let mut scan = Scan::new(log)?.from_last_segment();
    let mut last = None;
    while let Some(piece) = scan.next()? {
        let ScanItem::Lines(block) = piece else { continue };
        // A damaged line is no head; `verify` reports it.
        let found = block.bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').find_map(|line| {
            let content = Content::parse(line).ok()?;
            let (_, hash) = split(line)?;
            let head = Head { hash: hash.to_owned(), seq: content.seq() };
            let node = content.node().map(|node| node.to_string());
            Some(LastLine { head, time: content.time(), node })
        });
        last = found.or(last);
    }
    Ok(last)
}
