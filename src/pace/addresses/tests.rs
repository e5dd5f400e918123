use std::net::Ipv4Addr;

use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::*;
use crate::pace::config::{AddressLimits, Config, PaceMode};
use crate::pace::lanes::Lanes;
use crate::pace::turn::Turn;
use crate::pace::turn_request::TurnRequest;
use crate::pace::visits::Visit;
use crate::runtime::clock::{SystemClock, monotonic};
use crate::types::ClientKey;
use crate::types::origin::{Host, Origin, Scheme};

const DELAY: Duration = Duration::from_millis(40);
const MINUTE: Duration = Duration::from_secs(60);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// Requests of some clients at the origins of a few addresses.
struct World {
    lanes: Arc<Lanes>,
    shutdown: CancellationToken,
}

/// What a test calls a request.
#[derive(Clone, Copy)]
enum Request {
    Page,
    Subresource,
    RobotsTxt,
}

fn config(delay: Duration, concurrency: usize) -> Config {
    Config {
        mode: PaceMode::Enforce,
        max_wait: Duration::from_secs(20),
        max_waiting_per_origin: 100,
        addresses: AddressLimits { delay, concurrency, shared: Vec::new() },
        ..Config::off()
    }
}

impl World {
    fn new(config: Config) -> Self {
        let lanes = Lanes::new(config, Arc::new(SystemClock));
        Self { lanes, shutdown: CancellationToken::new() }
    }

    /// The turn of a page of that origin, for that client.
    async fn turn(&self, origin: &str, client: u8) -> Turn {
        self.turn_of(Request::Page, origin, client).await
    }

    async fn turn_of(&self, request: Request, origin: &str, client: u8) -> Turn {
        let request = TurnRequest {
            origin: &Origin::new(Scheme::Http, Host::Name(origin.into()), 80),
            client: &ClientKey::of([192, 0, 2, client].into()),
            mode: None,
            group: "",
            site_pace: None,
            outside_visit_time: None,
            visit: match request {
                Request::Subresource => Visit::Subresource(None),
                Request::Page | Request::RobotsTxt => Visit::Document,
            },
            is_robots_txt: matches!(request, Request::RobotsTxt),
            max_wait: None,
            shutdown: &self.shutdown,
        };
        self.lanes.acquire(&request).await.expect("nothing to wait for at the origin")
    }

    /// Whether the request starts at once.
    async fn starts(&self, turn: &mut Turn, address: IpAddr) -> bool {
        let has_started = self.lanes.try_start(turn, Some(address)) || {
            // Where there is a delay, a turn is always granted in the queue.
            let mut ready =
                Box::pin(self.lanes.wait_for_start_time(turn, Some(address), &self.shutdown));
            let is_ready = tokio::select! {
                biased;
                ready = &mut ready => ready.is_ok(),
                () = std::future::ready(()) => false,
            };
            drop(ready);
            is_ready && self.lanes.try_start(turn, Some(address))
        };
        if has_started {
            turn.note_request_written();
        }
        has_started
    }

    async fn started(&self, turn: &mut Turn, address: IpAddr) -> Result<(), NoTurn> {
        self.lanes.start(turn, Some(address), &self.shutdown).await?;
        turn.note_request_written();
        Ok(())
    }

    fn addresses(&self) -> usize {
        self.lanes.addresses.shard.lock().len()
    }
}

#[tokio::test]
async fn starts_at_one_address_are_a_delay_apart_over_its_origins() {
    // A slow machine takes less to come to the next request.
    const DELAY: Duration = Duration::from_millis(500);
    let world = World::new(config(DELAY, 0));
    let begun = monotonic();
    for (number, origin) in ["a.example", "b.example", "c.example"].into_iter().enumerate() {
        let mut turn = world.turn(origin, 1).await;
        // One address in its two forms.
        let v6 = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
        let address = if number == 1 { v6.into() } else { HERE };
        world.started(&mut turn, address).await.unwrap();
        assert!(begun.elapsed() >= DELAY * u32::try_from(number).unwrap());
        let waited = turn.waited().map(|waited| (waited.by, waited.delay));
        assert_eq!(waited, (number > 0).then_some((WaitReason::Address, DELAY)));
    }
    assert!(world.starts(&mut world.turn("d.example", 1).await, THERE).await);
}

#[tokio::test]
async fn pages_wait_and_what_is_no_page_does_not() {
    for (request, must_wait) in
        [(Request::Page, true), (Request::Subresource, false), (Request::RobotsTxt, false)]
    {
        let world = World::new(config(MINUTE, 0));
        // It begins the visit of the sub-resources.
        let mut document = world.turn("a.example", 1).await;
        assert!(world.starts(&mut document, HERE).await);
        let html = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/html"))]);
        document.note_response(StatusCode::OK, &html);
        drop(document);
        let mut turn = world.turn_of(request, "a.example", 1).await;
        assert_eq!(!world.starts(&mut turn, HERE).await, must_wait);
    }
}

#[tokio::test]
async fn addresses_of_shared_networks_have_no_limits() {
    for (networks, must_wait) in [
        (&[][..], true),
        (&["192.0.2.0/24"][..], false),
        (&["2001:db8::/32", "192.0.2.1/32"], false),
        (&["192.0.3.0/24"], true),
    ] {
        let mut config = config(MINUTE, 1);
        config.addresses.shared = networks.iter().map(|it| it.parse().unwrap()).collect();
        let world = World::new(config);
        let (mut first, mut second) =
            (world.turn("a.example", 1).await, world.turn("b.example", 1).await);
        assert!(world.starts(&mut first, HERE).await);
        assert_eq!(!world.starts(&mut second, HERE).await, must_wait, "{networks:?}");
        assert_eq!(world.addresses(), usize::from(must_wait));
    }
}

#[tokio::test]
async fn requests_under_way_at_an_address_are_bounded() {
    let world = World::new(config(Duration::ZERO, 2));
    let mut turns = Vec::new();
    for (number, must_wait) in [(1, false), (2, false), (3, true)] {
        let mut turn = world.turn(&format!("{number}.example"), number).await;
        assert_eq!(!world.starts(&mut turn, HERE).await, must_wait, "{number}");
        turns.push(turn);
    }
    let mut waiting = turns.pop().unwrap();
    let (started, ()) = tokio::join!(world.started(&mut waiting, HERE), async {
        tokio::task::yield_now().await;
        assert_eq!(world.lanes.counts().waiting, 1);
        turns.pop();
    });
    started.unwrap();
    assert_eq!(world.lanes.counts().waiting, 0);
}

#[tokio::test]
async fn a_request_that_would_wait_too_long_is_refused_by_its_address() {
    let world = World::new(config(MINUTE, 0));
    assert!(world.starts(&mut world.turn("a.example", 1).await, HERE).await);
    let no_turn = world.started(&mut world.turn("b.example", 1).await, HERE).await.unwrap_err();
    let NoTurn::TooLong { wait, by: WaitReason::Address, line: None, delay: MINUTE } = no_turn
    else {
        panic!("{no_turn:?}");
    };
    assert!(wait > MINUTE - Duration::from_secs(5) && wait <= MINUTE, "{wait:?}");
    assert_eq!(world.lanes.counts().refusals, [1, 0, 0]);
}

#[tokio::test]
async fn patience_that_is_over_while_a_request_waits_is_refused_too() {
    let config = Config { max_wait: DELAY, ..config(Duration::ZERO, 1) };
    let world = World::new(config);
    let mut first = world.turn("a.example", 1).await;
    assert!(world.starts(&mut first, HERE).await);
    let no_turn = world.started(&mut world.turn("b.example", 1).await, HERE).await.unwrap_err();
    assert!(matches!(no_turn, NoTurn::TooLong { by: WaitReason::Address, .. }), "{no_turn:?}");
    assert_eq!(world.lanes.counts().waiting, 0);
}

#[tokio::test]
async fn clients_take_turns_at_an_address() {
    let world = World::new(config(DELAY, 0));
    assert!(world.starts(&mut world.turn("a.example", 1).await, HERE).await);
    let order = Lock::new(Vec::new());
    let request = async |client: u8| {
        let mut turn = world.turn(&format!("{client}.example"), client).await;
        world.started(&mut turn, HERE).await.unwrap();
        order.lock().push(client);
    };
    tokio::join!(request(1), request(1), request(1), request(2));
    assert_eq!(*order.lock(), [1, 2, 1, 1]);
}

#[tokio::test]
async fn a_request_that_waits_for_its_origin_takes_no_address() {
    let world = World::new(config(DELAY, 1));
    let (mut first, mut second) =
        (world.turn("a.example", 1).await, world.turn("a.example", 1).await);
    assert!(world.starts(&mut first, HERE).await);
    // The second waits for its address, and has a turn there when its origin is held.
    let (ready, ()) = tokio::join!(
        world.lanes.wait_for_start_time(&mut second, Some(HERE), &world.shutdown),
        async {
            tokio::task::yield_now().await;
            let rest = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("2"))]);
            first.note_response(StatusCode::TOO_MANY_REQUESTS, &rest);
            drop(first);
        }
    );
    assert!(ready.unwrap() >= DELAY / 2);
    assert!(!world.lanes.try_start(&mut second, Some(HERE)), "its origin is held");
    let mut other = world.turn("b.example", 1).await;
    let (mut started, mut begun) = (None, None);
    tokio::join!(
        async {
            world.started(&mut second, HERE).await.unwrap();
            started = Some(monotonic());
        },
        async {
            world.started(&mut other, HERE).await.unwrap();
            begun = Some(monotonic());
            drop(other);
        }
    );
    assert!(begun.unwrap() < started.unwrap(), "the origin that is held delays no other");
}

#[tokio::test]
async fn a_second_sending_starts_again_at_its_address() {
    for (address, must_wait) in [(HERE, true), (THERE, false)] {
        let world = World::new(config(DELAY, 1));
        let mut turn = world.turn("a.example", 1).await;
        let begun = monotonic();
        assert!(world.starts(&mut turn, HERE).await);
        turn.rearm();
        assert_eq!(!world.starts(&mut turn, address).await, must_wait);
        world.started(&mut turn, address).await.unwrap();
        assert_eq!(begun.elapsed() >= DELAY, must_wait);
        // What it has of the first address, it has given back.
        let mut other = world.turn("b.example", 1).await;
        let free = if must_wait { THERE } else { HERE };
        world.started(&mut other, free).await.unwrap();
    }
}

#[tokio::test]
async fn a_second_sending_does_not_wait_longer_than_it_may() {
    let world = World::new(config(MINUTE, 0));
    let mut turn = world.turn("a.example", 1).await;
    assert!(world.starts(&mut turn, HERE).await);
    turn.rearm();
    let no_turn = world.started(&mut turn, HERE).await.unwrap_err();
    assert!(matches!(no_turn, NoTurn::TooLong { by: WaitReason::Address, .. }), "{no_turn:?}");
}

#[tokio::test]
async fn changed_limits_apply_to_the_requests_that_wait() {
    let with_shared = AddressLimits { shared: vec![HERE.into()], ..config(DELAY, 1).addresses };
    for changed in [
        config(Duration::ZERO, 2).addresses,
        config(Duration::ZERO, 0).addresses,
        AddressLimits { delay: DELAY, ..with_shared },
    ] {
        let config = config(Duration::ZERO, 1);
        let world = World::new(config.clone());
        let (mut first, mut second) =
            (world.turn("a.example", 1).await, world.turn("b.example", 2).await);
        assert!(world.starts(&mut first, HERE).await);
        let (started, ()) = tokio::join!(world.started(&mut second, HERE), async {
            tokio::task::yield_now().await;
            world.lanes.change(Config { addresses: changed.clone(), ..config });
        });
        started.unwrap();
        drop(first);
        assert_eq!(world.addresses(), usize::from(changed.apply_to(HERE)));
    }
}

#[tokio::test]
async fn a_request_that_would_start_after_the_end_of_the_proxy_is_refused() {
    let world = World::new(config(Duration::from_secs(10), 0));
    assert!(world.starts(&mut world.turn("a.example", 1).await, HERE).await);
    world.shutdown.cancel();
    let no_turn = world.started(&mut world.turn("b.example", 1).await, HERE).await;
    assert_eq!(no_turn, Err(NoTurn::Stopping));
}

#[tokio::test]
async fn where_the_mode_is_to_observe_the_wait_is_counted() {
    let world = World::new(Config { mode: PaceMode::Observe, ..config(MINUTE, 1) });
    for _ in 0..3 {
        let mut turn = world.turn("a.example", 1).await;
        assert!(world.lanes.try_start(&mut turn, Some(HERE)));
        turn.note_request_written();
        turn.rearm();
        assert!(world.lanes.try_start(&mut turn, Some(HERE)));
    }
    assert_eq!(world.lanes.counts().would_wait.count(), 2);
}

#[tokio::test]
async fn the_first_start_follows_those_of_the_process_before() {
    for (is_first_process, must_wait) in [(true, false), (false, true)] {
        let world = World::new(config(MINUTE, 0));
        if !is_first_process {
            world.lanes.restore(Vec::new(), true);
        }
        let mut turn = world.turn("a.example", 1).await;
        assert_eq!(!world.starts(&mut turn, HERE).await, must_wait);
    }
}

#[tokio::test]
async fn what_need_not_be_remembered_of_an_address_is_not() {
    let world = World::new(config(Duration::ZERO, 1));
    let mut kept = world.turn("kept.example", 1).await;
    assert!(world.starts(&mut kept, HERE).await);
    for number in 0..200 {
        let address = IpAddr::from([198, 51, 100, number]);
        assert!(world.starts(&mut world.turn("a.example", 1).await, address).await);
        assert!(world.addresses() <= 64);
    }
    let mut other = world.turn("b.example", 1).await;
    assert!(!world.starts(&mut other, HERE).await, "one that is in use is remembered");
}
