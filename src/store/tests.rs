//! The promises of the store, over a scripted fetch and a clock that is moved by hand.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::mpsc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::*;
use crate::clock::ManualClock;
use crate::egress::{self, Failure};
use crate::fetch::Refused;
use crate::moment::Moment;
use crate::origin::split_url;
use crate::policy::access::{AccessResult, Cause, Freshness, NetworkFailure, Snapshot};
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
            Ok(Fetched { at: clock.wall(), url, hops: 0, result })
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
        Self::with(Config { wait: Duration::from_millis(100), ..Config::default() }, script)
    }

    fn with(config: Config, script: Vec<Option<Answer>>) -> Self {
        let clock = ManualClock::starting_at(Moment::from_millis(1_790_000_000_000));
        let origins = Arc::new(Origins {
            script: Mutex::new(script.into()),
            asked: Mutex::default(),
            held: Mutex::default(),
            clock: Arc::clone(&clock),
        });
        let store = Store::new(config, Arc::clone(&origins) as Arc<dyn FetchRobots>, Arc::clone(&clock) as _);
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
        sha256: [u8::try_from(body.len() % 251).expect("it is small"); 32],
        cut: false,
        status: 200,
        url: "https://example.com/robots.txt".into(),
        hops: 0,
        fetched_at: Moment::from_millis(0),
        content_type: None,
        etag: Some(HeaderValue::from_static("\"1\"")),
        last_modified: None,
    };
    Ok(AccessResult::Successful { snapshot: Arc::new(snapshot), freshness: Freshness::default() })
}

fn rules() -> Option<Answer> {
    Some(file("user-agent: *\ndisallow: /\n"))
}

fn status(code: u16) -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::Status { code, retry_after: None })))
}

mod one_fetch {
    use super::*;

    #[tokio::test]
    async fn a_hundred_callers_cause_one_fetch_and_all_are_answered() {
        let house = House::new(vec![None]);
        let profile = rfc9309();
        let callers: Vec<_> = (0..100)
            .map(|_| {
                let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
                tokio::spawn(async move { ask(&store, "example.com", &profile).await })
            })
            .collect();
        settle().await;
        assert_eq!((house.fetches(), house.store.stats().waiters, house.store.stats().flights), (1, 100, 1));
        house.answer(file("user-agent: *\ndisallow: /\n"));
        for caller in callers {
            assert_eq!(caller.await.expect("no panic"), "rules");
        }
        assert_eq!((house.fetches(), house.store.stats().waiters, house.store.stats().flights), (1, 0, 0));
    }

    #[tokio::test]
    async fn it_goes_on_when_the_client_that_caused_it_has_left() {
        let house = House::new(vec![None]);
        let profile = rfc9309();
        let first = tokio::spawn({
            let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
            async move { ask(&store, "example.com", &profile).await }
        });
        settle().await;
        first.abort();
        settle().await;
        assert_eq!(house.store.stats().waiters, 0);
        house.answer(file(""));
        settle().await;
        assert_eq!(house.ask("example.com", &profile).await, "rules");
        assert_eq!(house.fetches(), 1);
    }

    #[test]
    fn waiters_may_live_on_other_runtimes() {
        let house = House::with(Config { wait: Duration::from_secs(10), ..Config::default() }, vec![None]);
        let (done, answers) = mpsc::channel();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (store, done) = (Arc::clone(&house.store), done.clone());
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                    let word = runtime.expect("a runtime").block_on(ask(&store, "example.com", &rfc9309()));
                    done.send(word).expect("somebody listens");
                })
            })
            .collect();
        while house.store.stats().waiters < 4 || house.fetches() < 1 {
            std::thread::yield_now();
        }
        house.answer(file(""));
        assert!(answers.iter().take(4).all(|word| word == "rules"));
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        assert_eq!(house.fetches(), 1);
    }

    #[tokio::test]
    async fn eviction_does_not_start_a_second_one() {
        let config = Config { entries_max: NonZeroUsize::MIN, ..Config::default() };
        let house = House::with(config, vec![rules(), None, rules(), rules()]);
        let profile = rfc9309();
        assert_eq!(house.ask("a.example", &profile).await, "rules");
        house.clock.advance(DAY);
        let waiting = tokio::spawn({
            let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
            async move { ask(&store, "a.example", &profile).await }
        });
        settle().await;
        assert_eq!(house.ask("b.example", &profile).await, "rules");
        assert_eq!(house.fetches(), 3);
        // What was known of it before it was evicted is not forgotten: the copy still serves.
        house.answer(status(503).expect("an answer"));
        assert_eq!(waiting.await.expect("no panic"), "unreachable");
        assert!(house.has_copy("a.example", &profile).await);
    }

    #[tokio::test]
    async fn a_fetch_that_panics_answers_its_waiters_and_frees_the_origin() {
        let house = House::new(vec![]);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "aborted");
        lock(&house.origins.script).push_back(rules());
        assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    }

    #[test]
    fn a_runtime_that_goes_down_frees_the_origin() {
        let house = House::new(vec![None, rules()]);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let first = runtime();
        assert_eq!(first.block_on(house.ask("example.com", &rfc9309())), "timed out");
        drop(first);
        assert_eq!(runtime().block_on(house.ask("example.com", &rfc9309())), "rules");
    }
}

mod bounds {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_beyond_the_deadline() {
        let config = Config { wait: Duration::from_millis(5), ..Config::default() };
        let house = House::with(config, vec![None]);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "timed out");
        assert_eq!(house.store.stats().flights, 1, "the fetch goes on");
    }

    #[tokio::test]
    async fn fetches_take_turns_and_waiting_for_a_turn_counts() {
        let config = Config { fetches_max: 1, wait: Duration::from_millis(5), ..Config::default() };
        let house = House::with(config, vec![None, rules()]);
        let profile = rfc9309();
        assert_eq!(house.ask("a.example", &profile).await, "timed out");
        assert_eq!(house.ask("b.example", &profile).await, "timed out");
        assert_eq!((house.fetches(), house.store.stats().flights), (1, 2));
        house.answer(file(""));
        settle().await;
        assert_eq!(house.ask("b.example", &profile).await, "rules");
    }

    #[tokio::test]
    async fn more_fetches_or_waiters_than_there_may_be_are_turned_away() {
        let wait = Duration::from_millis(5);
        let house = House::with(Config { queue_max: 1, wait, ..Config::default() }, vec![None]);
        assert_eq!(house.ask("a.example", &rfc9309()).await, "timed out");
        assert_eq!(house.ask("b.example", &rfc9309()).await, "busy");
        assert_eq!(house.ask("a.example", &rfc9309()).await, "timed out", "it joins the one there is");
        let house = House::with(Config { waiters_max: 0, wait, ..Config::default() }, vec![rules()]);
        assert_eq!(house.ask("a.example", &rfc9309()).await, "busy");
        assert_eq!(house.store.stats().waiters, 0);
    }

    #[tokio::test]
    async fn the_least_recently_used_goes_first() {
        let config = Config { entries_max: NonZeroUsize::new(2).expect("two"), ..Config::default() };
        let house = House::with(config, vec![rules(), rules(), rules(), rules()]);
        let profile = rfc9309();
        for host in ["a.example", "b.example", "a.example", "c.example", "a.example"] {
            assert_eq!(house.ask(host, &profile).await, "rules");
        }
        assert_eq!((house.fetches(), house.store.stats().entries), (3, 2));
        house.ask("b.example", &profile).await;
        assert_eq!(house.fetches(), 4);
    }

    #[tokio::test]
    async fn octets_are_bounded_and_counted_back() {
        let large = "# nothing\n".repeat(1000);
        let config = Config { bytes_max: 50_000, ..Config::default() };
        let house = House::with(config, (0..20).map(|_| Some(file(&large))).collect());
        let profile = rfc9309();
        for host in 0..20 {
            assert_eq!(house.ask(&format!("{host}.example"), &profile).await, "rules");
            let stats = house.store.stats();
            assert!(stats.bytes <= 50_000, "{stats:?}");
        }
        let stats = house.store.stats();
        assert!((2..10).contains(&stats.entries) && stats.bytes > stats.entries * large.len(), "{stats:?}");
    }

    #[tokio::test]
    async fn what_is_too_large_to_keep_is_still_an_answer() {
        let house = House::with(Config { bytes_max: 1, ..Config::default() }, vec![rules(), rules()]);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
        assert_eq!((house.store.stats().entries, house.store.stats().bytes), (0, 0));
        assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    }
}

mod knowledge {
    use super::*;

    #[tokio::test]
    async fn what_is_current_is_not_asked_for_and_what_is_due_is() {
        let house = House::new(vec![rules(), status(404)]);
        let profile = rfc9309();
        assert_eq!(house.ask("example.com", &profile).await, "rules");
        house.clock.advance(DAY / 2);
        assert_eq!(house.ask("example.com", &profile).await, "rules");
        assert_eq!(house.fetches(), 1);
        house.clock.advance(DAY / 2);
        assert_eq!(house.ask("example.com", &profile).await, "unavailable");
        let stats = house.store.stats();
        assert_eq!((stats.hits, stats.misses, stats.fetches), (1, 2, 2));
    }

    #[tokio::test]
    async fn the_last_tenth_is_refreshed_while_the_copy_serves() {
        let house = House::new(vec![rules(), None]);
        let profile = rfc9309();
        house.ask("example.com", &profile).await;
        house.clock.advance(DAY * 95 / 100);
        for _ in 0..3 {
            assert_eq!(house.ask("example.com", &profile).await, "rules");
            settle().await;
        }
        assert_eq!(house.fetches(), 2);
        house.answer(Ok(AccessResult::NotModified { freshness: Freshness::default() }));
        settle().await;
        house.clock.advance(DAY / 2);
        assert_eq!(house.ask("example.com", &profile).await, "rules");
        assert_eq!(house.fetches(), 2);
    }

    #[tokio::test]
    async fn a_refresh_is_conditional_unless_a_profile_forbids_it() {
        let house = House::new(vec![rules(), rules(), rules()]);
        let (profile, google) = (rfc9309(), named("google"));
        house.ask("example.com", &profile).await;
        house.clock.advance(DAY);
        house.ask("example.com", &profile).await;
        house.ask("example.com", &google).await;
        house.clock.advance(DAY);
        house.ask("example.com", &profile).await;
        let asked = lock(&house.origins.asked);
        let conditional: Vec<_> = asked.iter().map(|ask| ask.validators.is_some()).collect();
        assert_eq!(conditional, [false, true, false]);
    }

    #[tokio::test]
    async fn one_fetch_serves_every_profile() {
        let house = House::new(vec![status(403), rules()]);
        let (open, closed) = (rfc9309(), named("conservative"));
        let verdict = async |profile: &Arc<Profile>| {
            let known = house.store.known(&origin("example.com"), profile, None).await.expect("it is known");
            match known.policy(house.clock.wall()) {
                Policy::Rules(copy) => copy.rules.rule_count(),
                Policy::AllowAll(_) => 100,
                Policy::DisallowAll(_) => 200,
            }
        };
        assert_eq!((verdict(&open).await, verdict(&closed).await), (100, 200));
        assert_eq!(house.fetches(), 1);
        house.clock.advance(DAY);
        assert_eq!((verdict(&closed).await, verdict(&open).await), (1, 1));
        assert_eq!(house.fetches(), 2);
    }

    #[tokio::test]
    async fn a_profile_that_comes_during_an_outage_gets_the_copy_too() {
        let down = Some(Ok(AccessResult::Without(Cause::Failed {
            failure: NetworkFailure::Timeout,
            detail: "".into(),
        })));
        let house = House::new(vec![rules(), down]);
        house.ask("example.com", &rfc9309()).await;
        house.clock.advance(DAY);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "unreachable");
        assert_eq!(house.ask("example.com", &named("archival")).await, "unreachable");
        assert_eq!(house.fetches(), 2);
        assert!(house.has_copy("example.com", &named("archival")).await);
    }

    #[tokio::test]
    async fn a_large_file_is_read_too_and_without_the_line_that_was_cut() {
        let mut large = file(&"user-agent: *\ndisallow: /a\nallow: /\n".repeat(10_000));
        if let Ok(AccessResult::Successful { snapshot, .. }) = &mut large {
            let whole = Arc::make_mut(snapshot);
            whole.cut = true;
            whole.body = whole.body.slice(..whole.body.len() - 2);
        }
        let house = House::with(Config::default(), vec![Some(large)]);
        let known = house.store.known(&origin("example.com"), &rfc9309(), None).await.expect("it is known");
        let Policy::Rules(copy) = known.policy(house.clock.wall()) else { panic!("{known:?}") };
        assert_eq!(copy.rules.rule_count(), 2 * 10_000 - 1);
    }

    #[tokio::test]
    async fn equal_files_are_parsed_once() {
        let house = House::new((0..10).map(|_| rules()).collect());
        let profile = rfc9309();
        for host in 0..10 {
            house.ask(&format!("{host}.example"), &profile).await;
        }
        assert_eq!((house.store.stats().entries, house.store.stats().parsed), (10, 1));
    }

    #[tokio::test]
    async fn a_refused_origin_is_remembered_by_nobody() {
        let refused = Refused(egress::Error::new(Failure::AddressProhibited, "10.0.0.1 is private"));
        let house = House::new(vec![Some(Err(refused)), rules()]);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "refused");
        assert_eq!(house.store.stats().entries, 0);
        assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    }

    #[tokio::test]
    async fn the_fetch_is_made_as_the_client_that_caused_it() {
        let house = House::new(vec![rules()]);
        let agent = HeaderValue::from_static("ExampleBot/1.0");
        let known = house.store.known(&origin("example.com"), &rfc9309(), Some(&agent)).await;
        assert!(known.is_ok());
        assert_eq!(lock(&house.origins.asked)[0].user_agent, Some(agent));
    }
}
