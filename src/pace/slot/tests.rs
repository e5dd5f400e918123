//! Several proxies over one engine in memory.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::engine::{
    Config as EngineConfig, HoldCause, HoldLength, HoldRequest, LeaseToken, LogHead, LookupRequest,
    LookupResponse, MemoryEngine, Pending, PublishOutcome, PublishRequest, ReservedSlots,
    SystemEngineClock,
};
use crate::pace::config::{Away, Config};
use crate::pace::lanes::Lanes;
use crate::pace::turn::Turn;
use crate::pace::turn_request::TurnRequest;
use crate::pace::visits::Visit;
use crate::pace::{LaneView, PaceMode, lane};
use crate::policy::pace::SitePace;
use crate::robots::DelayRecord;
use crate::runtime::clock::{SystemClock, monotonic};
use crate::types::origin::{Origin, split_url};
use crate::types::{ClientKey, LogId};

const DELAY: Duration = Duration::from_millis(150);

/// Proxies on one engine.
struct Proxies {
    lanes: Vec<Arc<Lanes>>,
    engines: Vec<Arc<MemoryEngine>>,
}

impl Proxies {
    fn new(count: usize, change: impl Fn(&mut Config)) -> Self {
        let clock = Arc::new(SystemEngineClock::new(Arc::new(SystemClock)));
        let first = MemoryEngine::new(EngineConfig::named("0"), clock as _);
        let others = (1..count).map(|it| first.beside(EngineConfig::named(it.to_string())));
        let others: Vec<_> = others.collect();
        let engines: Vec<_> = std::iter::once(first).chain(others).map(Arc::new).collect();
        let lanes = engines.iter().map(|engine| {
            let mut config = config();
            change(&mut config);
            let lanes = Lanes::new(config, Arc::new(SystemClock));
            lanes.set_engine(Arc::clone(engine) as _);
            lanes
        });
        Self { lanes: lanes.collect(), engines }
    }

    /// Proxies that know of each other, and send heartbeats as long as the test runs.
    async fn of_members(count: usize, change: impl Fn(&mut Config)) -> Self {
        let proxies = Self::new(count, change);
        // With the second heartbeat each knows of all, with the third all know that.
        for _ in 0..3 {
            for engine in &proxies.engines {
                engine.heartbeat().await.expect("it is there");
            }
        }
        for engine in proxies.engines.clone() {
            tokio::spawn(async move {
                loop {
                    let _ = engine.heartbeat().await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        proxies
    }

    fn set_away(&self, is_away: bool) {
        self.engines.iter().for_each(|engine| engine.set_away(is_away));
    }

    async fn sync(&self) {
        for lanes in &self.lanes {
            lanes.tell().await;
            lanes.sync().await;
        }
    }
}

fn config() -> Config {
    let lane =
        lane::Config { concurrency: 8, backoff_min: Duration::from_secs(10), ..Config::off().lane };
    let max_wait = Duration::from_secs(60);
    Config { mode: PaceMode::Enforce, lane, max_wait, max_waiting_per_origin: 100, ..Config::off() }
}

fn origin() -> Origin {
    split_url(b"http://example.com/").unwrap().0
}

async fn take(lanes: &Lanes, delay: Duration) -> Result<Turn, NoTurn> {
    let asked = SitePace {
        delay,
        asked: delay,
        record: DelayRecord::CrawlDelay,
        line: 2,
        is_exempted: false,
    };
    let request = TurnRequest {
        origin: &origin(),
        client: &ClientKey::Proxy,
        mode: None,
        group: "*",
        site_pace: (!delay.is_zero()).then_some(asked),
        outside_visit_time: None,
        visit: Visit::None,
        is_robots_txt: false,
        max_wait: None,
        shutdown: &CancellationToken::new(),
    };
    lanes.acquire(&request).await
}

/// Starts, and when that was.
async fn start(lanes: &Lanes) -> std::time::Instant {
    start_over(lanes, DELAY, None).await
}

/// Starts over a connection to `address`.
async fn start_over(lanes: &Lanes, delay: Duration, address: Option<IpAddr>) -> std::time::Instant {
    let mut turn = take(lanes, delay).await.expect("a turn");
    lanes.start(&mut turn, address, &CancellationToken::new()).await.expect("no hold");
    turn.note_request_written();
    monotonic()
}

/// So many starts of each proxy, at once; all of them in order.
async fn starts(proxies: &Proxies, each: usize) -> Vec<std::time::Instant> {
    let mut tasks = tokio::task::JoinSet::new();
    for lanes in &proxies.lanes {
        for _ in 0..each {
            let lanes = Arc::clone(lanes);
            tasks.spawn(async move { start(&lanes).await });
        }
    }
    let mut starts = tasks.join_all().await;
    starts.sort();
    starts
}

#[tokio::test]
async fn starts_of_all_proxies_are_a_delay_apart() {
    let proxies = Proxies::new(4, |_| ());
    let starts = starts(&proxies, 3).await;
    let gaps: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // What is noted is a moment after the write.
    let least = DELAY - Duration::from_millis(5);
    assert!(gaps.iter().all(|gap| *gap >= least), "{gaps:?}");
}

#[tokio::test]
async fn a_request_that_waits_at_its_address_has_a_slot_when_it_starts() {
    // Longer than a slot lasts.
    let proxies = Proxies::new(2, |config| config.addresses.delay = 2 * DELAY);
    let address = Some([192, 0, 2, 1].into());
    let mut tasks = tokio::task::JoinSet::new();
    for lanes in &proxies.lanes {
        for _ in 0..3 {
            for delay in [DELAY, Duration::ZERO] {
                let lanes = Arc::clone(lanes);
                tasks.spawn(async move {
                    let at = start_over(&lanes, delay, address).await;
                    (!delay.is_zero()).then_some(at)
                });
            }
        }
    }
    let mut starts: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    starts.sort();
    assert_eq!(starts.len(), 6);
    let gaps: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let least = DELAY - Duration::from_millis(5);
    assert!(gaps.iter().all(|gap| *gap >= least), "{gaps:?}");
}

#[tokio::test]
async fn without_the_engine_each_proxy_starts_in_its_cells() {
    let proxies = Proxies::of_members(3, |_| ()).await;
    start(&proxies.lanes[0]).await;
    proxies.set_away(true);
    proxies.sync().await;
    let starts = starts(&proxies, 2).await;
    let gaps: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let least = DELAY - Duration::from_millis(5);
    assert!(gaps.iter().all(|gap| *gap >= least), "{gaps:?}");
    let mut reasons = Vec::new();
    for lanes in proxies.lanes.iter().chain(&proxies.lanes) {
        let turn = take(lanes, DELAY).await.expect("a turn");
        reasons.extend(turn.waited().map(|waited| waited.by));
    }
    assert!(reasons.contains(&WaitReason::Share), "{reasons:?}");
    proxies.set_away(false);
    proxies.sync().await;
    // The others take up its cells within two heartbeats.
    let mut before = start(&proxies.lanes[0]).await;
    let mut gaps = Vec::new();
    for _ in 0..8 {
        proxies.sync().await;
        let at = start(&proxies.lanes[0]).await;
        gaps.push(at - before);
        before = at;
    }
    assert!(gaps.iter().any(|gap| *gap < 2 * DELAY), "{gaps:?}");
}

#[tokio::test]
async fn a_proxy_that_has_never_reached_the_engine_starts_nothing_with_a_delay() {
    let proxies = Proxies::new(2, |_| ());
    proxies.set_away(true);
    proxies.sync().await;
    assert_eq!(take(&proxies.lanes[0], DELAY).await.unwrap_err(), NoTurn::EngineAway);
    assert!(take(&proxies.lanes[0], Duration::ZERO).await.is_ok(), "it has no delay");
}

#[tokio::test]
async fn a_turn_that_waits_without_an_engine_has_a_slot_when_that_is_back() {
    let proxies = Proxies::of_members(20, |_| ()).await;
    let first = start(&proxies.lanes[0]).await;
    proxies.set_away(true);
    let lanes = Arc::clone(&proxies.lanes[0]);
    let second = tokio::spawn(async move { start(&lanes).await });
    tokio::task::yield_now().await;
    proxies.set_away(false);
    let second = second.await.expect("no panic");
    assert!(second - first < 20 * DELAY, "{:?}", second - first);
    assert_eq!(proxies.engines[0].stats().counts().slots[0], 2, "beside those that were missed");
}

#[tokio::test]
async fn a_turn_whose_cell_comes_too_late_is_refused() {
    let proxies = Proxies::of_members(20, |config| config.max_wait = 10 * DELAY).await;
    start(&proxies.lanes[0]).await;
    proxies.set_away(true);
    let no_turn = take(&proxies.lanes[0], DELAY).await.expect_err("it would wait for long");
    assert!(matches!(no_turn, NoTurn::TooLong { by: WaitReason::Share, .. }), "{no_turn:?}");
}

#[tokio::test]
async fn a_slot_of_before_a_loss_is_replaced() {
    let proxies = Proxies::of_members(2, |_| ()).await;
    start(&proxies.lanes[0]).await;
    let mut turn = take(&proxies.lanes[1], DELAY).await.expect("a turn");
    let losses = proxies.engines[1].stats().losses();
    proxies.engines[0].lose();
    let lost = monotonic();
    while proxies.engines[1].stats().losses() == losses {
        tokio::task::yield_now().await;
    }
    let none = CancellationToken::new();
    proxies.lanes[1].start(&mut turn, None, &none).await.expect("no hold");
    let waited = monotonic() - lost;
    assert!(waited >= DELAY - Duration::from_millis(5), "{waited:?}");
    let [used, missed, idle] = proxies.engines[1].stats().counts().slots;
    assert!(used == 1 && missed >= 1 && idle == 0, "{used} {missed} {idle}");
}

#[tokio::test]
async fn alone_keeps_the_whole_pace_and_stop_refuses_what_has_a_delay() {
    let alone = Proxies::of_members(2, |config| config.away = Away::Alone).await;
    alone.set_away(true);
    alone.sync().await;
    let (first, second) = (start(&alone.lanes[0]).await, start(&alone.lanes[0]).await);
    assert!(second - first < 2 * DELAY, "{:?}", second - first);
    let stop = Proxies::new(2, |config| config.away = Away::Stop);
    stop.set_away(true);
    stop.sync().await;
    assert_eq!(take(&stop.lanes[0], DELAY).await.unwrap_err(), NoTurn::EngineAway);
    assert!(take(&stop.lanes[0], Duration::ZERO).await.is_ok(), "it has no delay");
}

#[tokio::test]
async fn a_hold_is_obeyed_by_all() {
    let proxies = Proxies::new(3, |_| ());
    let of_site = origin();
    let request = HoldRequest {
        origin: &of_site,
        length: HoldLength::For(Duration::from_secs(100)),
        status: 429,
        cause: HoldCause::RetryAfter,
    };
    // One with a delay learns it with its next start, one without a delay with its next
    // announcement.
    drop(take(&proxies.lanes[1], Duration::ZERO).await.expect("no hold yet"));
    proxies.engines[0].set_hold(request).await.expect("it is there");
    assert!(matches!(
        take(&proxies.lanes[2], DELAY).await.unwrap_err(),
        NoTurn::Held { status: 429, .. } | NoTurn::TooLong { .. }
    ));
    proxies.sync().await;
    let no_turn = take(&proxies.lanes[1], Duration::ZERO).await.unwrap_err();
    assert!(matches!(no_turn, NoTurn::Held { status: 429, .. }), "{no_turn:?}");
    let LaneView { ahead, .. } = proxies.lanes[1].view(&of_site).expect("a hold");
    assert!(ahead.hold.is_some_and(|hold| hold.rest > Duration::from_secs(90)));
}

#[tokio::test]
async fn what_one_proxy_is_answered_holds_the_others() {
    let proxies = Proxies::new(2, |_| ());
    let mut turn = take(&proxies.lanes[0], DELAY).await.expect("a turn");
    assert!(proxies.lanes[0].try_start(&mut turn, None));
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", http::HeaderValue::from_static("100"));
    turn.note_response(http::StatusCode::TOO_MANY_REQUESTS, &headers);
    tokio::task::yield_now().await;
    assert!(take(&proxies.lanes[1], DELAY).await.is_err());
    // An operator ends it, for both.
    assert!(proxies.lanes[0].end_hold(&origin()));
    tokio::task::yield_now().await;
    assert!(take(&proxies.lanes[0], DELAY).await.is_ok());
}

#[tokio::test]
async fn the_proxies_at_an_origin_share_its_places() {
    let proxies = Proxies::new(4, |_| ());
    for lanes in &proxies.lanes {
        drop(take(lanes, Duration::ZERO).await.expect("one more may be under way"));
    }
    proxies.sync().await;
    // The first did not know of the last when it was announced; all know with the next
    // announcement.
    let mut turns = Vec::new();
    for _ in 0..2 {
        turns.push(
            take(&proxies.lanes[3], Duration::ZERO).await.expect("one more may be under way"),
        );
    }
    let third =
        tokio::time::timeout(Duration::from_millis(100), take(&proxies.lanes[3], Duration::ZERO));
    assert!(third.await.is_err(), "two of eight are its part");
}

#[tokio::test]
async fn more_proxies_than_places_have_no_more_under_way_than_places() {
    let proxies = Proxies::of_members(4, |config| {
        (config.lane.concurrency, config.max_wait) = (2, Duration::from_millis(300));
    })
    .await;
    for lanes in &proxies.lanes {
        drop(take(lanes, Duration::ZERO).await.expect("one more may be under way"));
    }
    proxies.sync().await;
    // Those that were announced first have not heard of the last.
    for lanes in &proxies.lanes[..2] {
        lanes.announce_again(&origin()).await;
    }
    let mut turns = Vec::new();
    for lanes in &proxies.lanes[..2] {
        turns.push(take(lanes, Duration::ZERO).await.expect("a place"));
    }
    let refused = take(&proxies.lanes[2], Duration::ZERO).await.expect_err("none is free");
    assert!(matches!(refused, NoTurn::TooLong { by: WaitReason::Concurrency, .. }), "{refused:?}");
    turns.pop();
    take(&proxies.lanes[2], Duration::ZERO).await.expect("a place is free again");
    // Without the engine those of the lowest ranks have them.
    drop(turns);
    proxies.set_away(true);
    proxies.sync().await;
    let mut taken = Vec::new();
    for lanes in &proxies.lanes {
        taken.extend(take(lanes, Duration::ZERO).await);
    }
    assert_eq!(taken.len(), 2);
}

#[tokio::test]
async fn a_failed_operation_is_repeated() {
    let delay = Duration::from_secs(1);
    let proxies = Proxies::of_members(4, |_| ()).await;
    let first = start_over(&proxies.lanes[0], delay, None).await;
    proxies.engines[1].fail(1);
    let second = start_over(&proxies.lanes[1], delay, None).await;
    let gap = second - first;
    assert!(gap >= delay - Duration::from_millis(5) && gap < 3 * delay, "{gap:?}");
}

#[tokio::test]
async fn while_single_operations_fail_stop_starts_nothing() {
    let proxies = Proxies::new(2, |config| {
        (config.away, config.max_wait) = (Away::Stop, Duration::from_millis(400));
    });
    proxies.engines[0].fail(usize::MAX);
    assert_eq!(take(&proxies.lanes[0], DELAY).await.unwrap_err(), NoTurn::EngineAway);
}

#[tokio::test]
async fn a_refusal_beyond_the_horizon_names_what_really_applies() {
    let far = Duration::from_secs(5);
    let short = |config: &mut Config| config.max_wait = Duration::from_secs(1);
    let proxies = Proxies::new(2, short);
    start_over(&proxies.lanes[0], far, None).await;
    let no_turn = take(&proxies.lanes[1], far).await.unwrap_err();
    let NoTurn::TooLong { by, line, delay, .. } = no_turn else { panic!("{no_turn:?}") };
    assert_eq!((by, line, delay), (WaitReason::CrawlDelay, Some(2), far));

    let proxies = Proxies::new(2, |config| {
        short(config);
        config.lane.delay = far;
    });
    start_over(&proxies.lanes[0], Duration::ZERO, None).await;
    let no_turn = take(&proxies.lanes[1], Duration::ZERO).await.unwrap_err();
    let NoTurn::TooLong { by, line, delay, .. } = no_turn else { panic!("{no_turn:?}") };
    assert_eq!((by, line, delay), (WaitReason::Delay, None, far));

    let proxies = Proxies::new(2, short);
    let of_site = origin();
    let length = HoldLength::For(Duration::from_secs(100));
    let (status, cause) = (503, HoldCause::RetryAfter);
    let request = HoldRequest { origin: &of_site, length, status, cause };
    proxies.engines[0].set_hold(request).await.expect("it is there");
    let no_turn = take(&proxies.lanes[1], DELAY).await.unwrap_err();
    assert!(matches!(no_turn, NoTurn::Held { status: 503, .. }), "{no_turn:?}");
}

/// An engine that gives every request the same slot, whatever was asked for.
#[derive(Debug)]
struct Lying {
    inner: MemoryEngine,
    says: ReservedSlots,
    asked: AtomicUsize,
}

impl Engine for Lying {
    fn lookup(&self, request: LookupRequest<'_>) -> Pending<LookupResponse> {
        self.inner.lookup(request)
    }

    fn publish(&self, request: PublishRequest<'_>) -> Pending<PublishOutcome> {
        self.inner.publish(request)
    }

    fn renew_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        self.inner.renew_lease(origin, token)
    }

    fn release_lease(&self, origin: &Origin, token: LeaseToken) -> Pending<bool> {
        self.inner.release_lease(origin, token)
    }

    fn reserve_slots(&self, _: SlotsRequest<'_>) -> Pending<ReservedSlots> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let says = self.says.clone();
        Box::pin(async move { Ok(says) })
    }

    fn set_hold(&self, request: HoldRequest<'_>) -> Pending<engine::Hold> {
        self.inner.set_hold(request)
    }

    fn reset_backoff(&self, origin: &Origin) -> Pending<bool> {
        self.inner.reset_backoff(origin)
    }

    fn end_hold(&self, origin: &Origin) -> Pending<bool> {
        self.inner.end_hold(origin)
    }

    fn announce_presence(&self, origin: &Origin) -> Pending<engine::Presence> {
        self.inner.announce_presence(origin)
    }

    fn heartbeat(&self) -> Pending<engine::Heartbeat> {
        self.inner.heartbeat()
    }

    fn get_file(&self, sha256: engine::FileDigest) -> Pending<Option<Bytes>> {
        self.inner.get_file(sha256)
    }

    fn put_file(&self, sha256: engine::FileDigest, content: Bytes) -> Pending<()> {
        self.inner.put_file(sha256, content)
    }

    fn heads(&self) -> Pending<Vec<(String, LogHead)>> {
        self.inner.heads()
    }

    fn hours(&self, log: LogId) -> Pending<Vec<LogHead>> {
        self.inner.hours(log)
    }

    fn set_head(&self, head: LogHead) {
        self.inner.set_head(head);
    }

    fn status(&self) -> engine::Status {
        self.inner.status()
    }

    fn stats(&self) -> &engine::Stats {
        self.inner.stats()
    }
}

async fn lying(says: ReservedSlots, proxies: usize) -> (Arc<Lanes>, Arc<Lying>) {
    let clock = Arc::new(SystemEngineClock::new(Arc::new(SystemClock)));
    let inner = MemoryEngine::new(EngineConfig::named("0"), clock as _);
    for other in 1..proxies {
        inner
            .beside(EngineConfig::named(other.to_string()))
            .heartbeat()
            .await
            .expect("it is there");
    }
    inner.heartbeat().await.expect("it is there");
    let engine = Arc::new(Lying { inner, says, asked: AtomicUsize::new(0) });
    let lanes = Lanes::new(config(), Arc::new(SystemClock));
    lanes.set_engine(Arc::clone(&engine) as _);
    (lanes, engine)
}

#[tokio::test]
async fn a_slot_before_the_delay_that_is_known_here_hastens_nothing() {
    let now = ReservedSlots { slots: vec![Duration::ZERO], ..ReservedSlots::default() };
    let (lanes, _) = lying(now, 3).await;
    start(&lanes).await;
    let mut before = monotonic();
    for _ in 0..2 {
        let at = start(&lanes).await;
        // As without the engine.
        assert!(at - before >= DELAY * 29 / 30, "{:?}", at - before);
        before = at;
    }
}

#[tokio::test]
async fn a_slot_that_never_comes_is_not_believed_and_nothing_spins() {
    let never =
        ReservedSlots { slots: vec![Duration::from_micros(u64::MAX)], ..ReservedSlots::default() };
    let (lanes, engine) = lying(never, 1).await;
    for _ in 0..3 {
        start(&lanes).await;
    }
    let asked = engine.asked.load(Ordering::Relaxed);
    assert!(asked < 20, "{asked}");
    let beyond =
        ReservedSlots { beyond: Some(Duration::from_micros(u64::MAX)), ..ReservedSlots::default() };
    let (lanes, _) = lying(beyond, 1).await;
    let refused = take(&lanes, DELAY).await;
    // As far as a slot can be ahead, and the delay.
    let most = engine::HORIZON_MAX + Duration::from_secs(1);
    assert!(matches!(refused, Err(NoTurn::TooLong { wait, .. }) if wait <= most), "{refused:?}");
}
