//! A log that cannot be written, for its disk is full or its directory away: what is lost is counted,
//! said, and written down as soon as it can be.

use std::path::PathBuf;

use super::*;

/// A log on a disk that is full.
fn full_disk(dir: &Path) -> Writer {
    std::os::unix::fs::symlink("/dev/full", dir.join(FILE_NAME)).unwrap();
    open(dir).unwrap()
}

/// A log that can be made to fail, and to heal.
pub(super) struct Movable {
    pub state: tempfile::TempDir,
    pub dir: PathBuf,
}

impl Movable {
    pub fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("audit");
        std::fs::create_dir(&dir).unwrap();
        Self { state, dir }
    }

    fn aside(&self) -> PathBuf {
        self.state.path().join("aside")
    }

    /// Nothing can be written from now on.
    #[track_caller]
    pub fn move_away(&self, writer: &Writer) {
        std::fs::rename(&self.dir, self.aside()).unwrap();
        until("it is noticed without traffic", || writer.health().failing.is_some());
    }

    pub fn move_back(&self) {
        std::fs::rename(self.aside(), &self.dir).unwrap();
    }
}

/// A log that cannot be written, whose directory can be moved back.
pub(super) fn away(edit: impl FnOnce(&mut Config)) -> (Movable, Writer) {
    let log = Movable::new();
    let writer = open_with(&log.dir, edit).unwrap();
    log.move_away(&writer);
    (log, writer)
}

#[track_caller]
fn lose(writer: &Writer) {
    let error = block_on(writer.write(minimal(), Vec::new())).unwrap_err();
    assert!(error.to_string().starts_with("the denial record could not be written: "), "{error}");
}

fn gap(content: &Content) -> &Gap {
    match content {
        Content::Notice(Notice::Gap(gap)) => gap,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_is_an_error_for_each_and_the_next_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let writer = full_disk(dir.path());
    for lost in 1..=2 {
        lose(&writer);
        let health = writer.health();
        assert_eq!((health.written, health.lost, health.head.seq), (0, lost, 0));
        assert!(health.errors >= lost);
        assert!(health.failing.unwrap().starts_with("cannot write denial records: to "));
        assert!(!writer.is_stopped());
    }
}

#[test]
fn what_was_lost_is_the_next_line_without_any_traffic() {
    let (log, writer) = away(|_| {});
    lose(&writer);
    lose(&writer);
    log.move_back();
    until("it heals", || writer.health().failing.is_none());
    assert_eq!(write(&writer), 2);
    let chain = chain(&log.dir);
    let gap = gap(&chain[0]);
    assert_eq!((gap.lost, gap.since, gap.time), (2, NOON, NOON));
    assert!(gap.why.contains("has been moved away"), "{}", gap.why);
    assert_eq!(chain.len(), 2);
    let health = writer.health();
    assert_eq!((health.written, health.lost), (1, 2));
}

#[test]
fn what_was_lost_is_said_at_the_end_if_not_before() {
    let (log, writer) = away(|_| {});
    lose(&writer);
    log.move_back();
    drop(writer);
    assert_eq!(gap(&chain(&log.dir)[0]).lost, 1);
}

#[test]
fn what_was_lost_stands_before_the_next_record() {
    let (log, clock) = (Movable::new(), ManualClock::starting_at(NOON));
    let writer = open_at(&log.dir, clock.clone(), |_| {}).unwrap();
    log.move_away(&writer);
    lose(&writer);
    clock.advance(std::time::Duration::from_secs(60));
    lose(&writer);
    log.move_back();
    assert_eq!(write(&writer), 2);
    let chain = chain(&log.dir);
    let gap = gap(&chain[0]);
    assert_eq!((gap.lost, gap.since), (2, NOON));
    assert_eq!(gap.time.since(NOON).as_secs(), 60);
    assert!(matches!(chain[1], Content::Record(_)));
}

#[test]
fn whoever_wants_no_denial_without_a_record_is_stopped_until_it_heals() {
    let log = Movable::new();
    let writer = open_with(&log.dir, |config| config.on_failure = OnFailure::Stop).unwrap();
    assert!(!writer.is_stopped(), "nothing has failed yet");
    log.move_away(&writer);
    lose(&writer);
    assert!(writer.is_stopped());
    log.move_back();
    until("it heals", || !writer.is_stopped());
    assert_eq!(gap(&chain(&log.dir)[0]).lost, 1);
}

#[test]
fn a_notice_that_cannot_be_written_is_no_lost_record() {
    let (log, writer) = away(|_| {});
    let (prev, seq, since, time) = (String::new(), 0, NOON, NOON);
    let (allowed, denied, by_path, by_host) = (3, 0, 3, 0);
    let (event, node, recorded) = (TotalsEvent::It, None, None);
    let (paced, resting, waited_ms) = (0, 0, 0);
    let totals = Totals {
        allowed,
        by_host,
        by_parent: 0,
        by_path,
        denied,
        event,
        node,
        paced,
        prev,
        recorded,
        resting,
        seq,
        since,
        time,
        waited_ms,
    };
    block_on(writer.note(Notice::Totals(totals))).unwrap_err();
    let health = writer.health();
    assert_eq!(health.lost, 0);
    assert!(health.failing.is_some());
    log.move_back();
    until("it heals", || writer.health().failing.is_none());
    assert_eq!(gap(&chain(&log.dir)[0]).lost, 0);
}

#[test]
fn half_a_line_is_taken_away_when_the_disk_is_full() {
    use std::io::{ErrorKind, Write};
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        crate::audit::write::active_file::ActiveFile::open(
            &dir.path().join(FILE_NAME),
            &dir.path().join("denials.torn"),
        )
    };
    let (mut journal, _) = open().unwrap();
    journal.append(b"one\n", true).unwrap();
    let full = journal.append_with(b"two\n", |file, lines| {
        file.write_all(&lines[..2])?;
        Err(ErrorKind::StorageFull.into())
    });
    assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(std::fs::read(journal.path()).unwrap(), b"one\n");
    journal.append(b"three\n", false).unwrap();
    assert_eq!(std::fs::read(journal.path()).unwrap(), b"one\nthree\n");
}

#[test]
fn a_file_without_any_record_is_set_aside_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE_NAME), "not\na record").unwrap();
    drop(open(dir.path()).unwrap());
    assert!(matches!(
        chain(dir.path())[..],
        [Content::Notice(Notice::Torn(Torn { bytes: 12, .. }))]
    ));
    assert_eq!(std::fs::read(dir.path().join("denials.torn")).unwrap(), b"not\na record\n");
}

#[test]
fn records_from_before_there_was_a_chain_are_set_aside_whole_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let (file, aside) = (dir.path().join(FILE_NAME), dir.path().join("older.jsonl"));
    let older = "{\"id\":\"01J9ZZZZZZZZZZZZZZZZZZZZZZ\",\"seq\":1}\n{\"id\":\"01J9";
    std::fs::write(&file, older).unwrap();
    drop(open(dir.path()).unwrap());
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), older);
    assert_eq!(chain(dir.path()), []);
    std::fs::write(&file, older).unwrap();
    let OpenError::Io { source, .. } = open(dir.path()).unwrap_err() else { panic!() };
    assert!(source.to_string().ends_with("is there already; move one of them away"), "{source}");
    assert_eq!([&file, &aside].map(|file| std::fs::read_to_string(file).unwrap()), [older; 2]);
}

#[test]
fn a_long_file_that_ends_in_no_record_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bytes =
        vec![
            b'\n';
            usize::try_from(crate::audit::write::active_file::RECORD_TAIL_BYTES_MAX).unwrap() + 1
        ];
    std::fs::write(dir.path().join(FILE_NAME), &bytes).unwrap();
    let OpenError::Io { source, .. } = open(dir.path()).unwrap_err() else { panic!() };
    assert!(source.to_string().ends_with("move it away to begin another"), "{source}");
    assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), bytes);
}
