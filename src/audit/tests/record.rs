use super::*;
use crate::audit::record::chain::RECORD_SEQ_MAX;
use crate::audit::{RECORD_LINE_BYTES_MAX, RECORD_URL_BYTES_MAX};
use crate::policy::decision::SelectedGroup;

/// As the seventh line.
pub(super) fn line(record: Record) -> String {
    let mut lines = Vec::new();
    Head { hash: "0".repeat(64), seq: 6 }.push(Content::Record(Box::new(record)), &mut lines);
    String::from_utf8(lines).unwrap().trim_end().to_owned()
}

#[test]
fn the_text_of_a_record_is_a_public_interface() {
    assert_eq!(line(minimal()), MINIMAL.concat());
    assert_eq!(line(full()), FULL.concat());
}

/// A record without one is what it was before there were any.
#[test]
fn a_record_with_a_trace_names_it_and_nothing_else_is_changed() {
    let unhashed = |line: String| line.rsplit_once(",\"hash\"").unwrap().0.to_owned();
    let traced = unhashed(line(traced()));
    let trace = r#""trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","#;
    assert!(
        traced.contains(&format!("Z\",{trace}\"url\":\"http://example.com/private/")),
        "{traced}"
    );
    assert_eq!(traced.replace(trace, ""), unhashed(FULL.concat()));
}

/// A record without one is what it was before there were any, and so is a notice.
#[test]
fn a_line_names_the_proxy_that_wrote_it_and_nothing_else_is_changed() {
    let unhashed = |line: String| line.rsplit_once(",\"hash\"").unwrap().0.to_owned();
    let named = unhashed(line(named()));
    let node = r#""node":"crawler-3","#;
    assert!(named.contains(&format!("\"method\":\"GET\",{node}\"origin\":")), "{named}");
    assert_eq!(named.replace(node, ""), unhashed(FULL.concat()));
}

fn named() -> Record {
    Record { node: Some("crawler-3".into()), ..full() }
}

fn traced() -> Record {
    Record { trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()), ..full() }
}

#[test]
fn a_record_reads_back_the_same() {
    for record in [minimal(), full(), traced(), named()] {
        let read = Content::parse(line(record.clone()).as_bytes()).unwrap();
        let placed = Record { prev: "0".repeat(64), seq: 7, ..record };
        assert_eq!(read, Content::Record(Box::new(placed)));
    }
}

#[test]
fn a_line_number_that_no_log_has_makes_no_line() {
    let numbered = |seq: u64| line(minimal()).replace("\"seq\":7", &format!("\"seq\":{seq}"));
    assert!(Content::parse(numbered(RECORD_SEQ_MAX).as_bytes()).is_ok());
    for seq in [0, RECORD_SEQ_MAX + 1, u64::MAX] {
        let error = Content::parse(numbered(seq).as_bytes()).unwrap_err();
        assert!(error.to_string().contains(&format!("number {seq}")), "{error}");
    }
}

#[test]
fn ids_sort_by_time() {
    let later = Timestamp::from_millis(NOON.millis() + 1);
    assert!(new_id(NOON) < new_id(later));
    assert_ne!(new_id(NOON), new_id(NOON));
}

#[test]
fn what_strangers_write_is_bounded_and_says_so() {
    let mut url = b"http://example.com/".to_vec();
    url.resize(9000, b'a');
    let kept = Record::url(&url);
    let (text, mark) = kept.split_once('…').unwrap();
    assert_eq!(text.len(), RECORD_URL_BYTES_MAX);
    assert_eq!(mark, format!("[9000 octets, sha256 {}]", crate::types::sanitize::sha256_hex(&url)));
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
    let name = "a".repeat(100_000);
    record.group = Some(Group::of(&SelectedGroup { name: &name, line: 1 }));
    record.rule = Some(Rule {
        line: 1,
        directive: "disallow".into(),
        pattern: Record::pattern(&long),
        read_as: Vec::new(),
    });
    assert!(line(record).len() < RECORD_LINE_BYTES_MAX);
}

#[test]
fn nothing_that_strangers_write_moves_a_cursor() {
    assert_eq!(Record::text("a\u{202e}b\u{9b}c\u{7f}".as_bytes()), r"a\xE2\x80\xAEb\xC2\x9Bc\x7F");
    assert_eq!(Record::text("é日本".as_bytes()), "é日本");
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
