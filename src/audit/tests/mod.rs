mod changed;
mod failure;
mod files;
mod keeper;
mod keeping;
mod moved;
pub(super) mod notices;
mod record;
mod redaction;
mod schema;
mod speed;
mod tree;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::runtime::clock::{Clock, ManualClock};
use crate::types::timestamp::Timestamp;

pub(super) const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_123);

fn minimal() -> Record {
    Record {
        prev: String::new(),
        seq: 0,
        setting: None,
        sni: None,
        id: "01J9ZZZZZZZZZZZZZZZZZZZZZZ".into(),
        time: NOON,
        event: Event::Denied,
        reason: Reason::AgentRequired,
        client: Client::at([127, 0, 0, 1], None),
        method: "GET".into(),
        url: Record::url(b"http://example.com/"),
        node: None,
        origin: "http://example.com".into(),
        user_agent: None,
        agent: None,
        agent_source: AgentSource::Absent,
        profile: Profile { name: "rfc9309".into(), version: 1, settings: BTreeMap::new() },
        group: None,
        rule: None,
        robots: None,
        exemption: None,
        pace_seen: None,
        path_seen: true,
        trace_id: None,
        url_as_received: None,
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
        rule: Some(Rule {
            line: 12,
            directive: "disallow".into(),
            pattern: Record::pattern(b"/private/"),
            read_as: Vec::new(),
        }),
        robots: Some(SharedRobots::from(Robots {
            asked_as: None,
            capture: Some(crate::types::sanitize::sha256_hex(b"{}")),
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
            sha256: Some(crate::types::sanitize::sha256_hex(b"")),
            fetched_at: Some(NOON),
            state: RobotsStatus::Rules,
            cause: None,
            since: Some(NOON),
            next_try: None,
        })),
        exemption: Some(Exemption {
            by: "webmaster@example.com".into(),
            reason: "written permission".into(),
            ticket: Some("OPS-123".into()),
            until: NOON,
        }),
        ..minimal()
    }
}

/// A writer whose clock stands still.
fn open(dir: &Path) -> Result<Writer, OpenError> {
    open_with(dir, |_| {})
}

fn open_with(dir: &Path, edit: impl FnOnce(&mut Config)) -> Result<Writer, OpenError> {
    open_at(dir, ManualClock::starting_at(NOON), edit)
}

fn open_at(
    dir: &Path,
    clock: Arc<dyn Clock>,
    edit: impl FnOnce(&mut Config),
) -> Result<Writer, OpenError> {
    let mut config = Config::new(dir.to_owned());
    edit(&mut config);
    Writer::open(config, clock)
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(task)
}

/// Writes one record, and tells its number.
#[track_caller]
fn write(writer: &Writer) -> u64 {
    block_on(writer.write(minimal(), Vec::new())).unwrap().seq
}

/// Waits for what the writer does by itself.
#[track_caller]
fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = crate::runtime::clock::monotonic() + std::time::Duration::from_secs(20);
    while !seen() {
        assert!(crate::runtime::clock::monotonic() < end, "in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// What the lines of a file say, each found to be whole.
#[track_caller]
fn contents(file: &Path) -> Vec<Content> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let lines = text.lines().map(str::as_bytes);
    lines
        .inspect(|line| assert!(checked_hash(line).is_ok()))
        .map(|line| Content::parse(line).unwrap())
        .collect()
}

#[track_caller]
fn seqs(dir: &Path) -> Vec<u64> {
    contents(&dir.join(FILE_NAME)).iter().map(Content::seq).collect()
}

/// All lines of the log, found to be one chain without a hole.
#[track_caller]
fn chain(dir: &Path) -> Vec<Content> {
    let mut head = Head::genesis();
    let mut all = Vec::new();
    for segment in segment::list(dir).unwrap() {
        let mut lines = segment.lines().unwrap();
        while let segment::FoundLine::Line(line) = lines.next().unwrap() {
            let content = Content::parse(line).unwrap();
            let (prev, seq) = match &content {
                Content::Record(record) => (record.prev.clone(), record.seq),
                Content::Notice(notice) => {
                    let value = serde_json::to_value(notice).unwrap();
                    (value["prev"].as_str().unwrap().to_owned(), notice.seq())
                }
            };
            assert_eq!((prev, seq), (head.hash, head.seq + 1), "in {}", segment.path.display());
            head = Head { hash: checked_hash(line).unwrap().to_owned(), seq };
            all.push(content);
        }
    }
    all
}
