//! Once over a log, for every command that picks out records. What is missing from the log or cannot
//! be read is said on standard error: nobody should take a part for the whole.

use std::ops::ControlFlow;

use super::progress::Progress;
use super::when;
use crate::audit::{Content, Notice, print_time, split};
use crate::cli::exit::{Exit, Failure};
use crate::review::{Filter, Log, Piece, Scan, Sieve};

/// What has become of a line that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Good,
    /// It is no record after all.
    Damaged,
    /// No more are wanted.
    Enough,
}

/// A log and what is searched for.
#[derive(Debug)]
pub struct Search {
    scan: Scan,
    sieve: Sieve,
    progress: Progress,
    lines: u64,
    damaged: u64,
    /// Whether notices that are asked for are handed out, too.
    with_notices: bool,
    unreadable: bool,
}

impl Search {
    pub fn new(log: Log, filter: Filter) -> Result<Self, Failure> {
        when::check(filter.since, filter.until)?;
        let scan = Scan::new(log)?.between(filter.since, filter.until);
        let sieve = Sieve::new(filter);
        Ok(Self {
            scan,
            sieve,
            progress: Progress::new(),
            lines: 0,
            damaged: 0,
            with_notices: false,
            unreadable: false,
        })
    }

    /// Hands out notices, too, where they are asked for.
    pub const fn with_notices(mut self) -> Self {
        self.with_notices = true;
        self
    }

    /// Hands each line that matches to `take`, to the end of the log or until it has enough. After
    /// the end it goes on with what has been written since.
    pub fn run(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<Taken, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        loop {
            self.progress.at(|| self.scan.extent(), self.lines);
            let block = match self.scan.next() {
                Ok(Some(Piece::Lines(block))) => block,
                Ok(Some(Piece::Rest(_))) => {
                    self.damaged += 1;
                    continue;
                }
                Ok(None) => break,
                Err(error) => {
                    self.progress.clear();
                    eprintln!("warning: {:#}", anyhow::Error::from(error));
                    self.unreadable = true;
                    continue;
                }
            };
            for line in block.lines().map(|line| line.octets) {
                self.lines += 1;
                let taken = if self.sieve.admits(line) {
                    self.progress.clear();
                    if split(line).is_some() { take(line)? } else { Taken::Damaged }
                } else if Sieve::is_record(line) {
                    Taken::Good
                } else {
                    match Content::parse(line) {
                        Ok(Content::Notice(notice))
                            if self.with_notices && self.sieve.admits_notice(&notice) =>
                        {
                            self.progress.clear();
                            take(line)?
                        }
                        Ok(content) => look_at_notice(&content, &self.sieve),
                        Err(_) => Taken::Damaged,
                    }
                };
                match taken {
                    Taken::Good => {}
                    Taken::Damaged => self.damaged += 1,
                    Taken::Enough => return Ok(ControlFlow::Break(())),
                }
            }
        }
        self.progress.clear();
        Ok(ControlFlow::Continue(()))
    }

    /// Says what was found damaged. Done, unless a part of the log could not be read.
    pub fn conclude(self) -> Exit {
        if self.damaged > 0 {
            let (count, are) = (self.damaged, if self.damaged == 1 { "line is" } else { "lines are" });
            eprintln!("warning: {count} {are} damaged and left out; see courtesy audit verify");
        }
        if self.unreadable { Exit::InputOutput } else { Exit::Done }
    }
}

/// Records that could not be written are missing from every answer.
fn look_at_notice(content: &Content, sieve: &Sieve) -> Taken {
    if let Content::Notice(Notice::Gap(gap)) = content
        && sieve.covers(gap.since, gap.time)
    {
        let [since, time] = [gap.since, gap.time].map(print_time);
        eprintln!("note: {} records of {since} to {time} could not be written and are lost", gap.lost);
    }
    Taken::Good
}
