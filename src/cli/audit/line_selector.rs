//! Selects lines of a log by a filter, and counts the damaged ones.

use super::progress::Progress;
use super::remarks::remark;
use crate::audit::read::{Block, CompiledFilter, Log, Scan, ScanError, ScanItem};
use crate::audit::{
    AnyLine, Content, GapEvent, Head, LineKind, Notice, checked_hash, print_time, split,
};
use crate::cli::exit::{Exit, Failure};
use crate::types::timestamp::Timestamp;

/// Selects lines, and counts the rest.
#[derive(Debug)]
pub struct LineSelector {
    pub(super) compiled: CompiledFilter,
    pub progress: Progress,
    /// Lines that were looked at.
    pub lines: u64,
    pub(super) damaged: u64,
    /// Changed lines that were passed on, and the id of the first.
    pub(super) changed: u64,
    pub(super) first_changed: Option<String>,
    /// Whether notices that are asked for are handed out, too.
    pub(super) with_notices: bool,
    /// The words of notices that are, unless other events are asked for.
    pub(super) by_default: &'static [&'static str],
    /// How it ends where a part could not be read.
    pub(super) unreadable: Option<Exit>,
}

impl LineSelector {
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
                remark(format!("warning: {:#}", failure.error));
                self.unreadable.get_or_insert(failure.exit);
                Some(None)
            }
        }
    }

    /// Counts a line; true if the filter selects it.
    pub fn select(&mut self, line: &[u8]) -> bool {
        self.lines += 1;
        if self.compiled.admits(line) {
            let is_whole = split(line).is_some();
            self.damaged += u64::from(!is_whole);
            return is_whole;
        }
        let is_whole = match LineKind::of(line) {
            Some(LineKind::Record(_)) => CompiledFilter::is_readable(line) && split(line).is_some(),
            Some(LineKind::Notice(word)) => {
                if self.is_handed_out(word) {
                    return self.select_notice(line);
                }
                self.pass_notice(line, word)
            }
            Some(LineKind::Unknown) => checked_hash(line).is_ok(),
            None => false,
        };
        self.damaged += u64::from(!is_whole);
        false
    }

    fn is_handed_out(&self, word: &str) -> bool {
        let is_asked_for = self.compiled.asks_for(word);
        let by_default = self.by_default.contains(&word);
        self.with_notices && is_asked_for
            || by_default && (is_asked_for || self.compiled.asks_for_any())
    }

    /// A notice of a kind that is asked for.
    fn select_notice(&mut self, line: &[u8]) -> bool {
        let content = Content::parse(line);
        let Ok(Content::Notice(notice)) = content else {
            self.damaged += 1;
            return false;
        };
        self.compiled.covers_line(line, &notice)
    }

    /// A notice that is not asked for; whether it is whole. Records that could not be written are
    /// missing from every answer.
    fn pass_notice(&self, line: &[u8], word: &str) -> bool {
        let is_whole = checked_hash(line).is_ok();
        if is_whole
            && word == GapEvent::WORD
            && let Ok(Content::Notice(notice)) = Content::parse(line)
        {
            note_lost(&notice, &self.compiled);
        }
        is_whole
    }
}

fn note_lost(notice: &Notice, compiled: &CompiledFilter) {
    if let Notice::Gap(gap) = notice
        && compiled.covers(gap.since, gap.time)
    {
        let [since, time] = [gap.since, gap.time].map(print_time);
        remark(format!(
            "note: {} records of {since} to {time} could not be written and are lost",
            gap.lost
        ));
    }
}

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
