//! What clients at one origin can do to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use courtesy::config::Settings;
use courtesy::pace::{Lanes, NoTurn, Turn, TurnRequest, Visit};
use courtesy::policy::pace::SitePace;
use courtesy::robots::DelayRecord;
use courtesy::runtime::clock::SystemClock;
use courtesy::types::ClientKey;
use courtesy::types::origin::{Host, Origin, Scheme};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const DELAY: Duration = Duration::from_millis(20);

/// An origin with a delay, and its clients.
struct World {
    lanes: Arc<Lanes>,
    origin: Origin,
    shutdown: CancellationToken,
    /// Starts of the hostile client.
    hostile: AtomicUsize,
    refused: AtomicUsize,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lanes: Lanes::new(Settings::default().pace(), Arc::new(SystemClock)),
            origin: Origin::new(Scheme::Http, Host::Name("site.example".into()), 80),
            shutdown: CancellationToken::new(),
            hostile: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        })
    }

    async fn take(&self, client: &str) -> Result<Turn, NoTurn> {
        let asked = SitePace {
            delay: DELAY,
            asked: DELAY,
            record: DelayRecord::CrawlDelay,
            line: 2,
            is_exempted: false,
        };
        let call = TurnRequest {
            origin: &self.origin,
            client: &ClientKey::User(client.into()),
            mode: None,
            group: "*",
            site_pace: Some(asked),
            outside_visit_time: None,
            visit: Visit::None,
            is_robots_txt: false,
            max_wait: None,
            shutdown: &self.shutdown,
        };
        self.lanes.acquire(&call).await
    }

    /// One request, as the path has it.
    async fn request(&self, client: &str) -> Result<(), NoTurn> {
        let mut turn = self.take(client).await?;
        self.lanes.start(&mut turn, None, &self.shutdown).await?;
        turn.note_request_written();
        Ok(())
    }

    async fn crowd(self: Arc<Self>) {
        match self.request("hostile").await {
            Ok(()) => self.hostile.fetch_add(1, Ordering::Relaxed),
            Err(refused) => {
                assert_eq!(refused, NoTurn::Full);
                self.refused.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    /// Comes, waits a little, and leaves: now in the queue, now with its turn.
    async fn impatient(self: Arc<Self>, client: &'static str) {
        loop {
            let _ = timeout(DELAY / 3, self.request(client)).await;
            drop(timeout(DELAY * 2, self.take(client)).await);
        }
    }
}

/// The proxy's most for one origin, of which an eighth is kept from each client.
const WAITING_MAX: usize = 1024 - 1024 / 8;

#[test]
fn p2_a_hundred_thousand_waiters_leave_a_polite_client_its_share() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("two threads");
    let world = World::new();
    runtime.block_on(async {
        let mut crowd = JoinSet::new();
        for _ in 0..100_000 {
            crowd.spawn(Arc::clone(&world).crowd());
        }
        for client in ["impatient", "vanishing"] {
            crowd.spawn(Arc::clone(&world).impatient(client));
        }
        while world.refused.load(Ordering::Relaxed) < 100_000 - WAITING_MAX - 100 {
            tokio::task::yield_now().await;
        }
        assert!(world.lanes.counts().waiting <= WAITING_MAX + 3);
        let before = world.hostile.load(Ordering::Relaxed);
        // Several at a time, so that one waits at any moment: what starts while none does is no share of its.
        let mut polite = JoinSet::new();
        for _ in 0..4 {
            let world = Arc::clone(&world);
            polite.spawn(async move {
                for _ in 0..5 {
                    world.request("polite").await.expect("a turn");
                }
            });
        }
        polite.join_all().await;
        let hostile = world.hostile.load(Ordering::Relaxed) - before;
        assert!(hostile <= 21, "{hostile} requests of the hostile client beside 20");
        crowd.shutdown().await;
    });
    assert_eq!(world.lanes.counts().waiting, 0, "who has left does not wait");
}
