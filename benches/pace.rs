//! What the pace costs beside the path of a request: the memory of lanes with a waiting request,
//! and the processor time of the thread that grants their turns. `cargo bench --bench pace --
//! [LANES] [GRANTS A SECOND]`, by default a million and ten thousand.

use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use courtesy::config::Settings;
use courtesy::pace::config::WAITING_MAX;
use courtesy::pace::{Lanes, NoTurn, Turn, TurnRequest, Visit};
use courtesy::policy::pace::SitePace;
use courtesy::robots::DelayRecord;
use courtesy::runtime::clock::{SystemClock, monotonic};
use courtesy::types::ClientKey;
use courtesy::types::origin::{Host, Origin, Scheme};
use tikv_jemallocator::Jemalloc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Starts in each lane, a second apart.
const STARTS: usize = 5;

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Turn, NoTurn>> + Send + 'a>>;

/// What the calls borrow.
struct World {
    lanes: Arc<Lanes>,
    origins: Vec<Origin>,
    client: ClientKey,
    shutdown: CancellationToken,
    delay: Duration,
}

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let lanes = numbers.next().unwrap_or(1_000_000);
    let grants = numbers.next().unwrap_or(10_000);
    // First: the thread of the other lanes would be counted with the one of these.
    time(grants);
    memory(lanes);
}

/// Lanes with one waiting request each.
fn memory(count: usize) {
    let world = World::new(count, Duration::from_secs(1000));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let before = resident();
    let calls: Vec<_> = world.origins.iter().map(|origin| world.call(origin)).collect();
    let with_calls = resident();
    let mut waiting: Vec<Waiting<'_>> = Vec::with_capacity(count);
    let with_list = resident();
    for call in &calls {
        let mut first: Waiting<'_> = Box::pin(world.lanes.acquire(call));
        let Poll::Ready(Ok(mut turn)) = poll_once(&mut first) else { panic!("a first turn") };
        assert!(world.lanes.try_start(&mut turn, None));
        drop(turn);
    }
    let with_lanes = resident();
    let mut futures = 0;
    // As many as may wait.
    let waiters = count.min(WAITING_MAX);
    for call in calls.iter().take(waiters) {
        let mut second: Waiting<'_> = Box::pin(world.lanes.acquire(call));
        assert!(poll_once(&mut second).is_pending());
        futures += size_of_val(&*second);
        waiting.push(second);
    }
    let with_waiters = resident();
    println!(
        "{count} lanes: {} bytes each; with a waiting request: {} more, {} of them its future; calls {}",
        (with_lanes - with_list) / count,
        (with_waiters - with_lanes) / waiters,
        futures / waiters,
        (with_calls - before) / count,
    );
    assert_eq!(world.lanes.counts().waiting, waiters);
}

/// Lanes of a second each, in which some request always waits.
fn time(count: usize) {
    let world = Arc::new(World::new(count, Duration::from_secs(1)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (begun, before) = (monotonic(), timer_time());
    runtime.block_on(async {
        let mut crawls = JoinSet::new();
        for number in 0..count {
            let world = Arc::clone(&world);
            crawls.spawn(async move {
                let call = world.call(&world.origins[number]);
                for _ in 0..STARTS {
                    let mut turn = world.lanes.acquire(&call).await.expect("a turn");
                    let started = world.lanes.start(&mut turn, None, &world.shutdown);
                    started.await.expect("no hold");
                    turn.note_request_written();
                }
            });
        }
        while crawls.join_next().await.is_some() {}
    });
    let (took, used) = (begun.elapsed(), timer_time() - before);
    println!(
        "{} grants in {:.2} s: {:.1} % of a core in the thread that grants them",
        STARTS * count,
        took.as_secs_f64(),
        100.0 * used.as_secs_f64() / took.as_secs_f64()
    );
}

impl World {
    fn new(count: usize, delay: Duration) -> Self {
        let mut settings = Settings::default();
        settings.pace.max_wait = 2 * delay;
        let name = |number: usize| Host::Name(format!("site-{number}.example").into());
        Self {
            lanes: Lanes::new(settings.pace(), Arc::new(SystemClock)),
            origins: (0..count)
                .map(|number| Origin::new(Scheme::Https, name(number), 443))
                .collect(),
            client: ClientKey::Proxy,
            shutdown: CancellationToken::new(),
            delay,
        }
    }

    fn call<'a>(&'a self, origin: &'a Origin) -> TurnRequest<'a> {
        TurnRequest {
            origin,
            client: &self.client,
            mode: None,
            group: "*",
            site_pace: Some(SitePace {
                delay: self.delay,
                asked: self.delay,
                record: DelayRecord::CrawlDelay,
                line: 2,
                is_exempted: false,
            }),
            outside_visit_time: None,
            visit: Visit::None,
            is_robots_txt: false,
            max_wait: None,
            shutdown: &self.shutdown,
        }
    }
}

fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("a process");
    let pages: usize = pages.split(' ').nth(1).expect("a number").parse().expect("a number");
    pages * rustix::param::page_size()
}

/// The processor time of the thread that grants turns, once there is one.
fn timer_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("a process").flatten();
    let of_timer = |stat: &String| stat.contains("(pace)");
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let ticks = stats.filter(of_timer).map(|stat| {
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let number = |index: usize| fields[index].parse::<u64>().expect("a number");
        number(11) + number(12)
    });
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks.sum::<u64>() as f64 / per_second as f64)
}
