//! The promises of the store, over a scripted fetch and a clock that is moved by hand.

mod bounds;
mod knowledge;
mod one_fetch;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::mpsc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::*;
use crate::clock::ManualClock;
use crate::egress::{self, Failure};
use crate::fetch::Refused;
use crate::moment::Moment;
use crate::origin::split_url;
use crate::policy::access::{AccessResult, Capture, Cause, Fetched, Freshness, NetworkFailure, Snapshot};
use crate::policy::state::Policy;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

type Answer = Result<AccessResult, Refused>;

/// Answers in order; `None` waits for [`Origins::answer`], a missing answer is a panic.
struct Origins {
    script: Mutex<VecDeque<Option<Answer>>>,
    asked: Mutex<Vec<Ask>>,
    held: Mutex<Vec<oneshot::Sender<Answer>>>,
    clock: Arc<ManualClock>,
}

impl FetchRobots for Origins {
    fn fetch(&self, ask: Ask) -> Pin<Box<dyn Future<Output = Result<Fetched, Refused>> + Send>> {
        let url = ask.origin.robots_url();
        lock(&self.asked).push(ask);
        let (sender, receiver) = oneshot::channel();
        match lock(&self.script).pop_front() {
            Some(Some(answer)) => assert!(sender.send(answer).is_ok()),
            Some(None) => lock(&self.held).push(sender),
            None => drop(sender),
        }
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let result = receiver.await.expect("the script has come to its end")?;
            Ok(Fetched { at: clock.wall(), url, hops: 0, result, capture: Capture::none() })
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store before scripted origins.
struct House {
    store: Arc<Store>,
    origins: Arc<Origins>,
    clock: Arc<ManualClock>,
}

impl House {
    fn new(script: Vec<Option<Answer>>) -> Self {
        Self::with(Config::default(), script)
    }

    fn with(config: Config, script: Vec<Option<Answer>>) -> Self {
        let clock = ManualClock::starting_at(Moment::from_millis(1_790_000_000_000));
        let origins = Arc::new(Origins {
            script: Mutex::new(script.into()),
            asked: Mutex::default(),
            held: Mutex::default(),
            clock: Arc::clone(&clock),
        });
        let fetcher = Arc::clone(&origins) as Arc<dyn FetchRobots>;
        let store = Store::new(config, fetcher, Arc::clone(&clock) as _, None);
        Self { store, origins, clock }
    }

    async fn ask(&self, host: &str, profile: &Arc<Profile>) -> &'static str {
        ask(&self.store, host, profile).await
    }

    async fn has_copy(&self, host: &str, profile: &Arc<Profile>) -> bool {
        let known = self.store.known(&origin(host), profile, None).await;
        known.expect("it is known").state().copy().is_some()
    }

    fn fetches(&self) -> usize {
        lock(&self.origins.asked).len()
    }

    /// Lets the oldest fetch that is held go on.
    fn answer(&self, answer: Answer) {
        assert!(lock(&self.origins.held).remove(0).send(answer).is_ok(), "nobody waits for it");
    }
}

async fn ask(store: &Arc<Store>, host: &str, profile: &Arc<Profile>) -> &'static str {
    match store.known(&origin(host), profile, None).await {
        Ok(known) => known.state().word(),
        Err(Undecided::Refused(_)) => "refused",
        Err(Undecided::TimedOut) => "timed out",
        Err(Undecided::Busy) => "busy",
        Err(Undecided::Aborted) => "aborted",
    }
}

/// Lets every task that can go on go on.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn origin(host: &str) -> Origin {
    split_url(format!("https://{host}").as_bytes()).expect("a URL").0
}

fn rfc9309() -> Arc<Profile> {
    Arc::new(Profile::default())
}

fn named(name: &str) -> Arc<Profile> {
    Arc::new(Profile::named(name).expect("the profile exists"))
}

fn file(body: &str) -> Answer {
    let snapshot = Snapshot {
        body: Bytes::copy_from_slice(body.as_bytes()),
        sha256: Sha256::digest(body).into(),
        cut: false,
        status: 200,
        url: "https://example.com/robots.txt".into(),
        hops: 0,
        fetched_at: Moment::from_millis(0),
        content_type: None,
        etag: Some(HeaderValue::from_static("\"1\"")),
        last_modified: None,
        capture: Capture::none(),
    };
    Ok(AccessResult::Successful { snapshot: Arc::new(snapshot), freshness: Freshness::default() })
}

fn rules() -> Option<Answer> {
    Some(file("user-agent: *\ndisallow: /\n"))
}

fn status(code: u16) -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::Status { code, retry_after: None })))
}
