//! Merges logs by time: each is a stream of matching lines, in the order of its chain.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::line_selector::LineSelector;
use crate::audit::checked_hash;
use crate::audit::read::{CompiledFilter, Extent, Filter, Log, Scan, ScanError, ScanItem};
use crate::cli::exit::Failure;

/// A line that was found, without its end.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    pub line: &'a [u8],
    /// Which of the logs has it, counted from 0.
    pub log: usize,
    /// Its text does not match its hash: it was changed.
    pub is_changed: bool,
}

impl<'a> Hit<'a> {
    /// A line of the log with the number `log`; its hash is checked.
    pub fn new(line: &'a [u8], log: usize) -> Self {
        Self { line, log, is_changed: checked_hash(line).is_err() }
    }
}

/// One log.
#[derive(Debug)]
pub struct Source {
    scan: Scan,
    /// The matching lines of the last block.
    found: VecDeque<Vec<u8>>,
}

/// The sort key of the next line of a log, and the log.
type Turn = Reverse<((String, String), usize)>;

impl Source {
    /// `is_alone`: no other log is read with it.
    pub fn new(log: Log, filter: &Filter, is_alone: bool) -> Result<Self, ScanError> {
        let scan = Scan::new(log)?.between(filter.since, filter.until);
        let scan = if is_alone { scan } else { scan.in_small_blocks() };
        Ok(Self { scan, found: VecDeque::new() })
    }

    /// The next part of the log.
    pub fn next(&mut self) -> Result<Option<ScanItem<'_>>, ScanError> {
        self.scan.next()
    }

    /// Reads on to a matching line; returns its sort key. None at the end, for now.
    fn fill(&mut self, selector: &mut LineSelector) -> Option<(String, String)> {
        while self.found.is_empty() {
            let Some(block) = selector.block(self.scan.next())? else { continue };
            for line in block.lines().filter(|line| selector.select(line.bytes)) {
                self.found.push_back(line.bytes.to_vec());
            }
        }
        self.found.front().map(|line| CompiledFilter::order(line))
    }
}

/// How far reading has come in all of them.
pub fn extent(sources: &[Source]) -> Extent {
    sources.iter().map(|source| source.scan.extent()).fold(
        Extent { read: 0, total: 0 },
        |sum, it| Extent {
            read: sum.read.saturating_add(it.read),
            total: sum.total.saturating_add(it.total),
        },
    )
}

/// Passes the matching lines of all logs to `take` in the order of time, until `take` stops: then
/// false.
pub fn merge(
    sources: &mut [Source],
    selector: &mut LineSelector,
    take: &mut dyn FnMut(&mut LineSelector, Hit<'_>) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let mut turns: BinaryHeap<Turn> = BinaryHeap::with_capacity(sources.len());
    for (log, source) in sources.iter_mut().enumerate() {
        turns.extend(source.fill(selector).map(|order| Reverse((order, log))));
    }
    while let Some(Reverse((_, log))) = turns.pop() {
        let Some(source) = sources.get_mut(log) else { continue };
        let Some(line) = source.found.pop_front() else { continue };
        if !take(selector, Hit::new(&line, log))? {
            return Ok(false);
        }
        turns.extend(source.fill(selector).map(|order| Reverse((order, log))));
        selector.progress.at(|| extent(sources), selector.lines);
    }
    Ok(true)
}
