//! Checks the lines of a log, one after the other.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::chain::{Chain, Link};
use super::evidence::{Checked, is_of_our_gzip};
use super::fault::{At, Fault, Problem};
use super::findings::{Findings, Note, Unusual};
use super::heads::NotedHead;
use super::invariants::Invariants;
use super::roots::{SignerKeys, judge_own};
use crate::audit::read::{Line, Rest, ScanError};
use crate::audit::{
    AnyLine, BlobName, Content, EvidenceIndex, EvidenceRefs, Head, LineError, LineKind, Notice,
    Record, RecordedCounts, Rewound, checked_hash, segment, split,
};
use crate::types::timestamp::Timestamp;

/// Identities of a log that are kept apart: it has one.
const LOGS_NAMED_MAX: usize = 16;

/// Checks the lines of a log, one after the other.
pub(super) struct Reader {
    pub(super) chain: Chain,
    pub(super) keys: SignerKeys,
    pub(super) counted: Counted,
    pub(super) times: Times,
    pub(super) invariants: Invariants,
    pub(super) evidence: Option<Checked>,
    pub(super) file: Option<Arc<Path>>,
    pub(super) entered: Option<Entered>,
    pub(super) findings: Findings,
    /// A `started` without a `stopped` after it.
    pub(super) is_running: bool,
}

impl Reader {
    /// Begins a file, or goes on in it.
    pub(super) fn enter(&mut self, file: &Path) -> Arc<Path> {
        if let Some(known) = self.file.as_ref().filter(|known| ***known == *file) {
            return Arc::clone(known);
        }
        self.leave();
        self.entered = Some(Entered::new(file, self.chain.next(), self.evidence.is_some()));
        let entered: Arc<Path> = file.into();
        self.file = Some(Arc::clone(&entered));
        self.findings.files += 1;
        let is_compressed_here =
            segment::named_seq(file).is_some() && file.extension().is_some_and(|it| it == "gz");
        if is_compressed_here && !is_of_our_gzip(file) {
            self.note(At { file: Arc::clone(&entered), line: None }, None, Unusual::OtherGzip);
        }
        entered
    }

    /// Is done with a file.
    fn leave(&mut self) {
        let problem = self.entered.take().and_then(Entered::end);
        if let (Some(problem), Some(file)) = (problem, self.file.clone()) {
            self.fault(At { file, line: None }, problem);
        }
    }

    /// Of two files that begin with the same line, the one that was not read. While a log is written, another program
    /// may be copying its file.
    pub(super) fn double(&mut self, read: &Path, second: &Path, is_written: bool) {
        let at = At { file: second.into(), line: None };
        let is_copied =
            is_written && [read, second].iter().any(|file| file.ends_with(segment::FILE_NAME));
        let shown = read.display().to_string();
        match compare_doubles(read, second) {
            Ok(Second::Same) => {
                self.note(at, None, Unusual::Double { read: shown, is_whole: true })
            }
            Ok(Second::Begins) if is_copied => {
                self.note(at, None, Unusual::Double { read: shown, is_whole: false });
            }
            // Emptied and begun anew in between.
            Ok(_) if segment::first_seq(read).ok() != segment::first_seq(second).ok() => {}
            Ok(Second::Begins | Second::Other) => self.fault(at, Problem::Double { read: shown }),
            // Closed or removed in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.fault(at, Problem::Unreadable(error.to_string())),
        }
    }

    pub(super) fn line(&mut self, line: Line<'_>) {
        let Some(file) = &self.file else { return };
        let at = At::line(file, line.number);
        self.findings.lines += 1;
        let hash = match checked_hash(line.bytes) {
            Ok(hash) => hash.to_owned(),
            Err(error) => return self.doubt(at, line.bytes, error),
        };
        let any = match AnyLine::parse(line.bytes) {
            Ok(any) => any,
            Err(error) => return self.doubt(at, line.bytes, error),
        };
        let link = Link { at, seq: any.seq, prev: any.prev, hash, id: any.id };
        let content = Content::parse(line.bytes);
        if !is_canonical(line.bytes, content.as_ref().ok()) {
            self.findings.faults.push(link.fault(Problem::NotCanonical));
        }
        let (at, seq) = (link.at.clone(), link.seq);
        let checkpoint = self.checkpoint(&link, content.as_ref().ok());
        let totals = self.counted.line(seq, content.as_ref().ok());
        let entered = self.entered.as_mut();
        let renamed = entered.and_then(|file| file.line(seq, line.number, content.as_ref().ok()));
        let others: Vec<_> = totals
            .into_iter()
            .chain(renamed)
            .chain(checkpoint)
            .map(|problem| link.fault(problem))
            .collect();
        self.chain.link(link, &mut self.findings.faults);
        others.into_iter().for_each(|fault| self.findings.faults.push(fault));
        match content {
            Ok(content) => self.content(&content, &at),
            Err(error) => self.not_understood(line.bytes, error, at, seq),
        }
    }

    /// Holds a line that is a checkpoint against the lines before it.
    fn checkpoint(&mut self, link: &Link, content: Option<&Content>) -> Option<Problem> {
        let Some(Content::Notice(Notice::Checkpointed(own))) = content else { return None };
        let before = Head { hash: link.prev.clone(), seq: link.seq - 1 };
        match judge_own(&own.note, &before, self.chain.roots.before(link.seq), &self.keys) {
            Ok(by) => {
                let checkpoints = &mut self.findings.checkpoints;
                (checkpoints.up_to, checkpoints.signed) = (Some(before.seq), Some(by));
                None
            }
            Err(why) => Some(Problem::OtherCheckpoint { why }),
        }
    }

    /// A line in its place that says what this version does not know.
    fn not_understood(&mut self, line: &[u8], error: LineError, at: At, seq: u64) {
        let error = match LineKind::of(line) {
            // A later version may have another kind of notice, or one with more members.
            Some(LineKind::Notice(_) | LineKind::Unknown) => {
                return self.findings.notices.unknown += 1;
            }
            Some(LineKind::Record(_)) => {
                LineError::NoRecord("its members are not those of a record".into())
            }
            None => error,
        };
        self.counted.doubt();
        let problem = Problem::Line(error);
        self.findings.faults.push(Fault { at: Some(at), seq: Some(seq), id: None, problem });
    }

    fn content(&mut self, content: &Content, at: &At) {
        let time = content.time();
        let (first, _) = *self.findings.times.get_or_insert((time, time));
        self.findings.times = Some((first, time));
        self.times.line(at, content.seq(), time);
        match content {
            Content::Record(record) => self.record(record, at),
            Content::Notice(notice) => self.notice(notice, at),
        }
        let settings = match content {
            Content::Notice(notice) => notice.evidence_refs().find_map(|refs| refs.settings),
            Content::Record(_) => None,
        };
        let evidence = self.evidence.as_ref();
        let keeps_all = evidence.zip(settings).and_then(|(evidence, it)| evidence.keeps_all(it));
        self.invariants.line(content, at, keeps_all);
    }

    fn record(&mut self, record: &Record, at: &At) {
        self.findings.records += 1;
        self.evidence(record.evidence_refs(), at, record.seq, Some(&record.id));
    }

    fn evidence<'a>(
        &mut self,
        evidence_refs: impl IntoIterator<Item = EvidenceRefs<'a>>,
        at: &At,
        seq: u64,
        id: Option<&String>,
    ) {
        let Some(evidence) = &mut self.evidence else { return };
        for problem in
            evidence_refs.into_iter().flat_map(|evidence_refs| evidence.check(&evidence_refs))
        {
            let (at, id) = (Some(at.clone()), id.cloned());
            self.findings.faults.push(Fault { at, seq: Some(seq), id, problem });
        }
        for path in evidence.take_of_other_gzip() {
            let what = Unusual::EvidenceOfOtherGzip { path };
            self.findings.notes.push(Note { at: at.clone(), seq: Some(seq), what });
        }
    }

    fn notice(&mut self, notice: &Notice, at: &At) {
        self.evidence(notice.evidence_refs(), at, notice.seq(), None);
        let notices = &mut self.findings.notices;
        match notice {
            Notice::Gap(gap) => {
                notices.gaps += 1;
                notices.lost = notices.lost.saturating_add(gap.lost);
            }
            Notice::Torn(_) => notices.torn += 1,
            Notice::Pruned(pruned) => {
                notices.pruned += 1;
                self.chain.removed(&Head { hash: pruned.last_hash.clone(), seq: pruned.last_seq });
            }
            Notice::Totals(_) => notices.totals += 1,
            Notice::Checkpointed(_) => notices.checkpoints += 1,
            Notice::Pulse(_) => notices.pulses += 1,
            Notice::Published(_) => notices.published += 1,
            Notice::Operated(_) => notices.operated += 1,
            Notice::SettingsChanged(_) => notices.settings += 1,
            Notice::Started(started) => {
                if self.findings.logs.len() < LOGS_NAMED_MAX {
                    self.findings.logs.extend(started.log);
                }
                self.keys.name(started.key.as_ref());
                notices.started += 1;
                notices.not_stopped += u64::from(std::mem::replace(&mut self.is_running, true));
            }
            Notice::Stopped(_) => {
                notices.stopped += 1;
                self.is_running = false;
            }
            Notice::Changed(_) | Notice::ChangesOmitted(_) => notices.changed += 1,
            Notice::Paced(_) => notices.paced += 1,
            Notice::RobotsFile(_) => notices.files += 1,
            Notice::SiteCounts(_) => notices.counts += 1,
            Notice::Allowed(_) => notices.allowed += 1,
            Notice::Rewound(Rewound { seen_seq, .. }) => {
                notices.rewound += 1;
                let (at, seq) = (Some(at.clone()), Some(notice.seq()));
                let problem = Problem::Rewound { seq: *seen_seq };
                self.findings.faults.push(Fault { at, seq, id: None, problem });
            }
            Notice::EvidenceLost(lost) => {
                notices.evidence_lost += lost.evidence.len() as u64;
                self.excuse(&lost.evidence);
            }
        }
    }

    /// Evidence of earlier lines that is missing, and is said to be: no fault.
    fn excuse(&mut self, names: &[String]) {
        let Some(evidence) = &mut self.evidence else { return };
        for path in names.iter().filter_map(|name| evidence.excuse(name)) {
            let is_of = |fault: &Fault| matches!(&fault.problem, Problem::NoEvidence { path: missing } if *missing == path);
            let faults = &mut self.findings.faults;
            faults.count -= 1;
            faults.described.retain(|fault| !is_of(fault));
        }
    }

    /// A damaged or changed line.
    fn doubt(&mut self, at: At, line: &[u8], error: LineError) {
        // Whether its text or its hash was changed is not known: the next line names the right one.
        let hashes = split(line).map_or_else(Vec::new, |(canonical, written)| {
            let text = [canonical, b"}"].concat();
            vec![written.to_owned(), crate::types::sanitize::sha256_hex(&text)]
        });
        self.chain.doubt(hashes);
        self.counted.doubt();
        let any = serde_json::from_slice(line).ok();
        let (seq, id) = any.map_or((None, None), |AnyLine { seq, id, .. }| (Some(seq), id));
        self.findings.faults.push(Fault { at: Some(at), seq, id, problem: Problem::Line(error) });
    }

    pub(super) fn torn(&mut self, rest: &Rest<'_>) {
        let file = self.enter(rest.file);
        self.chain.doubt(Vec::new());
        self.counted.doubt();
        self.fault(At::line(&file, rest.number), Problem::Torn { bytes: rest.bytes.len() });
    }

    pub(super) fn unreadable(&mut self, error: &ScanError) {
        self.chain.excuse();
        self.counted.doubt();
        let at = At { file: error.path.as_path().into(), line: None };
        self.fault(at, Problem::Unreadable(error.source.to_string()));
    }

    pub(super) fn fault(&mut self, at: At, problem: Problem) {
        self.findings.faults.push(Fault { at: Some(at), seq: None, id: None, problem });
    }

    fn note(&mut self, at: At, seq: Option<u64>, what: Unusual) {
        self.findings.notes.push(Note { at, seq, what });
    }

    /// `is_open`: a process writes the log, or only a part of it is there.
    pub(super) fn end(mut self, is_open: bool) -> Findings {
        self.leave();
        let mut findings = self.findings;
        let last = self.file.map(|file| At { file, line: None });
        let is_open = is_open || self.chain.part().is_some();
        let odd = self.invariants.end(last, is_open);
        self.times.end().into_iter().chain(odd).for_each(|note| findings.notes.push(note));
        findings.part = self.chain.part();
        findings.checkpoints.lines_kept_by_hash = self.chain.roots.kept;
        let (head, held) = self.chain.end(&findings.logs, &self.keys, &mut findings.faults);
        findings.checkpoints.keys = self.keys.named;
        if let Some(noted) = held.noted {
            findings.noted = NotedHead::Read(noted);
        }
        (findings.published, findings.witnessed) = (held.published, held.witnessed);
        findings.head = Some(head).filter(|head| head.seq > 0);
        findings.evidence = self.evidence.map(|evidence| evidence.count());
        findings
    }
}

// Checks a file of the log as a whole: that its name fits its lines, and that its evidence index
// has all blobs that they name. Retention removes blobs missing from the index together with
// earlier segments.

/// The file that is read.
#[derive(Debug)]
pub(super) struct Entered {
    path: PathBuf,
    /// The number in its name, until a line of it has been held against that.
    named: Option<u64>,
    /// The number that its first line should have; none of the first file.
    next: Option<u64>,
    /// The blobs that its lines name, if there may be an index.
    names: Option<HashSet<BlobName>>,
}

impl Entered {
    pub(super) fn new(path: &Path, next: Option<u64>, with_evidence: bool) -> Self {
        let named = segment::named_seq(path);
        // Beside one that is not compressed yet there may be a list of another file of that name, to be written anew.
        let has_list =
            with_evidence && named.is_some() && path.extension().is_some_and(|it| it == "gz");
        Self { path: path.to_owned(), named, next, names: has_list.then(HashSet::new) }
    }

    /// A line that can be relied on; `number` is its place in the file, from 1.
    pub(super) fn line(
        &mut self,
        seq: u64,
        number: u64,
        content: Option<&Content>,
    ) -> Option<Problem> {
        if let (Some(names), Some(content)) = (&mut self.names, content) {
            names.extend(content.blobs());
        }
        let named = self.named.take()?;
        let first = seq.saturating_sub(number - 1);
        // Lines from its name on that are missing are a fault of the chain.
        let is_cut = self.next.is_some_and(|next| (next..first).contains(&named));
        (named != first && !is_cut).then_some(Problem::OtherName { named, first })
    }

    /// After its lines: the fault of the index.
    pub(super) fn end(self) -> Option<Problem> {
        let names = self.names?;
        let path = EvidenceIndex::path_beside(&self.path)?;
        let list = path.display().to_string();
        match EvidenceIndex::read(&path) {
            Ok(evidence_index) => {
                let missing = names.difference(&evidence_index.names).count();
                (missing > 0).then_some(Problem::ShortList { list, missing })
            }
            // Made anew where it is needed: a copy of the log may be without.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Problem::BadList { list, why: error.to_string() }),
        }
    }
}

/// The content of a second file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    Same,
    /// One of the two has the first lines of the other, and no more.
    Begins,
    Other,
}

/// Compares their text, after decompression.
pub(super) fn compare_doubles(one: &Path, other: &Path) -> io::Result<Second> {
    let open = |path: &Path| Ok::<_, io::Error>(BufReader::new(segment::text(File::open(path)?)?));
    let (mut one, mut other) = (open(one)?, open(other)?);
    loop {
        let (first, second) = (one.fill_buf()?, other.fill_buf()?);
        let length = first.len().min(second.len());
        if length == 0 {
            return Ok(if first.len() == second.len() { Second::Same } else { Second::Begins });
        }
        if first[..length] != second[..length] {
            return Ok(Second::Other);
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Whether the bytes before the hash are in canonical form. Known lines are serialized again and
/// compared; others are checked by the general rules.
pub fn is_canonical(line: &[u8], content: Option<&Content>) -> bool {
    let Some((canonical, _)) = split(line) else { return false };
    let text = [canonical, b"}"].concat();
    let written = content.and_then(|content| match content {
        // The hash is no member of a record, and so is not written.
        Content::Record(record) => serde_json::to_vec(record).ok(),
        Content::Notice(notice) => serde_json::to_vec(notice).ok(),
    });
    written.is_some_and(|written| written == text) || is_canonical_json(&text)
}

/// RFC 8785 §3.2 for the values that lines have: no white space, members sorted, no fractions.
fn is_canonical_json(text: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return false };
    is_sorted(&value) && serde_json::to_vec(&value).is_ok_and(|written| written == text)
}

fn is_sorted(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let names: Vec<Vec<u16>> =
                members.keys().map(|name| name.encode_utf16().collect()).collect();
            names.is_sorted() && members.values().all(is_sorted)
        }
        Value::Array(items) => items.iter().all(is_sorted),
        Value::Number(number) => !number.is_f64(),
        _ => true,
    }
}

// Checks the `totals` of a log against its records. A chain rewritten without some records is
// consistent; the totals show their number.

/// The records since the last `totals`.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// None: not all lines since then are known, or there was no such line.
    recorded: Option<RecordedCounts>,
    /// The number of the last line.
    seq: u64,
}

impl Counted {
    /// Counts the next trusted line. Returns the difference if it has totals that differ from the
    /// count.
    pub(super) fn line(&mut self, seq: u64, content: Option<&Content>) -> Option<Problem> {
        if seq != self.seq + 1 {
            self.doubt();
        }
        self.seq = seq;
        match content? {
            Content::Record(record) => {
                self.recorded.iter_mut().for_each(|counted| counted.add(record.event));
                None
            }
            Content::Notice(Notice::Totals(totals)) => {
                let counted = self.recorded.replace(RecordedCounts::default());
                let (said, counted) = (totals.recorded?, counted?);
                (said != counted).then_some(Problem::OtherTotals { said, counted })
            }
            Content::Notice(Notice::Pulse(pulse)) => {
                let (said, counted) = (pulse.recorded?, self.recorded?);
                (said != counted).then_some(Problem::OtherTotals { said, counted })
            }
            // A process counts from its start, and counts no more when it has stopped.
            Content::Notice(Notice::Started(_)) => {
                self.recorded = Some(RecordedCounts::default());
                None
            }
            Content::Notice(Notice::Stopped(_)) => {
                self.doubt();
                None
            }
            Content::Notice(_) => None,
        }
    }

    /// A line is missing or changed: it may have been a record.
    pub(super) const fn doubt(&mut self) {
        self.recorded = None;
    }
}

/// How far the time of a line may be before that of the line before it and mean nothing: lines wait for the disk,
/// and so do not stand quite in the order of their times.
const VERIFY_TIME_SLACK: Duration = Duration::from_secs(60);

/// The times read so far.
#[derive(Debug, Default)]
pub(super) struct Times {
    last: Option<(At, Timestamp)>,
    /// The first that went back, with the count of all.
    note: Option<Note>,
}

impl Times {
    /// The time of the next line. Lines wait for the disk, so steps back that are short mean nothing.
    pub(super) fn line(&mut self, at: &At, seq: u64, time: Timestamp) {
        let before = self.last.replace((at.clone(), time));
        let Some((before, time_before)) =
            before.filter(|(_, it)| time.plus(VERIFY_TIME_SLACK) < *it)
        else {
            return;
        };
        match &mut self.note {
            Some(Note { what: Unusual::Backwards { count, .. }, .. }) => *count += 1,
            _ => {
                let what = Unusual::Backwards { time, before, time_before, count: 1 };
                self.note = Some(Note { at: at.clone(), seq: Some(seq), what });
            }
        }
    }

    pub(super) fn end(self) -> Option<Note> {
        self.note
    }
}
