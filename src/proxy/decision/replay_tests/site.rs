//! A gate over a scripted origin, whose denials are decided again.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::audit::evidence::{self, BlobStore, Body, CaptureRecord};
use crate::audit::read::replay::{Answer, Replay, Replayed};
use crate::audit::{self, AllowedReason, Content, Notice, Reason, Writer};
use crate::clients::Client;
use crate::policy::access::{
    AccessResult, Cause, CompletedFetch, Freshness, NetworkFailure, Snapshot,
};
use crate::policy::exemption::Exemptions;
use crate::policy::profile::Profile;
use crate::proxy::decision::decision_context::{RequestInfo, RobotsSummaryCache};
use crate::proxy::decision::gate::Gate;
use crate::proxy::decision::rules::{MixedHosts, Mode, Rules};
use crate::proxy::denial::{Denial, Recorded};
use crate::proxy::destination::Target;
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::rejection::GateError;
use crate::runtime::clock::{Clock, ManualClock};
use crate::store::fetch::{self, FetchRobots, NotSent};
use crate::store::{self, Store};
use crate::types::origin::{Origin, Scheme};
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;
use crate::watch::Watch;

const START: Timestamp = Timestamp::from_millis(1_795_176_000_123);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub const FILE: &str = "user-agent: *\ndisallow: /private/\nallow: /private/open\n";

/// The response of an origin to one request for its robots.txt.
#[derive(Clone)]
pub enum Answers {
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
        ask: fetch::FetchRequest,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedFetch, NotSent>> + Send>> {
        let answer = self.answers.lock().unwrap().pop_front().expect("nothing more is asked for");
        let fetched = fetched(&answer, &ask.origin, self.clock.wall());
        Box::pin(async move { Ok(fetched) })
    }
}

fn fetched(answer: &Answers, origin: &Origin, at: Timestamp) -> CompletedFetch {
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
        via: None,
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
        Answers::Failure(failure) => AccessResult::Without(Cause::failed(*failure, "in words")),
    };
    CompletedFetch { at, url, hops: 0, varies: false, result, capture: capture.seal() }
}

/// A gate with one profile, and one origin whose responses are scripted.
pub struct Site {
    gate: Gate,
    clock: Arc<ManualClock>,
    script: Arc<Script>,
    pub dir: TempDir,
    origin: Origin,
}

impl Site {
    pub fn under(profile: &str) -> Self {
        let (clock, dir) = (ManualClock::starting_at(START), tempfile::tempdir().unwrap());
        let script = Arc::new(Script { answers: Mutex::default(), clock: Arc::clone(&clock) });
        let config = audit::Config::new(dir.path().to_owned());
        let rules = Rules {
            allowed_lines: audit::AllowedLines::All,
            profile: Arc::new(Profile::named(profile).unwrap()),
            mode: Mode::Enforce,
            agent_required: false,
            agents: Vec::new(),
            origins: HashMap::new(),
            exemptions: Exemptions::new(Vec::new()),
            deny_status: StatusCode::FORBIDDEN,
            unreachable_status: StatusCode::FORBIDDEN,
            pace_status: StatusCode::TOO_MANY_REQUESTS,
            pace: crate::pace::Config::off(),
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
            watch: Watch::new(false),
        };
        let origin = Origin::from_authority(Scheme::Http, "example.com").unwrap();
        Self { gate, clock, script, dir, origin }
    }

    pub fn answers(self, answer: Answers) -> Self {
        self.script.answers.lock().unwrap().push_back(answer);
        self
    }

    fn with_request<T>(&self, request: impl AsyncFnOnce(RequestInfo<'_>) -> T) -> T {
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

    /// The outcome does not matter, only that the robots.txt was fetched.
    pub fn after_a_request_for(self, path: &str) -> Self {
        let target = self.target(path);
        let _ = self.with_request(async |info| self.gate.decide(target, info).await);
        self
    }

    pub fn later(self, by: Duration) -> Self {
        self.clock.advance(by);
        self
    }

    pub fn target(&self, path: &str) -> Target {
        Target { origin: self.origin.clone(), path: path.parse().unwrap(), path_as_received: None }
    }

    /// Its line, which names evidence that is kept.
    #[track_caller]
    pub fn allows(&self, path: &str) -> audit::Allowed {
        let target = self.target(path);
        let granted = self.with_request(async |info| self.gate.decide(target, info).await);
        granted.expect("it is allowed");
        self.last_allowed()
    }

    #[track_caller]
    pub fn allows_host(&self) -> audit::Allowed {
        let origin = self.origin.clone();
        let granted = self.with_request(async |info| {
            self.gate.decide_host(origin, info, MixedHosts::Refuse).await
        });
        granted.expect("it is allowed");
        self.last_allowed()
    }

    fn last_allowed(&self) -> audit::Allowed {
        let lines = std::fs::read_to_string(self.dir.path().join(audit::FILE_NAME)).unwrap();
        match Content::parse(lines.lines().last().unwrap().as_bytes()) {
            Ok(Content::Notice(Notice::Allowed(allowed))) => allowed,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn is_same_allowed(&self, allowed: &audit::Allowed, reason: AllowedReason) {
        assert_eq!(allowed.reason, reason);
        assert_eq!(self.allowed_again(allowed), Replayed::Same, "{allowed:#?}");
    }

    pub fn allowed_again(&self, allowed: &audit::Allowed) -> Replayed {
        let mut replay = Replay::recorded(self.dir.path(), |name, _, _| {
            Ok(Profile::named(name).expect("a profile"))
        });
        replay.allowed_again_of(0, allowed)
    }

    #[track_caller]
    pub fn denies(&self, path: &str) -> Recorded<Denial> {
        let target = self.target(path);
        match self.with_request(async |info| self.gate.decide(target, info).await) {
            Err(GateError::Denial(denial)) => self.keep(*denial),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn denies_host(&self) -> Recorded<Denial> {
        let origin = self.origin.clone();
        match self.with_request(async |info| {
            self.gate.decide_host(origin, info, MixedHosts::Refuse).await
        }) {
            Err(GateError::Denial(denial)) => self.keep(*denial),
            other => panic!("{other:?}"),
        }
    }

    pub fn keep(&self, denial: Recorded<Denial>) -> Recorded<Denial> {
        let store = BlobStore::of(self.dir.path());
        denial.blobs.iter().for_each(|blob| store.put(blob).unwrap());
        denial
    }

    pub fn again(&self, record: &audit::Record) -> Replayed {
        let mut replay = Replay::recorded(self.dir.path(), |name, _, _| {
            Ok(Profile::named(name).expect("a profile"))
        });
        replay.again(record)
    }

    pub fn again_under(&self, profile: &str, denial: &Recorded<Denial>) -> Replayed {
        Replay::under(self.dir.path(), Profile::named(profile).unwrap()).again(&denial.record)
    }

    #[track_caller]
    pub fn is_same(&self, denial: &Recorded<Denial>, reason: Reason) {
        assert_eq!(denial.record.reason, reason);
        assert_eq!(self.again(&denial.record), Replayed::Same, "{:#?}", denial.record);
    }

    #[track_caller]
    pub fn is_allowed_under(&self, profile: &str, denial: &Recorded<Denial>) {
        let outcome = self.again_under(profile, denial);
        assert!(matches!(outcome, Replayed::Differs { is: Answer::Allowed(_), .. }), "{outcome:?}");
    }
}
