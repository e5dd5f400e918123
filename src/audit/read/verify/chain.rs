//! Checks that each line follows the one before. Pure: takes one line after the other, reports
//! faults, and goes on behind each, so that one fault is reported once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::fault::{At, Fault, Faults, GivenHead, Problem};
use super::findings::Part;
use super::heads::{Heads, HeldHeads};
use super::roots::{SignerKeys, TreeRoots};
use crate::audit::Head;
use crate::audit::tree::Tiles;
use crate::types::LogId;

/// Runs of missing lines that are remembered, to recognize moved lines.
const HOLES_REMEMBERED_MAX: usize = 1024;

/// A line whose hash is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub at: At,
    /// Its number in the chain, from 1.
    pub seq: u64,
    pub prev: String,
    pub hash: String,
    pub id: Option<String>,
}

/// The chain read so far.
#[derive(Debug)]
pub(super) struct Chain {
    start: Option<Start>,
    /// The number of the last line that could be relied on.
    seq: u64,
    /// Hashes that the next line may have as `prev`; empty: any.
    hashes: Vec<String>,
    /// Lines since that could not be relied on: each has one number.
    doubtful: u64,
    /// A line whose number is ahead of its place, until it is clear why.
    early: Option<Early>,
    /// Numbers that were missing where they should have been.
    holes: Vec<(u64, u64)>,
    /// A file could not be read: what is missing next was in it.
    is_excused: bool,
    /// Only a part of the log is there.
    is_part: bool,
    heads: Heads,
    pub(super) roots: TreeRoots,
}

/// See [`Chain::early`].
#[derive(Debug)]
struct Early {
    link: Link,
    /// The line behind which it stands.
    after: u64,
    /// Lines have gone on from there as if it were not there.
    is_passed: bool,
}

/// How the log begins.
#[derive(Debug)]
struct Start {
    at: At,
    seq: u64,
    /// None where the first lines could not be relied on.
    prev: Option<String>,
    /// Whether a line states that the missing lines before it were removed by retention.
    is_accounted: bool,
}

impl Chain {
    /// `noted`: the head that the proxy notes beside the log.
    pub(super) fn new(given: Vec<GivenHead>, noted: Option<Head>, tiles: Option<Tiles>) -> Self {
        let sizes = given.iter().filter(|given| given.signed.is_some()).map(|given| given.head.seq);
        Self {
            roots: TreeRoots::new(sizes, tiles),
            start: None,
            seq: 0,
            hashes: Vec::new(),
            doubtful: 0,
            early: None,
            holes: Vec::new(),
            is_excused: false,
            is_part: false,
            heads: Heads::new(given, noted),
        }
    }

    /// Of a part of a log.
    pub(super) fn of_part(
        given: Vec<GivenHead>,
        noted: Option<Head>,
        tiles: Option<Tiles>,
    ) -> Self {
        Self { is_part: true, ..Self::new(given, noted, tiles) }
    }

    /// How it begins, if it is a part.
    pub(super) fn part(&self) -> Option<Part> {
        let start = self.start.as_ref().filter(|_| self.is_part)?;
        Some(Part { first: start.seq, prev: start.prev.clone() })
    }

    /// A line that is not trusted. Its own hash is one of `hashes`; unknown if that is empty.
    pub(super) fn doubt(&mut self, hashes: Vec<String>) {
        self.doubtful += 1;
        self.hashes = hashes;
    }

    /// The number that the next line should have; none before the first.
    pub(super) fn next(&self) -> Option<u64> {
        self.start.as_ref().map(|_| self.expected())
    }

    /// Some of the lines that follow could not be read.
    pub(super) const fn excuse(&mut self) {
        self.is_excused = true;
    }

    /// A `pruned` notice: retention removed the lines up to `last`, or was about to: it writes that
    /// first, and a crash may have kept it from removing all of them.
    pub(super) fn removed(&mut self, last: &Head) {
        self.heads.removed(last);
        if let Some(start) = &mut self.start {
            let fits = start.prev.as_ref().is_none_or(|prev| *prev == last.hash);
            start.is_accounted |= start.seq <= last.seq || (start.seq - 1 == last.seq && fits);
        }
    }

    /// The next line that can be relied on.
    pub(super) fn link(&mut self, link: Link, faults: &mut Faults) {
        self.heads.compare(link.seq, &link.hash);
        if self.start.is_none() {
            self.begin(&link);
        }
        match (self.early.take(), self.expected()) {
            (Some(early), expected) if link.seq == expected => {
                self.go_on(link, faults);
                if early.link.seq == self.seq + 1 {
                    faults.push(early.link.fault(Problem::TooEarly { after: self.seq }));
                    self.go_on(early.link, faults);
                } else {
                    self.early = Some(Early { is_passed: true, ..early });
                }
            }
            (Some(early), expected) if link.seq > expected => {
                if link.seq > early.link.seq && !early.is_passed {
                    self.skip_to(early.link, faults);
                } else {
                    faults.push(early.link.fault(Problem::Inserted { after: early.after }));
                }
                self.place(link, faults);
            }
            (early, _) => {
                self.early = early;
                self.place(link, faults);
            }
        }
    }

    /// Puts a line in the place of its number.
    fn place(&mut self, link: Link, faults: &mut Faults) {
        if link.seq > self.expected() {
            self.early = Some(Early { link, after: self.seq, is_passed: false });
        } else if link.seq > self.seq {
            self.go_on(link, faults);
        } else {
            self.is_behind(link, faults);
        }
    }

    /// The last line, and the heads in the order in which they were given; faults of the whole go
    /// to `faults`.
    pub(super) fn end(
        mut self,
        logs: &BTreeSet<LogId>,
        keys: &SignerKeys,
        faults: &mut Faults,
    ) -> (Head, HeldHeads) {
        match self.early.take() {
            Some(early) if early.is_passed => {
                faults.push(early.link.fault(Problem::Inserted { after: early.after }));
            }
            Some(early) => self.skip_to(early.link, faults),
            None => {}
        }
        if let Some(start) = &self.start {
            let problem = match (start.seq, &start.prev) {
                (1, Some(prev)) if *prev != Head::genesis().hash => Some(Problem::NotFirst),
                (2.., _) if !start.is_accounted && !self.is_part => {
                    Some(Problem::BeginningMissing { last: start.seq - 1 })
                }
                _ => None,
            };
            let fault = |problem| Fault {
                at: Some(start.at.clone()),
                seq: Some(start.seq),
                id: None,
                problem,
            };
            problem.into_iter().for_each(|problem| faults.push(fault(problem)));
        }
        let first = self.start.as_ref().map_or(0, |start| start.seq);
        let lines = first..=self.seq;
        let held = self.heads.end(lines, self.is_part, logs, (&self.roots, keys), faults);
        (Head { hash: self.hashes.pop().unwrap_or_default(), seq: self.seq }, held)
    }

    fn begin(&mut self, link: &Link) {
        let seq = link.seq.saturating_sub(self.doubtful).max(1);
        let prev = (self.doubtful == 0).then(|| link.prev.clone());
        self.heads.begin(seq, prev.as_deref());
        self.roots.begin(seq);
        self.start = Some(Start {
            at: link.at.clone(),
            seq,
            prev: prev.clone(),
            is_accounted: self.is_excused,
        });
        if self.doubtful == 0 {
            (self.seq, self.hashes) = (seq - 1, prev.into_iter().collect());
        } else {
            self.seq = link.seq.saturating_sub(self.doubtful + 1);
        }
    }

    const fn expected(&self) -> u64 {
        self.seq + 1 + self.doubtful
    }

    /// Moves on to `link`, which stands in its place.
    fn go_on(&mut self, link: Link, faults: &mut Faults) {
        let is_next = link.seq == self.expected();
        if is_next && !self.hashes.is_empty() && !self.hashes.contains(&link.prev) {
            faults.push(link.fault(Problem::OtherBefore));
        }
        self.roots.line(link.seq, &link.hash, &link.prev);
        (self.seq, self.hashes, self.doubtful) = (link.seq, vec![link.hash], 0);
        self.is_excused = false;
    }

    /// Moves on to `link`; the lines before it are missing.
    fn skip_to(&mut self, link: Link, faults: &mut Faults) {
        let (first, last) = (self.expected(), link.seq - 1);
        if !self.is_excused {
            let file_begins = link.at.line == Some(1);
            faults.push(link.fault(Problem::Missing { first, last, file_begins }));
        }
        if self.holes.len() < HOLES_REMEMBERED_MAX {
            self.holes.push((first, last));
        }
        self.go_on(link, faults);
    }

    /// A line with a number that the chain has left behind.
    fn is_behind(&mut self, link: Link, faults: &mut Faults) {
        let hole = self.holes.iter().position(|(first, last)| (*first..=*last).contains(&link.seq));
        let Some(hole) = hole else {
            if link.seq == self.seq {
                // The next line shows which of the two was there first.
                self.hashes.push(link.hash.clone());
            }
            return faults.push(link.fault(Problem::Repeated));
        };
        let (first, last) = self.holes.swap_remove(hole);
        let rest = [(first, link.seq - 1), (link.seq + 1, last)];
        self.holes.extend(rest.into_iter().filter(|(first, last)| first <= last));
        faults.push(link.fault(Problem::TooLate { after: self.seq }));
    }
}

impl At {
    pub(super) fn line(file: &Arc<Path>, line: u64) -> Self {
        Self { file: Arc::clone(file), line: Some(line) }
    }
}

impl Link {
    pub(super) fn fault(&self, problem: Problem) -> Fault {
        Fault { at: Some(self.at.clone()), seq: Some(self.seq), id: self.id.clone(), problem }
    }
}
