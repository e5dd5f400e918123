use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn many_threads_and_runtimes_write_whole_lines_in_one_sequence() {
    const THREADS: u64 = 8;
    const EACH: u64 = 200;
    let dir = tempfile::tempdir().unwrap();
    let writer = Arc::new(open(dir.path()).unwrap());
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let writer = writer.clone();
            std::thread::spawn(move || {
                block_on(async {
                    for _ in 0..EACH {
                        writer.write(full(), Vec::new()).await.unwrap();
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(seqs(dir.path()), (1..=THREADS * EACH).collect::<Vec<_>>());
    let health = writer.health();
    assert_eq!((health.written, health.head.seq), (THREADS * EACH, THREADS * EACH));
    assert_eq!((health.errors, health.lost, health.failing), (0, 0, None));
    assert_eq!(health.bytes, dir.path().join(FILE_NAME).metadata().unwrap().len());
    chain(dir.path());
}

#[test]
fn a_record_is_in_the_file_when_write_returns() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    let written = write(&writer);
    assert_eq!(seqs(dir.path()), [written]);
}

#[test]
fn the_sequence_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for expected in 1..=3 {
        let writer = open(dir.path()).unwrap();
        assert_eq!(write(&writer), expected);
    }
    assert_eq!(seqs(dir.path()), [1, 2, 3]);
}

#[test]
fn a_torn_last_line_is_set_aside_and_the_next_line_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("denials.jsonl");
    let whole = record::line(minimal()) + "\n";
    for torn in [&whole[..whole.len() - 1], "{\"id\":", "\0\0\0\n\0\0"] {
        std::fs::write(&file, format!("{whole}{torn}")).unwrap();
        let writer = open(dir.path()).unwrap();
        assert_eq!(write(&writer), 9, "{torn:?}");
        let aside = std::fs::read_to_string(dir.path().join("denials.torn")).unwrap();
        assert!(aside.ends_with(&format!("{torn}\n")), "{aside:?}");
        let found = contents(&file);
        let Content::Notice(Notice::Torn(notice)) = &found[1] else { panic!("{found:?}") };
        let bytes = (torn.len() as u64, crate::types::sanitize::sha256_hex(torn.as_bytes()));
        assert_eq!((notice.bytes, notice.sha256.clone(), notice.time), (bytes.0, bytes.1, NOON));
        assert_eq!(seqs(dir.path()), [7, 8, 9], "{torn:?}");
        drop(writer);
        std::fs::remove_file(dir.path().join(HEAD_NAME)).unwrap();
    }
}

#[test]
fn a_directory_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let second = open(dir.path()).unwrap_err();
    assert_eq!(second.to_string(), format!("another courtesy uses {}", dir.path().display()));
    drop(first);
    assert!(open(dir.path()).is_ok());
}

#[test]
fn who_asks_whether_one_is_writing_keeps_none_from_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                is_written(dir.path());
            }
        });
        // The guard ends the thread whatever happens: a scope waits for it.
        let _over = Over(&is_over);
        for _ in 0..100 {
            let writer = open(dir.path()).unwrap();
            assert!(is_written(dir.path()));
            drop(writer);
        }
    });
    assert!(!is_written(dir.path()));
}

/// Says so when dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nobody_else_can_read_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("state/audit");
    drop(open(&audit).unwrap());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&audit), 0o700);
    assert_eq!(mode(&audit.join("denials.jsonl")), 0o600);
}

/// The descriptor of a device that takes everything can be written to, and cannot be synced.
#[test]
fn the_disk_is_asked_before_the_answer_soon_after_it_or_not_at_all() {
    let writer = |sync| {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join(FILE_NAME)).unwrap();
        let writer = open_with(dir.path(), |config| config.sync = sync).unwrap();
        (writer, dir)
    };
    let (each, _dir) = writer(Sync::Each);
    block_on(each.write(minimal(), Vec::new())).unwrap_err();
    assert_eq!((each.health().written, each.health().lost), (0, 1));

    let (batch, _dir) = writer(Sync::Batch);
    write(&batch);
    until("the disk is asked", || batch.health().failing.is_some());
    let failing = batch.health().failing.unwrap();
    assert!(failing.starts_with("cannot bring denial records to the disk: in "), "{failing}");
    assert_eq!((batch.health().written, batch.health().lost), (1, 0));

    let (none, dir) = writer(Sync::None);
    write(&none);
    until("the head is written down", || read_head(dir.path()).unwrap().is_some());
    assert_eq!(none.health().failing, None);
}

#[test]
fn the_head_is_written_down_soon_after_the_line_and_at_the_end() {
    for sync in [Sync::Each, Sync::Batch, Sync::None] {
        let dir = tempfile::tempdir().unwrap();
        let writer = open_with(dir.path(), |config| config.sync = sync).unwrap();
        write(&writer);
        let head = |dir: &Path| read_head(dir).unwrap();
        until("the head is written down", || {
            head(dir.path()).is_some_and(|(head, _)| head.seq == 1)
        });
        write(&writer);
        let last = writer.health().head;
        drop(writer);
        assert_eq!(head(dir.path()), Some((last, NOON)));
        let mode = dir.path().join(HEAD_NAME).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }
}

#[test]
fn every_line_names_its_proxy_from_the_settings_on_that_say_so() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(&open(dir.path()).unwrap()), 1);
    let named = |name: &str| {
        let mut config = Config::new(dir.path().to_owned());
        config.node = Some(name.into());
        config
    };
    let writer = Writer::open(named("crawler-3"), ManualClock::starting_at(NOON)).unwrap();
    write(&writer);
    let (event, node, bytes, prev, sha256) = (TornEvent::It, None, 1, String::new(), String::new());
    let torn = Torn { event, node, bytes, prev, seq: 0, sha256, time: NOON };
    block_on(writer.note(Notice::Torn(torn))).unwrap();
    writer.change(named("crawler-4")).unwrap();
    write(&writer);
    drop(writer);
    let nodes: Vec<_> =
        chain(dir.path()).iter().map(|line| line.node().map(ToString::to_string)).collect();
    let expected = [None, Some("crawler-3"), Some("crawler-3"), Some("crawler-4")];
    assert_eq!(nodes, expected.map(|name| name.map(str::to_owned)));
}
