//! One pass over a log, or several, for every command that selects records. Missing and unreadable
//! parts are reported on standard error, so that a part is not taken for the whole.

use std::ops::ControlFlow;

use super::judge::Judge;
use super::progress::Progress;
use super::sources::{Hit, Source, extent, merge};
use super::time_arg;
use crate::audit::Content;
use crate::audit::read::{CompiledFilter, Filter, Log};
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
