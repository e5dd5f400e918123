//! Verifies a log: no line was changed, removed, added or moved, and the evidence is there. A chain
//! alone cannot show that its end was cut off: that takes a later [`Head`], one that was published,
//! or the one that the proxy notes beside the log, which can be forged together with the log.

mod chain;
pub(super) mod evidence;
mod fault;
mod findings;
mod heads;
mod invariants;
mod reader;
mod roots;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::audit::read::{Extent, Log, Scan, ScanError, ScanItem};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::tree::Tiles;
use crate::audit::{Head, is_written, read_key, read_log_id, segment};
use crate::types::LogId;
use chain::Chain;
use evidence::Checked;
pub use fault::{At, Fault, Faults, GivenHead, HeadSource, Problem};
pub use findings::{Checkpoints, Findings, Note, Notes, Notices, Oddity, Part, Unusual};
pub use heads::{HeadState, HeldHead, NotedHead};
use invariants::Invariants;
use reader::{Counted, Reader, Times};
pub use roots::SignedBy;
use roots::SignerKeys;

/// How often a log is read again because retention removed its beginning during verification.
const VERIFY_READINGS_MAX: u32 = 3;

/// Checks `log`, telling `progress` now and then how far it has come, and in how many lines. If its
/// beginning has been removed in between, that may explain missing lines, and it is read again.
pub fn verify(
    log: &Log,
    heads: &[GivenHead],
    with_evidence: bool,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Findings, ScanError> {
    verify_signed(log, heads, &[], with_evidence, progress)
}

/// As [`verify`]; checkpoints have to be signed by one of these keys, where there are any.
pub fn verify_signed(
    log: &Log,
    heads: &[GivenHead],
    keys: &[VerifierKey],
    with_evidence: bool,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Findings, ScanError> {
    let mut readings = 1;
    loop {
        let against = (heads.to_vec(), keys.to_vec());
        let (findings, begins_later) =
            read(log.clone(), Chain::new, against, with_evidence, progress)?;
        if !begins_later || findings.faults.count == 0 || readings == VERIFY_READINGS_MAX {
            return Ok(findings);
        }
        readings += 1;
    }
}

/// Checks a part of a log: it need not begin with line 1, and heads of lines behind its last are
/// not held against it.
pub fn verify_part(
    log: &Log,
    heads: &[GivenHead],
    keys: &[VerifierKey],
    with_evidence: bool,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Findings, ScanError> {
    let against = (heads.to_vec(), keys.to_vec());
    read(log.clone(), Chain::of_part, against, with_evidence, progress)
        .map(|(findings, _)| findings)
}

/// Reads the log once. Also returns whether it begins later now than before.
fn read(
    log: Log,
    chain: fn(Vec<GivenHead>, Option<Head>, Option<Tiles>) -> Chain,
    (heads, keys): (Vec<GivenHead>, Vec<VerifierKey>),
    with_evidence: bool,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<(Findings, bool), ScanError> {
    let dir = log.dir();
    let is_part = log.noting_dir().is_none();
    // Before the lines are read: it is never ahead of them.
    let (noted, unread) = heads::noted(&log)
        .map_or_else(|unread| (None, unread), |it| (Some(it), NotedHead::default()));
    let mut reader = Reader {
        chain: chain(heads, noted, log.is_dir().then(|| Tiles::of(&dir))),
        keys: SignerKeys { given: keys, named: noted_keys(&log) },
        counted: Counted::default(),
        times: Times::default(),
        invariants: Invariants::default(),
        evidence: with_evidence.then(|| Checked::new(&dir)),
        file: None,
        entered: None,
        findings: Findings { logs: noted_logs(&log), noted: unread, ..Findings::default() },
        is_running: false,
    };
    let mut scan = Scan::new(log)?;
    let first_seq = scan.first_seq();
    loop {
        match scan.next() {
            Ok(Some(ScanItem::Lines(block))) => {
                reader.enter(block.file);
                block.lines().for_each(|line| reader.line(line));
            }
            Ok(Some(ScanItem::Rest(rest))) => reader.torn(&rest),
            Ok(None) => break,
            Err(error) => reader.unreadable(&error),
        }
        progress(scan.extent(), reader.findings.lines);
    }
    let is_written = is_written(&dir);
    if let Some(rest) = scan.unfinished() {
        if is_written {
            reader.findings.unfinished = Some(rest.bytes.len())
        } else {
            reader.torn(&rest)
        }
    }
    for (file, bytes) in scan.lineless() {
        if is_written && file.ends_with(segment::FILE_NAME) {
            reader.findings.unfinished = Some(*bytes)
        } else {
            reader.fault(At::line(&file.as_path().into(), 1), Problem::Torn { bytes: *bytes })
        }
    }
    scan.doubles().iter().for_each(|(read, second)| reader.double(read, second, is_written));
    Ok((reader.end(is_written || is_part), scan.first_seq() > first_seq))
}

/// The key that is noted beside the log.
fn noted_keys(log: &Log) -> BTreeSet<VerifierKey> {
    log.noting_dir().and_then(|dir| read_key(dir).ok().flatten()).into_iter().collect()
}

/// The identity that is noted beside the log.
fn noted_logs(log: &Log) -> BTreeSet<LogId> {
    log.noting_dir().and_then(|dir| read_log_id(dir).ok().flatten()).into_iter().collect()
}
