//! A log of denials made from real robots.txt files, decided again by the program from its files.

use std::collections::BTreeMap;
use std::path::Path as File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use courtesy::audit::evidence::{Blob, BlobStore, Body, CaptureRecord, Kind};
use courtesy::audit::{
    AgentSource, Client, Config, Event, Group, Profile as Named, Reason, Record, Robots,
    RobotsStatus, Rule, Writer,
};
use courtesy::policy::decision::{Basis, Verdict};
use courtesy::policy::profile::Profile;
use courtesy::robots::{self, Directive, Path, RobotsTxt, path_of_url};
use courtesy::runtime::clock::{Clock, ManualClock};
use courtesy::types::sanitize::{hex, sha256_hex};
use courtesy::types::timestamp::Timestamp;
use serde_json::Value;

use crate::testkit::stored;

const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_123);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const ORIGIN: &str = "https://site.example";
/// Records that wait for the writer together.
const TOGETHER: usize = 512;

/// What another profile makes of the records, decided directly.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    allowed: u64,
    other_basis: u64,
}

impl Expected {
    /// Adds a record of `decision` to what `group`, of another reading of the file, says of `path`.
    fn count(
        &mut self,
        decision: &robots::Decision<'_>,
        group: Option<robots::Group<'_>>,
        path: &str,
    ) {
        let dialect = Profile::named("google").unwrap().dialect;
        let rule = group.and_then(|group| group.rule_for(&Path::new(path.as_bytes(), &dialect)));
        let robots::Basis::Rule { rule: was, group: named } = decision.basis else {
            panic!("{decision:?}")
        };
        match (group, rule) {
            (Some(group), Some(rule)) if rule.directive == Directive::Disallow => {
                let same = (was.line, was.pattern, named.name, named.line)
                    == (rule.line, rule.pattern, group.name(), group.line());
                self.other_basis += u64::from(!same);
            }
            _ => self.allowed += 1,
        }
    }
}

/// Whether a URL may have been sent with other bytes than the record of it has: it percent-encodes
/// what is not printable ASCII, and google takes URLs as given.
fn is_unclear(url: &str) -> bool {
    let encoded =
        |begin: &str| begin == "%7F" || begin.starts_with("%8") || "9ABCDEF".contains(&begin[1..2]);
    url.match_indices('%').filter_map(|(at, _)| url.get(at..at + 3)).any(encoded)
}

/// Writes a log of `count` denials under `rfc9309`, at most `each` of one file, and says what `google`
/// makes of them.
fn write_log(dir: &File, count: usize, each: usize) -> Expected {
    let clock = ManualClock::starting_at(NOON) as Arc<dyn Clock>;
    let writer = Arc::new(Writer::open(Config::new(dir.to_owned()), clock).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let files = stored::files();
    let blob_store = BlobStore::of(dir);
    let (ours, other) = (Profile::default(), Profile::named("google").unwrap());
    let (mut expected, mut written, mut waiting) = (Expected::default(), 0, Vec::new());
    for matrix in stored::matrices() {
        if written == count {
            break;
        }
        let of_this_file = written + each;
        let body = &files[&matrix.f];
        let robots = RobotsTxt::parse(body, &ours.dialect);
        let others = RobotsTxt::parse(body, &other.dialect);
        let blobs = blobs(body);
        for (agent, url) in
            matrix.agents.iter().flat_map(|agent| matrix.urls.iter().map(move |url| (agent, url)))
        {
            let path = path_of_url(url.as_bytes());
            let decision = robots.decide(Some(agent), &path);
            // The proxy sends no other bytes than these, and a record keeps them as they are.
            let is_plain = path.iter().all(|byte| matches!(byte, 0x21..=0x7e));
            if decision.verdict != Verdict::Disallow
                || &*path == b"/robots.txt"
                || !is_plain
                || written == count.min(of_this_file)
            {
                continue;
            }
            let path = str::from_utf8(&path).unwrap();
            if !is_unclear(path) {
                expected.count(&decision, others.group(Some(agent)), path);
            }
            blobs.iter().for_each(|blob| blob_store.put(blob).unwrap());
            waiting.push((record(agent, path, &decision, &blobs), blobs.clone()));
            written += 1;
            if waiting.len() == TOGETHER {
                runtime.block_on(write(&writer, std::mem::take(&mut waiting)));
            }
        }
    }
    runtime.block_on(write(&writer, waiting));
    assert_eq!(written, count, "the real files do not have as many denials");
    expected
}

async fn write(writer: &Arc<Writer>, records: Vec<(Record, Vec<Blob>)>) {
    let mut tasks = tokio::task::JoinSet::new();
    for (record, blobs) in records {
        let writer = Arc::clone(writer);
        tasks.spawn(async move { writer.write(record, blobs).await.unwrap() });
    }
    tasks.join_all().await;
}

/// The file and how it came.
fn blobs(body: &[u8]) -> Vec<Blob> {
    let name = sha256_hex(body);
    let capture = CaptureRecord {
        answers: Vec::new(),
        asked: format!("{ORIGIN}/robots.txt"),
        body: Some(Body { cut: false, bytes: body.len() as u64, sha256: name.clone() }),
        failure: None,
        fetched_at: NOON.millis(),
        user_agent: None,
    };
    let capture = capture.seal();
    let sha256 = courtesy::types::sanitize::digest(&name).unwrap();
    let file = Blob { sha256, kind: Kind::File, content: body.to_vec().into() };
    vec![file, Blob { sha256: capture.sha256, kind: Kind::Capture, content: capture.json }]
}

fn record(agent: &str, path: &str, decision: &robots::Decision<'_>, blobs: &[Blob]) -> Record {
    let robots_url = format!("{ORIGIN}/robots.txt");
    let robots = Robots {
        asked_as: None,
        capture: Some(hex(&blobs[1].sha256)),
        cause: None,
        confirmed_at: Some(NOON),
        cut: false,
        failed_capture: None,
        failures: None,
        fetched_at: Some(NOON),
        next_try: Some(NOON.plus(DAY)),
        result: Some("successful".into()),
        sha256: Some(hex(&blobs[0].sha256)),
        since: Some(NOON),
        site_up: None,
        state: RobotsStatus::Rules,
        status: Some(200),
        tried: Some(NOON),
        url: robots_url.clone(),
        url_reached: Some(robots_url),
    };
    Record {
        agent: Some(agent.to_owned()),
        agent_source: AgentSource::UserAgent,
        client: Client::at([127, 0, 0, 1], None),
        event: Event::Denied,
        exemption: None,
        group: decision.basis.group().map(Group::of),
        id: courtesy::audit::new_id(NOON),
        method: "GET".into(),
        node: None,
        origin: ORIGIN.into(),
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile: Named {
            name: "rfc9309".into(),
            settings: BTreeMap::new(),
            version: courtesy::policy::profile::VERSION,
        },
        reason: Reason::of(&Basis::Rules(decision.basis)),
        robots: Some(robots.into()),
        rule: decision.basis.rule().map(Rule::of),
        seq: 0,
        setting: None,
        sni: None,
        time: NOON,
        trace_id: None,
        url_as_received: None,
        url: Record::url(format!("{ORIGIN}{path}").as_bytes()),
        user_agent: Some(format!("{agent}/1.0")),
    }
}

/// Runs `courtesy audit` and gives its exit code and what it printed.
fn audit(dir: &File, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command.arg("audit").args(arguments).arg("--dir").arg(dir).env_clear().stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn replays(count: usize, each: usize) {
    let dir = tempfile::tempdir().unwrap();
    let expected = write_log(dir.path(), count, each);
    assert!(expected.allowed > 0, "google is expected to allow some of it: {expected:?}");

    let (code, said) = audit(dir.path(), &["verify"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with(&format!(
            "The log holds in itself; no published head was given.\n{count} records in "
        )),
        "{said}"
    );

    let (code, said) = audit(dir.path(), &["replay"]);
    let all_the_same =
        format!("{count} records: {count} the same, 0 differ from what was recorded\n");
    assert_eq!((code, said), (Some(0), all_the_same));

    let (code, said) = audit(dir.path(), &["replay", "--profile", "google", "--format", "json"]);
    assert_eq!(code, Some(0));
    let objects: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, told) = objects.split_last().unwrap();
    let (differing, undecidable): (Vec<&Value>, Vec<&Value>) =
        told.iter().partition(|object| object["outcome"] == "differs");
    let is_unclear = |object: &Value| is_unclear(object["url"].as_str().unwrap());
    assert!(undecidable.iter().all(|object| is_unclear(object)), "{undecidable:?}");
    let clear = differing.iter().filter(|object| !is_unclear(object));
    let (allowed, other): (Vec<&Value>, Vec<&Value>) =
        clear.partition(|object| object["is"].as_str().unwrap().starts_with("allowed: "));
    let found = Expected { allowed: allowed.len() as u64, other_basis: other.len() as u64 };
    assert_eq!(found, expected);
    let number = |name: &str| summary["summary"][name].as_u64().unwrap() as usize;
    assert_eq!(number("allowed") + number("other_basis"), differing.len());
    assert_eq!(number("same"), count - told.len());
    println!("{count} records: {expected:?}");
}

#[test]
fn a_log_of_real_files_is_replayed_with_the_same_decisions() {
    replays(3_000, 10);
}

/// As the project promises it: `cargo test --test process replay -- --ignored --nocapture`.
#[test]
#[ignore = "some minutes without optimisation"]
fn a_log_of_a_hundred_thousand_denials_is_decided_the_same_way_again() {
    replays(100_000, usize::MAX >> 1);
}

#[test]
fn a_changed_file_of_evidence_and_a_lost_one_are_told_by_both() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), 200, 20);
    let mut files = files_below(&dir.path().join("evidence"));
    files.retain(|path| {
        path.extension().is_some_and(|it| it == "gz") && path.to_string_lossy().contains(".txt")
    });
    files.sort();
    std::fs::write(&files[0], b"\x1f\x8bnothing").unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    for command in ["verify", "replay"] {
        let (code, said) = audit(dir.path(), &[command]);
        assert_eq!(code, Some(1), "{command}: {said}");
        for (file, problem) in [(&files[0], "changed"), (&files[1], "missing")] {
            let told = said
                .lines()
                .any(|line| line.contains(&*file.to_string_lossy()) && line.contains(problem));
            assert!(told, "{command}: {}: {said}", file.display());
        }
    }
}

fn files_below(dir: &File) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
