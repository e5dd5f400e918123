//! A log of three segments, tampered with in every way.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::audit::evidence::{Blob, BlobStore, Body, CaptureRecord, Kind};
use crate::audit::record::chain::RECORD_SEQ_MAX;
use crate::audit::{
    AgentSource, Client, Content, Event, Gap, GapEvent, Notice, Profile, Pruned, PrunedEvent,
    Reason, Record, ReloadTrigger, Robots, RobotsStatus, SettingsChanged, SettingsEvent, StartMode,
    Started, StartedEvent, Stopped, StoppedEvent, Totals, split,
};
use crate::types::sanitize::{digest, hex, sha256_hex};
use crate::types::timestamp::Timestamp;

const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_123);
const FIRST: &str = "denials-000000000001.jsonl.gz";
const SECOND: &str = "denials-000000000005.jsonl";
const ACTIVE: &str = "denials.jsonl";

/// Lines 1 to 4, 5 to 8, and 9 to 12.
struct Keep {
    dir: TempDir,
    lines: Vec<String>,
}

impl Keep {
    fn new() -> Self {
        let mut head = Head::genesis();
        let lines =
            (1..=12).map(|seq| sealed(&mut head, Content::Record(Box::new(record(seq))))).collect();
        Self::of(lines)
    }

    fn of(lines: Vec<String>) -> Self {
        let keep = Self { dir: tempfile::tempdir().unwrap(), lines };
        let blob_store = BlobStore::of(keep.dir.path());
        for blob in [file(0), file(1), capture(0), capture(1)] {
            blob_store.put(&blob).unwrap();
        }
        let (first, rest) = keep.lines.split_at(4.min(keep.lines.len()));
        let (second, active) = rest.split_at(4.min(rest.len()));
        fs::write(keep.path(FIRST), gzip(&first.concat())).unwrap();
        fs::write(keep.path(SECOND), second.concat()).unwrap();
        fs::write(keep.path(ACTIVE), active.concat()).unwrap();
        keep
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn verify_against(&self, heads: Vec<Head>) -> Findings {
        let heads: Vec<_> = heads.into_iter().map(GivenHead::published).collect();
        verify(&Log::Dir(self.dir.path().to_owned()), &heads, true, &mut |_, _| {}).unwrap()
    }

    fn faults(&self) -> Faults {
        self.verify_against(Vec::new()).faults
    }

    /// Each fault as `file:line problem`.
    fn said(&self) -> Vec<String> {
        let prefix = format!("{}/", self.dir.path().display());
        let faults = self.faults();
        assert_eq!(faults.count, faults.described.len() as u64);
        faults.described.iter().map(|fault| fault.to_string().replace(&prefix, "")).collect()
    }

    fn head(&self, seq: usize) -> Head {
        let (_, hash) = split(self.lines[seq - 1].trim_end().as_bytes()).unwrap();
        Head { hash: hash.to_owned(), seq: seq as u64 }
    }
}

fn sealed(head: &mut Head, content: Content) -> String {
    let mut line = Vec::new();
    head.push(content, &mut line);
    String::from_utf8(line).unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn text(which: u64) -> String {
    format!("user-agent: *\ndisallow: /{which}\n")
}

fn file(which: u64) -> Blob {
    let text = text(which);
    Blob {
        sha256: digest(&sha256_hex(text.as_bytes())).unwrap(),
        kind: Kind::File,
        content: text.into(),
    }
}

fn capture(which: u64) -> Blob {
    let file = file(which);
    let body = Body { cut: false, bytes: file.content.len() as u64, sha256: hex(&file.sha256) };
    let record = CaptureRecord {
        answers: Vec::new(),
        asked: "http://example.com/robots.txt".into(),
        body: Some(body),
        failure: None,
        fetched_at: NOON.millis() + which,
        user_agent: None,
    };
    let sealed = record.seal();
    Blob { sha256: sealed.sha256, kind: Kind::Capture, content: sealed.json }
}

fn record(seq: u64) -> Record {
    let which = seq % 2;
    let time = Timestamp::from_millis(NOON.millis() + seq);
    Record {
        agent: Some("ExampleBot".into()),
        agent_source: AgentSource::UserAgent,
        client: Client::at([127, 0, 0, 1], None),
        event: Event::Denied,
        exemption: None,
        group: None,
        id: crate::audit::new_id(time),
        method: "GET".into(),
        node: None,
        origin: "http://example.com".into(),
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: "rfc9309".into(), settings: BTreeMap::new(), version: 1 },
        reason: Reason::DisallowRule,
        robots: Some(robots(which).into()),
        rule: None,
        seq: 0,
        setting: None,
        sni: None,
        time,
        trace_id: None,
        url_as_received: None,
        url: format!("http://example.com/{which}"),
        user_agent: Some("ExampleBot/1.0".into()),
    }
}

fn robots(which: u64) -> Robots {
    Robots {
        asked_as: None,
        capture: Some(hex(&capture(which).sha256)),
        cause: None,
        confirmed_at: Some(NOON),
        cut: false,
        failed_capture: None,
        failures: None,
        fetched_at: Some(NOON),
        next_try: Some(NOON),
        result: Some("successful".into()),
        sha256: Some(hex(&file(which).sha256)),
        since: Some(NOON),
        site_up: None,
        state: RobotsStatus::Rules,
        status: Some(200),
        tried: Some(NOON),
        url: "http://example.com/robots.txt".into(),
        url_reached: None,
    }
}

#[test]
fn a_log_that_nobody_touched_holds() {
    let keep = Keep::new();
    let findings = keep.verify_against(vec![keep.head(1), keep.head(12)]);
    assert_eq!(findings.faults, Faults::default());
    assert_eq!(
        (findings.files, findings.lines, findings.records, findings.evidence),
        (3, 12, 12, Some(4))
    );
    assert_eq!(findings.head, Some(keep.head(12)));
    let at = |seq| Timestamp::from_millis(NOON.millis() + seq);
    assert_eq!(findings.times, Some((at(1), at(12))));
}

#[test]
fn a_line_that_was_removed_is_missed() {
    let keep = Keep::new();
    fs::write(keep.path(SECOND), [&*keep.lines[4], &keep.lines[7]].concat()).unwrap();
    let said = keep.said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("denials-000000000005.jsonl:2: number 8 ("), "{said:?}");
    assert!(said[0].ends_with("removed: lines 6 to 7 are missing before it"), "{said:?}");
}

#[test]
fn a_line_before_the_last_that_was_removed_is_missed() {
    let keep = Keep::new();
    fs::write(keep.path(ACTIVE), [&*keep.lines[8], &keep.lines[9], &keep.lines[11]].concat())
        .unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("denials.jsonl:3: number 12"), "{said:?}");
    assert!(said[0].ends_with("line 11 is missing before it"), "{said:?}");
}

#[test]
fn lines_that_were_swapped_are_told_from_missing_ones() {
    let keep = Keep::new();
    let order = [4, 6, 5, 7].map(|at: usize| &*keep.lines[at]);
    fs::write(keep.path(SECOND), order.concat()).unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("000005.jsonl:2: number 7"), "{said:?}");
    assert!(said[0].ends_with("swapped: it stands too early, before line 6"), "{said:?}");
}

#[test]
fn a_run_of_lines_that_was_moved_is_missing_there_and_too_late_here() {
    let keep = Keep::new();
    let order = [6, 7, 4, 5].map(|at: usize| &*keep.lines[at]);
    fs::write(keep.path(SECOND), order.concat()).unwrap();
    let said = keep.said();
    let ends = |at: usize, end: &str| said[at].ends_with(end);
    assert!(
        said.len() == 3
            && ends(
                0,
                "lines 5 to 6 are missing before it; a segment has been removed, or its end"
            ),
        "{said:?}"
    );
    assert!(ends(1, "too late, behind line 8") && ends(2, "too late, behind line 8"), "{said:?}");
}

#[test]
fn a_line_that_was_inserted_is_told_whatever_number_it_takes() {
    let keep = Keep::new();
    for (number, problem) in [
        (3, "inserted: there is a line of this number before it"),
        (5, "inserted: there is a line of this number before it"),
        (900, "inserted: what follows it goes on from line 5"),
    ] {
        let mut before = Head { seq: number - 1, ..keep.head(5) };
        let forged = sealed(&mut before, Content::Record(Box::new(record(1))));
        let lines = [&*keep.lines[4], &forged, &keep.lines[5], &keep.lines[6], &keep.lines[7]];
        fs::write(keep.path(SECOND), lines.concat()).unwrap();
        let said = keep.said();
        assert!(
            said.iter().any(|said| said.contains("000005.jsonl:2: ") && said.contains(problem)),
            "{number}: {said:?}"
        );
    }
    // One that takes the next number, and names the line before: what comes after shows it.
    let mut before = keep.head(5);
    let forged = sealed(&mut before, Content::Record(Box::new(record(1))));
    let lines = [&*keep.lines[4], &forged, &keep.lines[5], &keep.lines[6], &keep.lines[7]];
    fs::write(keep.path(SECOND), lines.concat()).unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("000005.jsonl:3: number 6"), "{said:?}");
    assert!(said[0].ends_with("there is a line of this number before it"), "{said:?}");
}

#[test]
fn a_line_that_was_written_anew_no_longer_fits_the_next() {
    let keep = Keep::new();
    let mut before = keep.head(5);
    let forged = sealed(&mut before, Content::Record(Box::new(record(1))));
    fs::write(
        keep.path(SECOND),
        [&*keep.lines[4], &forged, &keep.lines[6], &keep.lines[7]].concat(),
    )
    .unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("000005.jsonl:3: number 7"), "{said:?}");
    assert!(said[0].ends_with("that one was replaced"), "{said:?}");
}

#[test]
fn a_segment_that_was_removed_is_missed() {
    let keep = Keep::new();
    fs::remove_file(keep.path(SECOND)).unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("denials.jsonl:1: number 9"), "{said:?}");
    assert!(
        said[0].contains("lines 5 to 8 are missing before it; a segment has been removed"),
        "{said:?}"
    );
    let keep = Keep::new();
    fs::remove_file(keep.path(FIRST)).unwrap();
    let said = keep.said();
    assert!(
        said.len() == 1 && said[0].contains("lines 1 to 4 are missing, and no line says"),
        "{said:?}"
    );
}

#[test]
fn a_file_that_another_program_has_compressed_is_as_good() {
    let keep = Keep::new();
    let mut packed = gzip(&fs::read_to_string(keep.path(SECOND)).unwrap());
    // As gzip(1) writes it: the system is Unix.
    packed[9] = 3;
    fs::write(keep.path("denials-20261121.jsonl.gz"), packed).unwrap();
    fs::remove_file(keep.path(SECOND)).unwrap();
    assert_eq!(keep.said(), Vec::<String>::new());
}

#[test]
fn evidence_that_another_program_has_compressed_is_a_note() {
    let keep = Keep::new();
    let path = BlobStore::of(keep.dir.path()).path(Kind::File, &hex(&file(1).sha256));
    let mut packed = gzip(&text(1));
    packed[9] = 3;
    fs::write(&path, packed).unwrap();
    let Findings { faults, notes, .. } = keep.verify_against(Vec::new());
    assert_eq!((faults.count, notes.count), (0, 1), "{faults:?} {notes:?}");
    let said = notes.described[0].to_string();
    assert!(said.contains("number 1: its evidence was compressed by another program"), "{said}");
    assert!(said.ends_with(&path.display().to_string()), "{said}");
    // Another text under that name is a fault.
    fs::write(&path, gzip(&text(2))).unwrap();
    assert_eq!(keep.verify_against(Vec::new()).faults.count, 1);
}

#[test]
fn a_file_of_bytes_without_a_line_is_torn_unless_somebody_is_writing_it() {
    let keep = Keep::new();
    let line = keep.lines[8].trim_end();
    fs::write(keep.path(ACTIVE), format!("{line}x")).unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].starts_with("denials.jsonl:1: torn: "), "{said:?}");
    let lock = fs::File::create(keep.path("lock")).unwrap();
    lock.lock().unwrap();
    let findings = keep.verify_against(Vec::new());
    assert_eq!((findings.faults.count, findings.unfinished), (0, Some(line.len() + 1)));
    // Elsewhere no proxy is writing.
    fs::rename(keep.path(ACTIVE), keep.path("denials.jsonl.1")).unwrap();
    assert!(keep.said()[0].starts_with("denials.jsonl.1:1: torn: "), "{:?}", keep.said());
}

#[test]
fn an_end_that_was_cut_off_shows_against_the_head_that_the_proxy_noted() {
    let keep = Keep::new();
    let noted = |Head { hash, seq }: Head| {
        let time = "2026-11-20T12:00:00.000000Z";
        let text = serde_json::json!({ "hash": hash, "seq": seq, "time": time }).to_string();
        fs::write(keep.path(crate::audit::HEAD_NAME), text).unwrap();
    };
    for seq in [1, 9, 12] {
        noted(keep.head(seq));
        assert_eq!(keep.verify_against(Vec::new()).faults.count, 0, "{seq}");
    }
    noted(Head { seq: 14, ..keep.head(12) });
    let faults = keep.verify_against(Vec::new()).faults;
    assert_eq!(
        faults.described[0].problem,
        Problem::HeadCutOff { seq: 14, last: 12, source: HeadSource::Noted }
    );
    // Where the whole log is gone, too.
    for name in [FIRST, SECOND, ACTIVE] {
        fs::remove_file(keep.path(name)).unwrap();
    }
    let faults = keep.verify_against(Vec::new()).faults;
    assert_eq!(
        faults.described[0].problem,
        Problem::HeadCutOff { seq: 14, last: 0, source: HeadSource::Noted }
    );
}

#[test]
fn an_end_that_was_cut_off_shows_only_against_a_published_head() {
    let keep = Keep::new();
    fs::write(keep.path(ACTIVE), &keep.lines[8]).unwrap();
    assert_eq!(keep.faults().count, 0);
    assert_eq!(keep.verify_against(vec![keep.head(9)]).faults.count, 0);
    let faults = keep.verify_against(vec![keep.head(12)]).faults;
    assert_eq!(
        faults.described[0].problem,
        Problem::HeadCutOff { seq: 12, last: 9, source: HeadSource::Published }
    );
    let other = Head { hash: "ab".repeat(32), seq: 3 };
    assert_eq!(
        keep.verify_against(vec![other]).faults.described[0].problem,
        Problem::HeadOther { seq: 3, source: HeadSource::Published }
    );
}

#[test]
fn an_end_that_was_cut_off_shows_against_a_head_that_an_engine_has_seen() {
    let keep = Keep::new();
    let log = Log::Dir(keep.dir.path().to_owned());
    let against = |seq| {
        let heads = [GivenHead::witnessed(keep.head(seq))];
        verify(&log, &heads, true, &mut |_, _| {}).unwrap()
    };
    let whole = against(12);
    assert_eq!((whole.faults.count, whole.witnessed[0].state), (0, HeadState::Found));
    assert_eq!(whole.published, [], "what an engine has seen was not published");
    fs::write(keep.path(ACTIVE), &keep.lines[8]).unwrap();
    let cut = against(12).faults;
    let source = HeadSource::Witnessed;
    assert_eq!(cut.described[0].problem, Problem::HeadCutOff { seq: 12, last: 9, source });
    assert_eq!(
        cut.described[0].to_string(),
        "cut off: the log ends with line 9, and line 12 was seen by the shared engine"
    );
}

#[test]
fn what_retention_removed_is_accounted_for_by_its_line_and_nothing_else() {
    let mut head = Head::genesis();
    let mut lines: Vec<_> =
        (1..=8).map(|seq| sealed(&mut head, Content::Record(Box::new(record(seq))))).collect();
    let (_, last_hash) = split(lines[3].trim_end().as_bytes()).unwrap();
    let pruned = |last_hash: &str, last_seq| {
        let prev = String::new();
        let pruned = Pruned {
            event: PrunedEvent::It,
            last_hash: last_hash.into(),
            last_seq,
            node: None,
            prev,
            seq: 0,
            time: NOON,
        };
        Content::Notice(Notice::Pruned(pruned))
    };
    // The last: a crash has kept it from removing all that it says.
    let other = &*"ab".repeat(32);
    for (hash, seq, faults) in [(last_hash, 4, 0), (last_hash, 3, 1), (other, 4, 1), (other, 8, 0)]
    {
        let mut lines = lines.clone();
        lines.push(sealed(&mut head.clone(), pruned(hash, seq)));
        let keep = Keep::of(lines);
        assert_eq!(keep.faults().count, 0, "nothing is missing yet");
        fs::remove_file(keep.path(FIRST)).unwrap();
        let findings = keep.verify_against(vec![keep.head(2), keep.head(4)]);
        assert_eq!(
            (findings.faults.count, findings.notices.pruned),
            (faults, 1),
            "{:?}",
            findings.faults
        );
    }
    lines.truncate(8);
    let keep = Keep::of(lines);
    fs::remove_file(keep.path(FIRST)).unwrap();
    assert_eq!(keep.faults().described[0].problem, Problem::BeginningMissing { last: 4 });
}

#[test]
fn what_retention_removes_while_one_reads_is_no_fault() {
    let mut head = Head::genesis();
    let mut lines: Vec<_> =
        (1..=8).map(|seq| sealed(&mut head, Content::Record(Box::new(record(seq))))).collect();
    let pruned = Pruned {
        event: PrunedEvent::It,
        last_hash: head.hash.clone(),
        last_seq: 8,
        node: None,
        prev: String::new(),
        seq: 0,
        time: NOON,
    };
    lines.push(sealed(&mut head, Content::Notice(Notice::Pruned(pruned))));
    let keep = Keep::of(lines);
    let log = Log::Dir(keep.dir.path().to_owned());
    let verify = |mut meanwhile: &dyn Fn()| {
        verify(&log, &[], true, &mut |_, _| std::mem::replace(&mut meanwhile, &|| ())()).unwrap()
    };
    // Not from the beginning, so not by retention.
    let second = fs::read(keep.path(SECOND)).unwrap();
    assert_eq!(verify(&|| fs::remove_file(keep.path(SECOND)).unwrap()).faults.count, 1);
    fs::write(keep.path(SECOND), second).unwrap();
    // While the first is read.
    let findings = verify(&|| {
        [FIRST, SECOND].iter().for_each(|name| fs::remove_file(keep.path(name)).unwrap())
    });
    assert_eq!((findings.faults, findings.lines), (Faults::default(), 1));
}

#[test]
fn lines_of_the_log_itself_are_told_and_unknown_ones_are_no_fault() {
    let mut head = Head::genesis();
    let gap = Gap {
        event: GapEvent::It,
        lost: 7,
        node: None,
        prev: String::new(),
        seq: 0,
        since: NOON,
        time: NOON,
        why: "full".into(),
    };
    let mut lines = vec![sealed(&mut head, Content::Notice(Notice::Gap(gap)))];
    // As a later version might write it.
    let canonical = format!("{{\"event\":\"moved\",\"prev\":\"{}\",\"seq\":2", head.hash);
    let hash = sha256_hex(format!("{canonical}}}").as_bytes());
    lines.push(format!("{canonical},\"hash\":\"{hash}\"}}\n"));
    let mut head = Head { hash, seq: 2 };
    lines.push(sealed(&mut head, Content::Record(Box::new(record(3)))));
    let findings = Keep::of(lines).verify_against(Vec::new());
    assert_eq!(findings.faults, Faults::default());
    assert_eq!((findings.notices.gaps, findings.notices.lost, findings.notices.unknown), (1, 7, 1));
}

#[test]
fn an_impossible_number_is_a_fault_with_the_right_hash() {
    let mut head = Head { seq: RECORD_SEQ_MAX, ..Head::genesis() };
    let mut lines = Keep::new().lines;
    lines.push(sealed(&mut head, Content::Record(Box::new(record(1)))));
    let said = Keep::of(lines).said();
    assert!(
        said.len() == 1 && said[0].contains(&format!("number {}", RECORD_SEQ_MAX + 1)),
        "{said:?}"
    );
}

#[test]
fn a_line_that_is_not_canonical_is_a_fault_though_its_hash_is_right() {
    let mut head = Head::genesis();
    let mut lines = vec![sealed(&mut head, Content::Record(Box::new(record(1))))];
    let (canonical, _) = split(lines[0].trim_end().as_bytes()).unwrap();
    let spaced = String::from_utf8(canonical.to_vec()).unwrap().replacen("\":", "\": ", 1);
    let hash = sha256_hex(format!("{spaced}}}").as_bytes());
    lines[0] = format!("{spaced},\"hash\":\"{hash}\"}}\n");
    let faults = Keep::of(lines).faults();
    assert_eq!(
        faults.described.iter().map(|fault| &fault.problem).collect::<Vec<_>>(),
        [&Problem::NotCanonical]
    );
}

#[test]
fn an_end_without_a_line_end_is_torn_unless_somebody_is_writing_it() {
    let keep = Keep::new();
    let whole = keep.lines[8..].concat();
    fs::write(keep.path(ACTIVE), &whole[..whole.len() - 30]).unwrap();
    assert!(keep.said()[0].starts_with("denials.jsonl:4: torn: "), "{:?}", keep.said());
    let lock = fs::File::create(keep.path("lock")).unwrap();
    lock.lock().unwrap();
    let findings = keep.verify_against(Vec::new());
    assert_eq!(findings.faults.count, 0);
    assert!(findings.unfinished.is_some());
    // Elsewhere no proxy is writing.
    let second = keep.lines[4..8].concat();
    fs::write(keep.path(SECOND), &second[..second.len() - 30]).unwrap();
    assert!(
        keep.said()[0].starts_with("denials-000000000005.jsonl:4: torn: "),
        "{:?}",
        keep.said()
    );
}

#[test]
fn evidence_that_is_missing_or_of_something_else_is_told_once() {
    let keep = Keep::new();
    let blob_store = BlobStore::of(keep.dir.path());
    fs::remove_file(blob_store.path(Kind::File, &hex(&file(1).sha256))).unwrap();
    let said = keep.said();
    assert!(said.len() == 1 && said[0].contains("jsonl.gz:1: number 1"), "{said:?}");
    assert!(said[0].contains("its evidence is missing: evidence/"), "{said:?}");
    let mut record = record(2);
    record.robots.as_mut().unwrap().capture = Some(hex(&capture(1).sha256));
    let keep = Keep::of(vec![sealed(&mut Head::genesis(), Content::Record(Box::new(record)))]);
    assert!(keep.said()[0].ends_with("the capture tells of another file"), "{:?}", keep.said());
}

#[test]
fn no_more_faults_are_described_than_one_can_read_and_all_are_counted() {
    let mut head = Head::genesis();
    let mut lines: Vec<_> =
        (1..=100).map(|seq| sealed(&mut head, Content::Record(Box::new(record(seq))))).collect();
    // A file without a single good line is reported as a whole.
    for line in lines.iter_mut().filter(|line| !line.contains("\"seq\":9,")) {
        *line = line.replace("ExampleBot/1.0", "Other/1.0");
    }
    let faults = Keep::of(lines).faults();
    assert_eq!((faults.count, faults.described.len()), (99, crate::audit::FAULTS_DESCRIBED_MAX));
}

/// Changes one byte of a file; the first fault must name that file. The bytes in the head of a compressed file that
/// say nothing of its content are a note.
#[track_caller]
fn a_change_shows(keep: &Keep, path: &Path, at: prop::sample::Index, mask: u8) {
    let original = fs::read(path).unwrap();
    let mut changed = original.clone();
    changed[at.index(original.len())] ^= mask;
    fs::write(path, &changed).unwrap();
    let Findings { faults, notes, .. } = keep.verify_against(Vec::new());
    fs::write(path, &original).unwrap();
    let at = at.index(original.len());
    let is_head = original.starts_with(&[0x1f, 0x8b]) && at < 10;
    let first = faults.described.first().map(ToString::to_string);
    let first =
        first.or_else(|| notes.described.first().filter(|_| is_head).map(ToString::to_string));
    let first = first.unwrap_or_else(|| panic!("{} at {at} ^ {mask}: holds", path.display()));
    assert!(
        first.contains(&path.display().to_string()),
        "{} at {at} ^ {mask}: {first}",
        path.display()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_changed_byte_anywhere_is_found_and_its_file_named(at: prop::sample::Index, mask in 1..=255u8) {
        thread_local!(static KEEP: Keep = Keep::new());
        KEEP.with(|keep| {
            a_change_shows(keep, &keep.path(SECOND), at, mask);
            a_change_shows(keep, &keep.path(ACTIVE), at, mask);
            // Whole bytes: up to seven bits behind the end of a compressed text mean nothing.
            a_change_shows(keep, &keep.path(FIRST), at, 0xff);
            let blob_store = BlobStore::of(keep.dir.path());
            a_change_shows(keep, &blob_store.path(Kind::File, &hex(&file(1).sha256)), at, 0xff);
            a_change_shows(keep, &blob_store.path(Kind::Capture, &hex(&capture(0).sha256)), at, 0xff);
        });
    }
}

proptest! {
    /// Whatever lines are left out, it is they that are missing; only the end can be left out unseen.
    #[test]
    fn exactly_the_lines_that_were_removed_are_missing(removed in prop::collection::btree_set(2..12u64, 0..6)) {
        let keep = Keep::new();
        let all = |seq: &u64| !removed.contains(seq);
        let kept: String = (1..=12).filter(all).map(|seq| &*keep.lines[seq as usize - 1]).collect();
        let path = keep.path("some.jsonl");
        fs::write(&path, kept).unwrap();
        let findings = verify(&Log::Files(vec![path]), &[], false, &mut |_, _| {}).unwrap();
        let missing: Vec<u64> = findings.faults.described.iter().flat_map(|fault| match fault.problem {
            Problem::Missing { first, last, .. } => first..=last,
            ref other => panic!("{other}"),
        }).collect();
        prop_assert_eq!(missing, removed.into_iter().collect::<Vec<_>>());
    }
}

/// The time so many minutes after noon.
fn minute(minute: u64) -> Timestamp {
    Timestamp::from_millis(NOON.millis() + minute * 60_000)
}

fn started(node: &str, keeps: Option<&Blob>) -> Content {
    let settings = keeps.map(|blob| hex(&blob.sha256));
    Content::Notice(Notice::Started(Started {
        changes: None,
        digest: settings.clone().unwrap_or_default(),
        event: StartedEvent::It,
        exemptions: Vec::new(),
        exemptions_omitted: 0,
        how: StartMode::Serve,
        key: None,
        log: None,
        node: Some(node.into()),
        prev: String::new(),
        profile_version: 2,
        program: None,
        seq: 0,
        settings,
        time: NOON,
        version: "0.1.0".into(),
    }))
}

fn reloaded(node: &str, keeps: &Blob) -> Content {
    let digest = hex(&keeps.sha256);
    Content::Notice(Notice::SettingsChanged(SettingsChanged {
        changes: Vec::new(),
        contents: Vec::new(),
        digest: digest.clone(),
        event: SettingsEvent::It,
        node: Some(node.into()),
        omitted: None,
        prev: String::new(),
        seq: 0,
        settings: Some(digest),
        time: NOON,
        who: ReloadTrigger::Hup,
    }))
}

fn stopped() -> Content {
    let (event, prev, why) = (StoppedEvent::It, String::new(), "SIGTERM".into());
    Content::Notice(Notice::Stopped(Stopped { event, node: None, prev, seq: 0, time: NOON, why }))
}

/// Counts of these minutes.
fn counts<E: Default>(since: u64, until: u64, allowed: u64) -> Totals<E> {
    Totals {
        allowed,
        by_host: 0,
        by_parent: 0,
        by_path: allowed,
        denied: 0,
        event: E::default(),
        node: None,
        paced: 0,
        prev: String::new(),
        recorded: None,
        resting: 0,
        seq: 0,
        since: minute(since),
        time: minute(until),
        waited_ms: 0,
    }
}

fn totals(since: u64, until: u64, allowed: u64) -> Content {
    Content::Notice(Notice::Totals(counts(since, until, allowed)))
}

fn pulse(since: u64, until: u64, allowed: u64) -> Content {
    Content::Notice(Notice::Pulse(counts(since, until, allowed)))
}

fn denied(node: &str) -> Content {
    Content::Record(Box::new(Record { node: Some(node.into()), ..record(1) }))
}

fn removed() -> Content {
    let (event, last_hash, prev) = (PrunedEvent::It, "0".repeat(64), String::new());
    let pruned = Pruned { event, last_hash, last_seq: 0, node: None, prev, seq: 0, time: NOON };
    Content::Notice(Notice::Pruned(pruned))
}

fn settings(retain: &str) -> Blob {
    let text = format!("{{\"audit.retain\":\"{retain}\",\"audit.retain_size\":\"unlimited\"}}");
    let sha256 = digest(&sha256_hex(text.as_bytes())).unwrap();
    Blob { sha256, kind: Kind::Settings, content: text.into() }
}

/// What no hash shows, and what looks like it and is honest.
#[test]
fn what_a_proxy_never_writes_is_noted_and_nothing_else() {
    let (forever, month) = (settings("forever"), settings("30d"));
    let twice = denied("a");
    let late = |millis: u64| {
        let id = crate::audit::new_id(Timestamp::from_millis(NOON.millis() + millis));
        Content::Record(Box::new(Record { id, node: Some("a".into()), ..record(1) }))
    };
    let whole = |lines: Vec<Content>| {
        let ends = [started("a", Some(&forever)), stopped()];
        let [first, last] = ends;
        [vec![first], lines, vec![last]].concat()
    };
    let both = [started("a", None), denied("a"), stopped()];
    let anew = [&both[..], &both[..1], &[denied("a"), stopped()]].concat();
    for (lines, expected) in [
        (whole(vec![denied("a"), pulse(0, 5, 1), pulse(0, 10, 3), totals(0, 60, 3)]), None),
        (whole(vec![totals(0, 60, 3), totals(60, 120, 0), pulse(120, 125, 1)]), None),
        (anew, None),
        // A reload gives another name; what was under way at that moment has it before.
        (whole(vec![denied("a"), denied("b"), reloaded("b", &forever), denied("b")]), None),
        // Retention does not wait for the line that says why.
        (whole(vec![removed(), reloaded("a", &month), removed()]), None),
        ([whole(vec![]), vec![removed(), started("a", Some(&month)), stopped()]].concat(), None),
        (whole(vec![late(30_000)]), None),
        ([whole(vec![]), vec![denied("a")]].concat(), Some("a record behind the end of the proxy")),
        (vec![started("a", None), denied("a")], Some("the log ends here without stopped")),
        (whole(vec![denied("b")]), Some("it names the proxy b, and a was started")),
        (
            whole(vec![twice.clone(), denied("a"), twice]),
            Some("a record before it has the same id"),
        ),
        (
            whole(vec![late(120_000)]),
            Some(
                "its time is 2026-11-20T12:00:00.124000Z, and its id was made at 2026-11-20T12:02:00.123000Z",
            ),
        ),
        (
            whole(vec![totals(0, 60, 3), totals(120, 180, 0)]),
            Some(
                "totals since 2026-11-20T14:00:00.123000Z, and those before it end at 2026-11-20T13:00:00.123000Z",
            ),
        ),
        (whole(vec![pulse(0, 5, 3), pulse(0, 10, 2)]), Some("totals that are less")),
        (whole(vec![pulse(0, 5, 3), totals(0, 60, 2)]), Some("totals that are less")),
        (whole(vec![removed()]), Some("retention is said to have removed lines, and the settings")),
    ] {
        let mut head = Head::genesis();
        let keep = Keep::of(lines.into_iter().map(|content| sealed(&mut head, content)).collect());
        let blob_store = BlobStore::of(keep.dir.path());
        [&forever, &month].iter().for_each(|blob| blob_store.put(blob).unwrap());
        let findings = keep.verify_against(Vec::new());
        assert_eq!(findings.faults, Faults::default());
        let odd =
            findings.notes.described.iter().filter(|it| matches!(it.what, Unusual::Odd { .. }));
        let notes: Vec<_> = odd.map(|note| note.what.to_string()).collect();
        match expected {
            None => assert_eq!(notes, [""; 0]),
            Some(expected) => {
                assert!(
                    notes.len() == 1 && notes[0].starts_with(expected),
                    "{expected}: {notes:?}"
                );
            }
        }
    }
}

#[test]
fn a_line_of_retention_is_held_against_the_head_of_the_line_that_it_names() {
    let last = Head { hash: "ab".repeat(32), seq: 4 };
    let mut head = last.clone();
    let pruned = |last_hash: &str| {
        let (event, last_hash, prev) = (PrunedEvent::It, last_hash.to_owned(), String::new());
        let pruned = Pruned { event, last_hash, last_seq: 4, node: None, prev, seq: 0, time: NOON };
        Content::Notice(Notice::Pruned(pruned))
    };
    let lines = [pruned(&last.hash), Content::Record(Box::new(record(1)))];
    let keep = Keep::of(lines.into_iter().map(|content| sealed(&mut head, content)).collect());
    fs::rename(keep.path(FIRST), keep.path("denials-000000000005.jsonl.gz")).unwrap();
    fs::remove_file(keep.path(SECOND)).unwrap();
    fs::remove_file(keep.path(ACTIVE)).unwrap();
    assert_eq!(keep.verify_against(vec![last]).faults, Faults::default());
    let other = keep.verify_against(vec![Head { hash: "cd".repeat(32), seq: 4 }]);
    assert_eq!(other.faults.count, 1, "{other:?}");
    assert!(other.faults.described[0].to_string().starts_with("another history: line 4"));
}
