//! Checks the lines of a log, one after the other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::canonical::is_canonical;
use super::chain::{Chain, Link};
use super::doubles::{Second, compare};
use super::entered::Entered;
use super::evidence::{Checked, is_of_our_gzip};
use super::fault::{At, Fault, Problem};
use super::findings::Findings;
use super::heads::NotedHead;
use super::note::{Note, Unusual};
use super::recorded::Counted;
use super::times::Times;
use crate::audit::read::{Line, Rest, ScanError};
use crate::audit::{
    AnyLine, Content, EvidenceRefs, Head, LineError, LineKind, Notice, Record, Rewound,
    checked_hash, segment, split,
};

/// Identities of a log that are kept apart: it has one.
const LOGS_NAMED_MAX: usize = 16;

/// Checks the lines of a log, one after the other.
pub(super) struct Reader {
    pub(super) chain: Chain,
    pub(super) counted: Counted,
    pub(super) times: Times,
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
        match compare(read, second) {
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
        let totals = self.counted.line(seq, content.as_ref().ok());
        let entered = self.entered.as_mut();
        let renamed = entered.and_then(|file| file.line(seq, line.number, content.as_ref().ok()));
        let others: Vec<_> =
            totals.into_iter().chain(renamed).map(|problem| link.fault(problem)).collect();
        self.chain.link(link, &mut self.findings.faults);
        others.into_iter().for_each(|fault| self.findings.faults.push(fault));
        match content {
            Ok(content) => self.content(&content, &at),
            Err(error) => self.not_understood(line.bytes, error, at, seq),
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
            Notice::SettingsChanged(_) => notices.settings += 1,
            Notice::Started(started) => {
                if self.findings.logs.len() < LOGS_NAMED_MAX {
                    self.findings.logs.extend(started.log);
                }
                notices.started += 1;
                notices.not_stopped += u64::from(std::mem::replace(&mut self.is_running, true));
            }
            Notice::Stopped(_) => {
                notices.stopped += 1;
                self.is_running = false;
            }
            Notice::Changed(_) | Notice::ChangesOmitted(_) => notices.changed += 1,
            Notice::Paced(_) => notices.paced += 1,
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

    pub(super) fn end(mut self) -> Findings {
        self.leave();
        let mut findings = self.findings;
        self.times.end().into_iter().for_each(|note| findings.notes.push(note));
        let (head, held) = self.chain.end(&findings.logs, &mut findings.faults);
        if let Some(noted) = held.noted {
            findings.noted = NotedHead::Read(noted);
        }
        (findings.published, findings.witnessed) = (held.published, held.witnessed);
        findings.head = Some(head).filter(|head| head.seq > 0);
        findings.evidence = self.evidence.map(|evidence| evidence.count());
        findings
    }
}
