use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::limits::{RECORD_LINE_OCTETS_MAX, RECORD_URL_OCTETS_MAX};
use crate::moment::Moment;

const NOON: Moment = Moment::from_millis(1_795_176_000_123);

fn minimal() -> Record {
    Record {
        prev: String::new(),
        seq: 0,
        id: "01J9ZZZZZZZZZZZZZZZZZZZZZZ".into(),
        time: NOON,
        event: Event::Denied,
        reason: Reason::AgentRequired,
        client: Client { address: [127, 0, 0, 1].into(), name: None },
        method: "GET".into(),
        url: Record::url(b"http://example.com/"),
        origin: "http://example.com".into(),
        user_agent: None,
        agent: None,
        agent_source: AgentSource::Absent,
        profile: Profile { name: "rfc9309".into(), version: 1, settings: BTreeMap::new() },
        group: None,
        rule: None,
        robots: None,
        exemption: None,
        path_seen: true,
    }
}

fn full() -> Record {
    Record {
        event: Event::Exempted,
        reason: Reason::DisallowRule,
        url: Record::url(b"http://example.com/private/a?q=\xff"),
        user_agent: Some(Record::text(b"ExampleBot/1.0 (\"\x1b\\\xff)")),
        agent: Some("ExampleBot".into()),
        agent_source: AgentSource::UserAgent,
        group: Some(Group { token: "examplebot".into(), line: 10 }),
        rule: Some(Rule { line: 12, directive: "disallow".into(), pattern: Record::pattern(b"/private/") }),
        robots: Some(Robots {
            capture: Some(crate::text::sha256_hex(b"{}")),
            confirmed_at: Some(NOON),
            cut: false,
            failed_capture: None,
            failures: None,
            result: Some("successful".into()),
            site_up: None,
            tried: Some(NOON),
            url: "http://example.com/robots.txt".into(),
            url_reached: Some("http://www.example.com/robots.txt".into()),
            status: Some(200),
            sha256: Some(crate::text::sha256_hex(b"")),
            fetched_at: Some(NOON),
            state: RobotsStatus::Rules,
            cause: None,
            since: Some(NOON),
            next_try: None,
        }),
        exemption: Some(Exemption {
            by: "webmaster@example.com".into(),
            reason: "written permission".into(),
            ticket: Some("OPS-123".into()),
            until: NOON,
        }),
        ..minimal()
    }
}

/// As the seventh line.
fn line(record: Record) -> String {
    let mut lines = Vec::new();
    Head { hash: "0".repeat(64), seq: 6 }.push(Content::Record(Box::new(record)), &mut lines);
    String::from_utf8(lines).unwrap().trim_end().to_owned()
}

fn open(dir: &Path) -> Result<Writer, OpenError> {
    Writer::open(Config::new(dir.to_owned()), ManualClock::starting_at(NOON) as Arc<dyn Clock>)
}

#[test]
fn the_text_of_a_record_is_a_public_interface() {
    assert_eq!(line(minimal()), MINIMAL.concat());
    assert_eq!(line(full()), FULL.concat());
}

#[test]
fn a_record_reads_back_the_same() {
    for record in [minimal(), full()] {
        let read = Content::parse(line(record.clone()).as_bytes()).unwrap();
        let placed = Record { prev: "0".repeat(64), seq: 7, ..record };
        assert_eq!(read, Content::Record(Box::new(placed)));
    }
}

#[test]
fn ids_sort_by_time() {
    let later = Moment::from_millis(NOON.millis() + 1);
    assert!(new_id(NOON) < new_id(later));
    assert_ne!(new_id(NOON), new_id(NOON));
}

#[test]
fn what_strangers_write_is_bounded_and_says_so() {
    let mut url = b"http://example.com/".to_vec();
    url.resize(9000, b'a');
    let kept = Record::url(&url);
    let (text, mark) = kept.split_once('…').unwrap();
    assert_eq!(text.len(), RECORD_URL_OCTETS_MAX);
    assert_eq!(mark, format!("[9000 octets, sha256 {}]", crate::text::sha256_hex(&url)));
    // The bound holds for the escaped text, and cuts no character in two.
    assert!(Record::text(&[0xff; 2000]).contains("…[2000 octets"));
    assert!(Record::text("é".repeat(2000).as_bytes()).starts_with("éé"));
}

#[test]
fn a_line_has_a_bound_whatever_strangers_write() {
    let long = vec![b'"'; 100_000];
    let mut record = full();
    record.url = Record::url(&long);
    record.origin = Record::url(&long);
    record.user_agent = Some(Record::text(&long));
    record.agent = Some(Record::text(&long));
    record.method = Record::text(&long);
    record.group = Some(Group { token: Record::pattern(&long), line: 1 });
    record.rule = Some(Rule { line: 1, directive: "disallow".into(), pattern: Record::pattern(&long) });
    assert!(line(record).len() < RECORD_LINE_OCTETS_MAX);
}

#[test]
fn nothing_that_strangers_write_moves_a_cursor() {
    assert_eq!(Record::text("a\u{202e}b\u{9b}c\u{7f}".as_bytes()), r"a\xE2\x80\xAEb\xC2\x9Bc\x7F");
    assert_eq!(Record::text("é日本".as_bytes()), "é日本");
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
}

fn seqs(dir: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(dir.join("denials.jsonl")).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| Content::parse(line.as_bytes()).unwrap().seq()).collect()
}

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
    assert_eq!(writer.health(), Health { written: THREADS * EACH, errors: 0, failing: None });
}

#[test]
fn a_record_is_in_the_file_when_write_returns() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    let written = block_on(writer.write(minimal(), Vec::new())).unwrap();
    assert_eq!(seqs(dir.path()), [written.seq]);
}

#[test]
fn the_sequence_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for expected in 1..=3 {
        let writer = open(dir.path()).unwrap();
        assert_eq!(block_on(writer.write(minimal(), Vec::new())).unwrap(), Written { seq: expected });
    }
    assert_eq!(seqs(dir.path()), [1, 2, 3]);
}

#[test]
fn a_torn_last_line_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("denials.jsonl");
    let whole = line(minimal()) + "\n";
    for torn in [&whole[..whole.len() - 1], "{\"id\":", "\0\0\0\n\0\0"] {
        std::fs::write(&file, format!("{whole}{torn}")).unwrap();
        let writer = open(dir.path()).unwrap();
        assert_eq!(block_on(writer.write(minimal(), Vec::new())).unwrap(), Written { seq: 8 }, "{torn:?}");
        assert_eq!(seqs(dir.path()), [7, 8], "{torn:?}");
        let aside = std::fs::read_to_string(dir.path().join("denials.torn")).unwrap();
        assert!(aside.ends_with(&format!("{torn}\n")), "{aside:?}");
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
fn nobody_else_can_read_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("state/audit");
    drop(open(&audit).unwrap());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&audit), 0o700);
    assert_eq!(mode(&audit.join("denials.jsonl")), 0o600);
}

#[test]
fn a_full_disk_is_an_error_for_each_and_the_next_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("denials.jsonl");
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let writer = open(dir.path()).unwrap();
    for errors in 1..=2 {
        let error = block_on(writer.write(minimal(), Vec::new())).unwrap_err();
        assert!(error.to_string().starts_with("the denial record could not be written: "), "{error}");
        let health = writer.health();
        assert_eq!((health.written, health.errors), (0, errors));
        assert!(health.failing.is_some());
    }
}

const MINIMAL: &[&str] = &[
    r##"{"agent":null,"agent_source":"absent","client":{"address":"127.0.0.1","name":null},"event":"denied","##,
    r##""exemption":null,"group":null,"id":"01J9ZZZZZZZZZZZZZZZZZZZZZZ","method":"GET","##,
    r##""origin":"http://example.com","path_seen":true,"##,
    r##""prev":"0000000000000000000000000000000000000000000000000000000000000000","##,
    r##""profile":{"name":"rfc9309","settings":{},"version":1},"reason":"agent_required","robots":null,"##,
    r##""rule":null,"seq":7,"time":"2026-11-20T12:00:00.123000Z","url":"http://example.com/","##,
    r##""user_agent":null,"hash":"0ed4d34a9a6fc7c5310cfb55c8ceec1bb88bb46562490dac5e8bc8aa1d268353"}"##,
];
const FULL: &[&str] = &[
    r##"{"agent":"ExampleBot","agent_source":"user_agent","client":{"address":"127.0.0.1","name":null},"##,
    r##""event":"exempted","exemption":{"by":"webmaster@example.com","reason":"written permission","##,
    r##""ticket":"OPS-123","until":"2026-11-20T12:00:00.123000Z"},"group":{"line":10,"token":"examplebot"},"##,
    r##""id":"01J9ZZZZZZZZZZZZZZZZZZZZZZ","method":"GET","origin":"http://example.com","path_seen":true,"##,
    r##""prev":"0000000000000000000000000000000000000000000000000000000000000000","##,
    r##""profile":{"name":"rfc9309","settings":{},"version":1},"reason":"disallow_rule","##,
    r##""robots":{"capture":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","cause":null,"##,
    r##""confirmed_at":"2026-11-20T12:00:00.123000Z","cut":false,"failed_capture":null,"failures":null,"##,
    r##""fetched_at":"2026-11-20T12:00:00.123000Z","next_try":null,"result":"successful","##,
    r##""sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","##,
    r##""since":"2026-11-20T12:00:00.123000Z","site_up":null,"state":"rules","status":200,"##,
    r##""tried":"2026-11-20T12:00:00.123000Z","url":"http://example.com/robots.txt","##,
    r##""url_reached":"http://www.example.com/robots.txt"},"rule":{"directive":"disallow","line":12,"##,
    r##""pattern":"/private/"},"seq":7,"time":"2026-11-20T12:00:00.123000Z","##,
    r##""url":"http://example.com/private/a?q=%FF","user_agent":"ExampleBot/1.0 (\"\\x1B\\\\\\xFF)","##,
    r##""hash":"25e4cabc48d60bb89fd242a46ca1ff162180a750aedcc11c422b5eb8333a476b"}"##,
];
