//! One pass over a log, or several, for every command that selects records. Missing and unreadable
//! parts are reported on standard error, so that a part is not taken for the whole.

use std::ops::ControlFlow;

use super::progress::Progress;
use super::sources::{Hit, Source, extent, merge};
use super::time_arg;
use crate::audit::read::{Block, CompiledFilter, Filter, Log, ScanError, ScanItem};
use crate::audit::{Content, Notice, checked_hash, print_time, split};
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
    judge: Judge,
}

/// Tells which lines are meant, and keeps account of the rest.
#[derive(Debug)]
pub struct Judge {
    compiled: CompiledFilter,
    pub progress: Progress,
    pub lines: u64,
    damaged: u64,
    /// Changed lines that were passed on, and the id of the first.
    changed: u64,
    first_changed: Option<String>,
    /// Whether notices that are asked for are handed out, too.
    with_notices: bool,
    /// How it ends where a part could not be read.
    unreadable: Option<Exit>,
}

impl Search {
    /// Lines of several logs are passed on in the order of time.
    pub fn new(logs: Vec<Log>, filter: Filter) -> Result<Self, Failure> {
        time_arg::check(filter.since, filter.until)?;
        let is_alone = logs.len() == 1;
        let sources = logs.into_iter().map(|log| Source::new(log, &filter, is_alone));
        let sources = sources.collect::<Result<_, _>>()?;
        let judge = Judge {
            compiled: CompiledFilter::new(filter),
            progress: Progress::new(),
            lines: 0,
            damaged: 0,
            changed: 0,
            first_changed: None,
            with_notices: false,
            unreadable: None,
        };
        Ok(Self { sources, judge })
    }

    /// Hands out notices, too, where they are asked for.
    pub const fn with_notices(mut self) -> Self {
        self.judge.with_notices = true;
        self
    }

    /// Hands each line that matches to `take`, to the end of the logs or until it has enough. After
    /// the end it goes on with lines written since.
    pub fn run(
        &mut self,
        take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let goes_on = match self.sources.as_mut_slice() {
            [source] => alone(source, &mut self.judge, take)?,
            sources => merge(sources, &mut self.judge, &mut |judge, hit| judge.hand(hit, take))?,
        };
        self.judge.progress.clear();
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    /// Reports damaged and changed lines; `changed_are`: what was done with changed lines, as "left
    /// out". A part of the log that could not be read makes it [`Exit::InputOutput`] or, where this
    /// user may not read it, [`Exit::Permission`], a changed line [`Exit::No`].
    pub fn conclude(self, changed_are: &str) -> Exit {
        let Judge { damaged, changed, first_changed, unreadable, .. } = self.judge;
        if damaged > 0 {
            let are = if damaged == 1 { "line is" } else { "lines are" };
            eprintln!("warning: {damaged} {are} damaged and left out; see courtesy audit verify");
        }
        if let Some(first) = first_changed {
            let lines = if changed == 1 { "1 line was" } else { &format!("{changed} lines were") };
            eprintln!(
                "warning: {lines} changed after being written ({changed_are}): the text is not what the hash \
                 was made of; the first is {first}; see courtesy audit verify"
            );
        }
        match (unreadable, changed) {
            (Some(exit), _) => exit,
            (None, 0) => Exit::Done,
            (None, _) => Exit::No,
        }
    }
}

/// As [`sources::merge`](super::sources::merge), of one log: no line is copied.
fn alone(
    source: &mut Source,
    judge: &mut Judge,
    take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
) -> Result<bool, Failure> {
    loop {
        judge.progress.at(|| extent(std::slice::from_ref(source)), judge.lines);
        let Some(next) = judge.block(source.next()) else { return Ok(true) };
        let Some(block) = next else { continue };
        for line in block.lines().map(|line| line.bytes) {
            if judge.admits(line) && !judge.hand(Hit::new(line, 0), take)? {
                return Ok(false);
            }
        }
    }
}

impl Judge {
    /// The next lines; none inside if something else comes next, and none at all at the end.
    /// Reports what cannot be read.
    pub fn block<'a>(
        &mut self,
        next: Result<Option<ScanItem<'a>>, ScanError>,
    ) -> Option<Option<Block<'a>>> {
        match next {
            Ok(Some(ScanItem::Lines(block))) => Some(Some(block)),
            Ok(Some(ScanItem::Rest(_))) => {
                self.damaged += 1;
                Some(None)
            }
            Ok(None) => None,
            Err(error) => {
                self.progress.clear();
                let failure = Failure::from(error);
                eprintln!("warning: {:#}", failure.error);
                self.unreadable.get_or_insert(failure.exit);
                Some(None)
            }
        }
    }

    /// Whether a line is meant.
    pub fn admits(&mut self, line: &[u8]) -> bool {
        self.lines += 1;
        if self.compiled.admits(line) {
            let is_whole = split(line).is_some();
            self.damaged += u64::from(!is_whole);
            return is_whole;
        }
        if CompiledFilter::is_record(line) {
            return false;
        }
        match Content::parse(line) {
            Ok(Content::Notice(notice))
                if self.with_notices && self.compiled.admits_notice(&notice) =>
            {
                true
            }
            Ok(Content::Notice(notice)) if checked_hash(line).is_ok() => {
                note_lost(&notice, &self.compiled);
                false
            }
            // Also a record that is not in canonical form: filters cannot read it.
            Ok(_) | Err(_) => {
                self.damaged += 1;
                false
            }
        }
    }

    /// Hands out a line; whether more are wanted.
    fn hand(
        &mut self,
        hit: Hit<'_>,
        take: &mut dyn FnMut(Hit<'_>) -> Result<Taken, Failure>,
    ) -> Result<bool, Failure> {
        self.progress.clear();
        if hit.is_changed {
            self.changed += 1;
            self.first_changed.get_or_insert_with(|| named(hit.line));
        }
        let taken = take(hit)?;
        self.damaged += u64::from(taken == Taken::Damaged);
        Ok(taken != Taken::Enough)
    }
}

/// The id of a line.
fn named(line: &[u8]) -> String {
    Content::parse(line)
        .map_or_else(|_| "no record any more".into(), |it| format!("number {}", it.seq()))
}

/// Records that could not be written are missing from every answer.
fn note_lost(notice: &Notice, compiled: &CompiledFilter) {
    if let Notice::Gap(gap) = notice
        && compiled.covers(gap.since, gap.time)
    {
        let [since, time] = [gap.since, gap.time].map(print_time);
        eprintln!(
            "note: {} records of {since} to {time} could not be written and are lost",
            gap.lost
        );
    }
}
