//! Denials of the gate in each state of the machine, decided again from their records and blobs
//! alone.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::gate::Gate;
use super::request_info::RequestInfo;
use super::robots_summary_cache::RobotsSummaryCache;
use super::rules::{Mixed, Mode, Rules};
use crate::audit::evidence::{self, BlobStore, Body, CaptureRecord};
use crate::audit::read::replay::{Answer, Outcome, Replay};
use crate::audit::{self, Reason, Writer};
use crate::clients::Client;
use crate::policy::access::{AccessResult, Cause, Fetched, Freshness, NetworkFailure, Snapshot};
use crate::policy::exemption::Exemptions;
use crate::policy::profile::Profile;
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::outcome::denial::Denial;
use crate::proxy::outcome::recorded::Recorded;
use crate::proxy::outcome::rejection::GateError;
use crate::proxy::request::target::Target;
use crate::runtime::clock::{Clock, ManualClock};
use crate::store::fetch::{self, FetchRobots, Refused};
use crate::store::{self, Store};
use crate::types::origin::{Origin, Scheme};
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;
use crate::watch::{Changes, Watch};

const START: Timestamp = Timestamp::from_millis(1_795_176_000_123);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILE: &str = "user-agent: *\ndisallow: /private/\nallow: /private/open\n";

/// What an origin answers to one request for its robots.txt.
#[derive(Clone)]
enum Answers {
    File(&'static str),
    /// Of a file beyond the size limit.
    Cut(&'static str),
    Status(u16),
    Failure(NetworkFailure),
}

struct Script {
    answers: Mutex<VecDeque<Answers>>,
    clock: Arc<ManualClock>,
}

impl FetchRobots for Script {
    fn fetch(
        &self,
        ask: fetch::Ask,
    ) -> Pin<Box<dyn Future<Output = Result<Fetched, Refused>> + Send>> {
        let answer = self.answers.lock().unwrap().pop_front().expect("nothing more is asked for");
        let fetched = fetched(&answer, &ask.origin, self.clock.wall());
        Box::pin(async move { Ok(fetched) })
    }
}

fn fetched(answer: &Answers, origin: &Origin, at: Timestamp) -> Fetched {
    let url = origin.robots_url();
    let mut capture = CaptureRecord {
        answers: Vec::new(),
        asked: url.clone(),
        body: None,
        failure: None,
        fetched_at: at.millis(),
        user_agent: None,
    };
    let answered = |status| evidence::Answer {
        head: String::new(),
        head_cut: false,
        peer: None,
        request: None,
        status,
        url: origin.robots_url(),
    };
    let result = match answer {
        Answers::File(text) | Answers::Cut(text) => {
            let sha256: [u8; 32] = Sha256::digest(text).into();
            let cut = matches!(answer, Answers::Cut(_));
            capture.answers.push(answered(200));
            capture.body = Some(Body { cut, bytes: text.len() as u64, sha256: hex(&sha256) });
            let snapshot = Snapshot {
                body: text.as_bytes().into(),
                sha256,
                cut,
                status: 200,
                url: url.clone(),
                hops: 0,
                fetched_at: at,
                content_type: None,
                etag: None,
                last_modified: None,
                capture: capture.seal(),
            };
            AccessResult::Successful {
                snapshot: Arc::new(snapshot),
                freshness: Freshness::default(),
            }
        }
        Answers::Status(code) => {
            capture.answers.push(answered(*code));
            AccessResult::Without(Cause::Status { code: *code, retry_after: None })
        }
        Answers::Failure(failure) => {
            AccessResult::Without(Cause::Failed { failure: *failure, detail: "in words".into() })
        }
    };
    Fetched { at, url, hops: 0, result, capture: capture.seal() }
}

/// One origin, asked under one profile.
struct Site {
    gate: Gate,
    clock: Arc<ManualClock>,
    script: Arc<Script>,
    dir: TempDir,
    origin: Origin,
}

impl Site {
    fn under(profile: &str) -> Self {
        let (clock, dir) = (ManualClock::starting_at(START), tempfile::tempdir().unwrap());
        let script = Arc::new(Script { answers: Mutex::default(), clock: Arc::clone(&clock) });
        let config = audit::Config::new(dir.path().to_owned());
        let rules = Rules {
            profile: Arc::new(Profile::named(profile).unwrap()),
            mode: Mode::Enforce,
            agent_required: false,
            agents: Vec::new(),
            origins: HashMap::new(),
            exemptions: Exemptions::new(Vec::new()),
            deny_status: StatusCode::FORBIDDEN,
            unreachable_status: StatusCode::FORBIDDEN,
            serves_robots_txt: true,
        };
        let gate = Gate {
            rules,
            store: Store::new(
                store::Config::default(),
                Arc::clone(&script) as _,
                Arc::clone(&clock) as _,
                None,
            ),
            audit: Arc::new(Writer::open(config, Arc::clone(&clock) as _).unwrap()),
            clock: Arc::clone(&clock) as _,
            metrics: Arc::default(),
            summaries: RobotsSummaryCache::default(),
            watch: Watch::new(Changes::Off, false),
        };
        let origin = Origin::from_authority(Scheme::Http, "example.com").unwrap();
        Self { gate, clock, script, dir, origin }
    }

    fn answers(self, answer: Answers) -> Self {
        self.script.answers.lock().unwrap().push_back(answer);
        self
    }

    fn asks<T>(&self, request: impl AsyncFnOnce(RequestInfo<'_>) -> T) -> T {
        let agent = HeaderValue::from_static("ExampleBot/1.0");
        let client = Client::at([127, 0, 0, 1].into());
        let entry = AccessEntry::default();
        let info = RequestInfo {
            client: &client,
            method: &Method::GET,
            user_agent: Some(&agent),
            entry: &entry,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(request(info))
    }

    /// The outcome does not matter, only that it was asked for.
    fn after_a_request_for(self, path: &str) -> Self {
        let target = self.target(path);
        let _ = self.asks(async |info| self.gate.admit(target, info).await);
        self
    }

    fn later(self, by: Duration) -> Self {
        self.clock.advance(by);
        self
    }

    fn target(&self, path: &str) -> Target {
        Target { origin: self.origin.clone(), path: path.parse().unwrap(), received: None }
    }

    #[track_caller]
    fn denies(&self, path: &str) -> Recorded<Denial> {
        let target = self.target(path);
        match self.asks(async |info| self.gate.admit(target, info).await) {
            Err(GateError::Denial(denial)) => self.keep(*denial),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn denies_host(&self) -> Recorded<Denial> {
        let origin = self.origin.clone();
        match self.asks(async |info| self.gate.admit_host(origin, info, Mixed::Refuse).await) {
            Err(GateError::Denial(denial)) => self.keep(*denial),
            other => panic!("{other:?}"),
        }
    }

    fn keep(&self, denial: Recorded<Denial>) -> Recorded<Denial> {
        let store = BlobStore::of(self.dir.path());
        denial.blobs.iter().for_each(|blob| store.put(blob).unwrap());
        denial
    }

    fn again(&self, record: &audit::Record) -> Outcome {
        let mut replay = Replay::recorded(self.dir.path(), |name, _, _| {
            Ok(Profile::named(name).expect("a profile"))
        });
        replay.again(record)
    }

    fn again_under(&self, profile: &str, denial: &Recorded<Denial>) -> Outcome {
        Replay::under(self.dir.path(), Profile::named(profile).unwrap()).again(&denial.record)
    }

    #[track_caller]
    fn is_same(&self, denial: &Recorded<Denial>, reason: Reason) {
        assert_eq!(denial.record.reason, reason);
        assert_eq!(self.again(&denial.record), Outcome::Same, "{:#?}", denial.record);
    }

    #[track_caller]
    fn is_allowed_under(&self, profile: &str, denial: &Recorded<Denial>) {
        let outcome = self.again_under(profile, denial);
        assert!(matches!(outcome, Outcome::Differs { is: Answer::Allowed(_), .. }), "{outcome:?}");
    }
}

#[test]
fn a_rule_decides_again_from_the_kept_file() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies("/private/a?b=c");
    site.is_same(&denial, Reason::DisallowRule);
    // First match in order, where the order matters.
    let open = "user-agent: *\nallow: /private/a\ndisallow: /private/a/long\n";
    let site = Site::under("rfc9309").answers(Answers::File(open));
    let denial = site.denies("/private/a/long");
    site.is_same(&denial, Reason::DisallowRule);
    site.is_allowed_under("koster-1996", &denial);
}

#[test]
fn an_unreachable_file_without_a_copy_is_decided_again() {
    for answer in
        [Answers::Status(503), Answers::Status(429), Answers::Failure(NetworkFailure::Timeout)]
    {
        let site = Site::under("rfc9309").answers(answer);
        let denial = site.denies("/anything");
        site.is_same(&denial, Reason::RobotsUnreachable);
        site.is_allowed_under("archival", &denial);
    }
    let site = Site::under("rfc9309").answers(Answers::Status(429));
    let denial = site.denies("/anything");
    site.is_allowed_under("draft-rep-00", &denial);
}

#[test]
fn an_unreachable_file_with_a_copy_is_decided_again_by_the_copy() {
    let site =
        Site::under("rfc9309").answers(Answers::File(FILE)).after_a_request_for("/").later(2 * DAY);
    let site = site.answers(Answers::Status(503));
    let denial = site.denies("/private/a");
    site.is_same(&denial, Reason::DisallowRule);
    // Twelve hours of nothing, for those who pause; and nothing at all for those without copies.
    for profile in ["google", "koster-1996"] {
        let outcome = site.again_under(profile, &denial);
        let unreachable = |is: &Answer| {
            matches!(is, Answer::Disallowed { reason: Reason::RobotsUnreachable, .. })
        };
        assert!(matches!(&outcome, Outcome::Differs { is, .. } if unreachable(is)), "{outcome:?}");
    }
}

#[test]
fn denials_of_one_state_share_its_summary() {
    let said = |denial: Recorded<Denial>| denial.robots.clone().unwrap();
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let first = said(site.denies("/private/a"));
    assert!(Arc::ptr_eq(&first, &said(site.denies("/private/b"))));
    assert!(Arc::ptr_eq(&first, &said(site.denies_host())));
    let site = site.later(2 * DAY).answers(Answers::Status(503));
    let next = said(site.denies("/private/a"));
    assert_eq!((first.record.result.as_deref(), first.record.failures), (Some("successful"), None));
    assert_eq!((next.record.result.as_deref(), next.record.failures), (Some("status"), Some(1)));
    assert_eq!(next.record.sha256, first.record.sha256, "the copy still decides");
}

#[test]
fn a_long_outage_is_decided_again() {
    let mut site = Site::under("conservative");
    for _ in 0..32 {
        site = site.answers(Answers::Status(500)).after_a_request_for("/").later(DAY);
    }
    let site = site.answers(Answers::Status(500));
    let denial = site.denies("/anything");
    site.is_same(&denial, Reason::RobotsUnreachable);
    // Thirty days have been seen to pass: the default opens.
    site.is_allowed_under("rfc9309", &denial);
}

#[test]
fn a_file_with_denied_access_is_decided_again() {
    for profile in ["koster-1996", "conservative"] {
        let site = Site::under(profile).answers(Answers::Status(403));
        let denial = site.denies("/anything");
        site.is_same(&denial, Reason::RobotsAccessDenied);
        site.is_allowed_under("rfc9309", &denial);
    }
}

#[test]
fn a_copy_that_serves_out_after_a_404_is_decided_again() {
    let site = Site::under("draft-rep-00").answers(Answers::File(FILE)).after_a_request_for("/");
    // Nearly stale: it is asked for again while the copy serves, and is gone.
    let site = site
        .later(DAY - Duration::from_secs(60))
        .answers(Answers::Status(404))
        .after_a_request_for("/");
    let denial = site.denies("/private/a");
    site.is_same(&denial, Reason::DisallowRule);
}

#[test]
fn the_last_line_of_a_cut_file_is_ignored_again() {
    let site =
        Site::under("rfc9309").answers(Answers::Cut("user-agent: *\ndisallow: /a\nallow: /a/bcd"));
    let denial = site.denies("/a/b");
    site.is_same(&denial, Reason::DisallowRule);
    site.is_same(&site.denies("/a/bcd"), Reason::DisallowRule);
}

#[test]
fn a_host_is_decided_again_without_a_path() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies_host();
    site.is_same(&denial, Reason::PathNotSeen);
    let site = Site::under("rfc9309").answers(Answers::File("user-agent: *\ndisallow: /\n"));
    let denial = site.denies_host();
    assert!(!denial.record.path_seen);
    site.is_same(&denial, Reason::DisallowRule);
}

#[test]
fn a_changed_record_or_evidence_is_decided_differently() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies("/private/a");
    let changed = |change: fn(&mut audit::Record)| {
        let mut record = denial.record.clone();
        change(&mut record);
        let mut replay =
            Replay::recorded(site.dir.path(), |name, _, _| Ok(Profile::named(name).unwrap()));
        replay.again(&record)
    };
    let differs = |outcome: &Outcome| matches!(outcome, Outcome::Differs { .. });
    for change in [
        (|record| record.rule.as_mut().unwrap().line = 3) as fn(&mut audit::Record),
        |record| record.rule.as_mut().unwrap().pattern = "/private".into(),
        |record| record.group.as_mut().unwrap().token = "examplebot".into(),
        |record| record.url = "http://example.com/private/open".into(),
        |record| record.reason = Reason::RobotsUnreachable,
    ] {
        let outcome = changed(change);
        assert!(differs(&outcome), "{outcome:?}");
    }
    let overdue = changed(|record| record.time = record.time.plus(3 * DAY));
    assert!(
        matches!(&overdue, Outcome::Undecidable(why) if why.contains("asked for again")),
        "{overdue:?}"
    );
    let refused = changed(|record| record.reason = Reason::OriginRefused);
    assert_eq!(refused, Outcome::NotOfRobots(Reason::OriginRefused));
    let missing = changed(|record| record.robots.as_mut().unwrap().sha256 = Some("ab".repeat(32)));
    assert!(
        matches!(&missing, Outcome::NoEvidence(what) if what.ends_with("is missing")),
        "{missing:?}"
    );
}

#[test]
fn a_cut_or_redacted_url_is_decided_again_if_the_rest_does_not_matter() {
    let file =
        "user-agent: *\ndisallow: /private/\ndisallow: /*?*secret\nallow: /private/?open=1234\n";
    let site = Site::under("rfc9309").answers(Answers::File(file));
    let redacted = |path: &str, shown: &str| {
        let mut record = site.denies(path).record.clone();
        record.url = format!("http://example.com{shown}");
        site.again(&record)
    };
    let hash = "~0123456789abcdef";
    assert_eq!(
        redacted("/private/?q=a", &format!("/private/?q={hash}")),
        Outcome::Undecidable("the values of its query are redacted".into())
    );
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let redacted = |path: &str, shown: &str| {
        let mut record = site.denies(path).record.clone();
        record.url = format!("http://example.com{shown}");
        site.again(&record)
    };
    assert_eq!(redacted("/private/?q=a", &format!("/private/?q={hash}")), Outcome::Same);
    let long = format!("/private/a?{}", "b".repeat(9000));
    let denial = site.denies(&long);
    assert!(denial.record.url.contains("…["), "it is too long");
    site.is_same(&denial, Reason::DisallowRule);
    let long = format!("/private/{}", "b".repeat(9000));
    assert!(
        matches!(site.again(&site.denies(&long).record), Outcome::Undecidable(why) if why.contains("too long"))
    );
}
