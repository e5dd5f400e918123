//! One pass over a log, or several, for every command that selects records. Missing and unreadable
//! parts are reported on standard error, so that a part is not taken for the whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;

use super::filters;
use super::line_selector::LineSelector;
use super::progress::Progress;
use super::remarks::remark;
use super::repeats::Repeats;
use crate::audit::read::{CompiledFilter, Extent, Filter, Log, Scan, ScanError, ScanItem};
use crate::audit::{AnyLine, checked_hash};
use crate::cli::exit::{Exit, Failure};

/// What the caller did with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Good,
    /// It is no record after all.
    Damaged,
    /// No more are wanted.
    Enough,
}

/// The logs and the filter.
#[derive(Debug)]
pub struct Search {
    sources: Vec<Source>,
    selector: LineSelector,
    /// Lines that several of the logs have.
    repeats: Repeats,
}

impl Search {
    /// Lines of several logs are passed on in the order of time.
    pub fn new(logs: Vec<Log>, filter: Filter) -> Result<Self, Failure> {
        filters::check(filter.since, filter.until)?;
        let is_alone = logs.len() == 1;
        let repeats = Repeats::of(&logs, "they are counted once");
        let sources = logs.into_iter().map(|log| Source::new(log, &filter, is_alone));
        let sources = sources.collect::<Result<_, _>>()?;
        let selector = LineSelector {
            compiled: CompiledFilter::new(filter),
            progress: Progress::new(),
            lines: 0,
            damaged: 0,
            changed: 0,
            first_changed: None,
            with_notices: false,
            by_default: &[],
            unreadable: None,
        };
        Ok(Self { sources, selector, repeats })
    }

    /// Hands out notices, too, where they are asked for.
    pub const fn with_notices(mut self) -> Self {
        self.selector.with_notices = true;
        self
    }

    /// Hands out notices of these words, too, unless other events are asked for.
    pub const fn with_notices_of(mut self, words: &'static [&'static str]) -> Self {
        self.selector.by_default = words;
        self
    }

    /// Hands each line that matches to `take`, to the end of the logs or until it has enough. After
    /// the end it goes on with lines written since.
    pub fn run(
        &mut self,
        take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let goes_on = match self.sources.as_mut_slice() {
            [source] => alone(source, &mut self.selector, take)?,
            sources => merge(sources, &mut self.selector, &mut |selector, hit| {
                if !hit.is_changed && self.repeats.is_one(hit.log, hit.line) {
                    return Ok(true);
                }
                hand(selector, hit, take)
            })?,
        };
        self.selector.progress.clear();
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    /// Reports damaged and changed lines; `changed_are`: what was done with changed lines, as "left
    /// out". A part of the log that could not be read makes it [`Exit::InputOutput`] or, where this
    /// user may not read it, [`Exit::Permission`], a changed or damaged line [`Exit::No`].
    pub fn conclude(self, changed_are: &str) -> Exit {
        let LineSelector { damaged, changed, first_changed, unreadable, .. } = self.selector;
        if damaged > 0 {
            let are = if damaged == 1 { "line is" } else { "lines are" };
            remark(format!(
                "warning: {damaged} {are} damaged and left out; see courtesy audit verify"
            ));
        }
        if let Some(first) = first_changed {
            let lines = if changed == 1 { "1 line was" } else { &format!("{changed} lines were") };
            remark(format!(
                "warning: {lines} changed after being written ({changed_are}): the text is not what the hash \
                 was made of; the first is {first}; see courtesy audit verify"
            ));
        }
        match (unreadable, changed + damaged) {
            (Some(exit), _) => exit,
            (None, 0) => Exit::Done,
            (None, _) => Exit::No,
        }
    }
}

/// As [`sources::merge`](merge), of one log: no line is copied.
fn alone(
    source: &mut Source,
    selector: &mut LineSelector,
    take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
) -> Result<bool, Failure> {
    loop {
        selector.progress.at(|| extent(std::slice::from_ref(source)), selector.lines);
        let Some(next) = selector.block(source.next()) else { return Ok(true) };
        let Some(block) = next else { continue };
        for line in block.lines().map(|line| line.bytes) {
            if selector.select(line) && !hand(selector, Hit::new(line, 0), take)? {
                return Ok(false);
            }
        }
    }
}

/// Hands out a line; whether more are wanted.
fn hand(
    selector: &mut LineSelector,
    hit: Hit<'_>,
    take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
) -> Result<bool, Failure> {
    selector.progress.clear();
    if hit.is_changed {
        selector.changed += 1;
        selector.first_changed.get_or_insert_with(|| named(hit.line));
    }
    let taken = take(hit)?;
    selector.damaged += u64::from(taken == Taken::Damaged);
    Ok(taken != Taken::Enough)
}

/// The id of a line.
fn named(line: &[u8]) -> String {
    AnyLine::parse(line)
        .map_or_else(|_| "no record any more".into(), |any| format!("number {}", any.seq))
}

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
