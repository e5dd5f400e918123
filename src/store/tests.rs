//! The promises of the store, over a scripted fetch and a clock that is moved by hand.

mod agents;
mod bounds;
mod disk_errors;
mod eviction;
mod fairness;
mod forgotten;
mod one_fetch;
mod origin_robots;
mod restart;
mod room;
mod shared;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;
use crate::egress::{self, Failure};
use crate::engine::{self, LocalConfig, LocalEngine, LocalFile};
use crate::policy::access::{
    AccessResult, Capture, Cause, CompletedFetch, Freshness, NetworkFailure, Snapshot,
};
use crate::policy::state::Policy;
use crate::runtime::clock::ManualClock;
use crate::store::fetch::{FetchIdentity, FetchRequest, NotSent};
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Longer than anything takes that ends at all.
const TIMEOUT: Duration = Duration::from_secs(60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

type Answer = Result<AccessResult, NotSent>;

/// What an origin answers to each fetch.
type Answers = Box<dyn Fn(&FetchRequest) -> Told + Send + Sync>;

/// An answer, and whether it depends on the User-Agent by its own account.
struct Told {
    answer: Answer,
    varies: bool,
}

/// Answers in order; `None` waits for [`Origins::answer`], a missing answer is a panic.
struct Origins {
    /// Instead of the script.
    by_agent: Mutex<Option<Answers>>,
    script: Mutex<VecDeque<Option<Answer>>>,
    asked: Mutex<Vec<FetchRequest>>,
    held: Mutex<Vec<oneshot::Sender<Answer>>>,
    clock: Arc<ManualClock>,
}

impl FetchRobots for Origins {
    fn fetch(
        &self,
        ask: FetchRequest,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedFetch, NotSent>> + Send>> {
        let url = ask.origin.robots_url();
        let told = lock(&self.by_agent).as_ref().map(|answers| answers(&ask));
        lock(&self.asked).push(ask);
        let (sender, receiver) = oneshot::channel();
        let varies = told.as_ref().is_some_and(|told| told.varies);
        let next = told.map(|told| Some(told.answer));
        match next.or_else(|| lock(&self.script).pop_front()) {
            Some(Some(answer)) => assert!(sender.send(answer).is_ok()),
            Some(None) => lock(&self.held).push(sender),
            None => drop(sender),
        }
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let result = receiver.await.expect("the script has come to its end")?;
            Ok(CompletedFetch {
                at: clock.wall(),
                url,
                hops: 0,
                varies,
                result,
                capture: Capture::none(),
            })
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
    config: Config,
    home: Option<LocalConfig>,
}

impl House {
    fn new(script: Vec<Option<Answer>>) -> Self {
        Self::with(Config::default(), script)
    }

    fn with(config: Config, script: Vec<Option<Answer>>) -> Self {
        Self::build(config, None, ManualClock::starting_at(START), script)
    }

    fn build(
        config: Config,
        home: Option<LocalConfig>,
        clock: Arc<ManualClock>,
        script: Vec<Option<Answer>>,
    ) -> Self {
        let origins = Arc::new(Origins {
            by_agent: Mutex::default(),
            script: Mutex::new(script.into()),
            asked: Mutex::default(),
            held: Mutex::default(),
            clock: Arc::clone(&clock),
        });
        let open = |home: &LocalConfig| {
            let file = LocalConfig { clock: Arc::clone(&clock) as _, ..home.clone() };
            Disk(Arc::new(LocalEngine::new(engine::Config::named("store"), file)))
        };
        let opened = home.as_ref().map(open);
        let fetcher = Arc::clone(&origins) as Arc<dyn FetchRobots>;
        let store = Store::new(config.clone(), fetcher, Arc::clone(&clock) as _, opened);
        Self { store, origins, clock, config, home }
    }

    /// Ends, and begins again with what is on the disk.
    fn restart(self, script: Vec<Option<Answer>>) -> Self {
        let now = self.clock.wall();
        self.restart_at(now, script)
    }

    /// The same, with a clock that shows something else by then.
    fn restart_at(self, now: Timestamp, script: Vec<Option<Answer>>) -> Self {
        self.close();
        Self::build(self.config, self.home, ManualClock::starting_at(now), script)
    }

    fn close(&self) {
        self.store.close_by(monotonic() + TIMEOUT);
    }

    fn disk(&self) -> &Disk {
        self.store.disk().expect("a file")
    }

    /// Waits until all is in the file.
    async fn flush(&self) {
        self.disk().0.flush().await.expect("it is written");
    }

    /// The origins in the file.
    fn kept(&self) -> u64 {
        self.disk()
            .open()
            .expect("it can be read")
            .expect("a file")
            .stats()
            .expect("it can be read")
            .entries
    }

    async fn verdict(&self, host: &str, profile: &Arc<Profile>) -> &'static str {
        let known =
            self.store.lookup(&origin(host), profile, None, &client(1)).await.expect("it is known");
        match known.policy(self.clock.wall()) {
            Policy::Rules(_) => "rules",
            Policy::AllowAll(_) => "allow",
            Policy::DisallowAll(_) => "disallow",
        }
    }

    async fn ask(&self, host: &str, profile: &Arc<Profile>) -> &'static str {
        ask(&self.store, host, profile).await
    }

    /// Has a client ask, and waits for the answer elsewhere.
    fn asking(&self, host: &str, number: u8) -> tokio::task::JoinHandle<&'static str> {
        let (store, host) = (Arc::clone(&self.store), host.to_owned());
        tokio::spawn(async move { ask_as(&store, &host, &rfc9309(), &client(number)).await })
    }

    /// The hosts that were asked for their file, in order.
    fn asked(&self) -> Vec<String> {
        lock(&self.origins.asked).iter().map(|ask| ask.origin.host().to_string()).collect()
    }

    async fn has_copy(&self, host: &str, profile: &Arc<Profile>) -> bool {
        let known = self.store.lookup(&origin(host), profile, None, &client(1)).await;
        known.expect("it is known").state().copy().is_some()
    }

    fn fetches(&self) -> usize {
        lock(&self.origins.asked).len()
    }

    /// Lets the oldest fetch that is held go on.
    fn answer(&self, answer: Answer) {
        assert!(lock(&self.origins.held).remove(0).send(answer).is_ok(), "no request waits for it");
    }
}

/// A state directory; it goes with the last who holds it.
struct Home(Arc<TempDir>);

impl Home {
    fn new() -> Self {
        Self(Arc::new(TempDir::new().expect("a directory")))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        LocalFile::path(self.path())
    }

    fn house(&self, script: Vec<Option<Answer>>) -> House {
        self.house_with(Config::default(), script)
    }

    fn house_with(&self, config: Config, script: Vec<Option<Answer>>) -> House {
        House::build(config, Some(self.config()), ManualClock::starting_at(START), script)
    }

    /// With this bound of the file.
    fn house_of(&self, size_max: u64, script: Vec<Option<Answer>>) -> House {
        let home = LocalConfig { size_max, ..self.config() };
        House::build(Config::default(), Some(home), ManualClock::starting_at(START), script)
    }

    fn config(&self) -> LocalConfig {
        let clock = ManualClock::starting_at(START);
        LocalConfig { state_dir: self.path().to_owned(), size_max: 1 << 30, clock }
    }
}

async fn ask(store: &Arc<Store>, host: &str, profile: &Arc<Profile>) -> &'static str {
    ask_as(store, host, profile, &client(1)).await
}

async fn ask_as(
    store: &Arc<Store>,
    host: &str,
    profile: &Arc<Profile>,
    client: &Client,
) -> &'static str {
    match store.lookup(&origin(host), profile, None, client).await {
        Ok(known) => known.state().word(),
        Err(Undecided::NotSent(_)) => "refused",
        Err(Undecided::TimedOut) => "timed out",
        Err(Undecided::Busy) => "busy",
        Err(Undecided::Abandoned) => "left",
        Err(Undecided::BackOff) => "back-off",
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

fn client(number: u8) -> Client {
    Client::at([192, 0, 2, number].into())
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
        fetched_at: Timestamp::from_millis(0),
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

fn not_modified() -> Option<Answer> {
    Some(Ok(AccessResult::NotModified { freshness: Freshness::default() }))
}

fn status(code: u16) -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::Status { code, retry_after: None })))
}
