//! An hour of a thousand workers in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use courtesy::pace::hold::{Cause, Outcome};
use courtesy::pace::lane::{Arrival, Config, Enqueued, Kind, Lane, TurnId, WaiterId};
use courtesy::pace::tick::Tick;
use courtesy::types::ClientKey;
use courtesy::types::origin::Scheme;

const HOUR: Duration = Duration::from_secs(3600);
const WORKERS: usize = 1000;
const CLIENTS: usize = 50;
const ORIGINS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker has a request for some origin.
    Arrive(usize),
    /// The time of a granted turn, by origin, worker and number.
    Start(usize, usize, usize),
    Respond(usize, usize, usize),
    /// A lane may have something to grant.
    Wake(usize),
}

/// One origin, as it sees the requests.
struct Site {
    lane: Lane,
    delay: Duration,
    /// Each with its worker, and when it arrived.
    waiting: HashMap<WaiterId, (usize, Tick)>,
    /// Each with the arrival of its request.
    turns: Vec<(TurnId, Tick)>,
    last_start: Option<Tick>,
    starts: u32,
    held_until: Tick,
    /// By how much starts came later than they could have.
    lost: Duration,
    /// By a client that waits and another one: the turns of that since the last one of the first.
    ahead: HashMap<(ClientKey, ClientKey), u32>,
}

/// A generator of numbers that are the same in each run.
struct Numbers(u64);

struct World {
    sites: Vec<Site>,
    events: BinaryHeap<Reverse<(Tick, u64, Event)>>,
    numbers: Numbers,
    count: u64,
}

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

impl Site {
    fn new(seconds: u64) -> Self {
        let backoff_min = Duration::from_secs(10);
        let config = Config { delay: Duration::ZERO, concurrency: 8, backoff_min };
        Self {
            lane: Lane::new(config, false),
            delay: Duration::from_secs(seconds),
            waiting: HashMap::new(),
            turns: Vec::new(),
            last_start: None,
            starts: 0,
            held_until: Tick::default(),
            lost: Duration::ZERO,
            ahead: HashMap::new(),
        }
    }

    /// While one client waits, another has one turn at most.
    fn note_turn(&mut self, client: &ClientKey) {
        self.ahead.retain(|(waiting, _), _| waiting != client);
        let others: HashSet<_> =
            self.waiting.values().map(|(worker, _)| client_of(*worker)).collect();
        for waiting in others.into_iter().filter(|waiting| waiting != client) {
            let ahead = self.ahead.entry((waiting, client.clone())).or_default();
            *ahead += 1;
            assert!(*ahead <= 1, "{client:?} has had {ahead} turns while another waited");
        }
    }
}

fn client_of(worker: usize) -> ClientKey {
    ClientKey::User((worker % CLIENTS).to_string().into())
}

impl World {
    fn at(&mut self, tick: Tick, event: Event) {
        self.count += 1;
        self.events.push(Reverse((tick, self.count, event)));
    }

    fn arrive(&mut self, worker: usize, now: Tick) {
        let at = self.numbers.below(ORIGINS as u64) as usize;
        let site = &mut self.sites[at];
        let client = client_of(worker);
        let kind = Kind::Page { group: "*", delay: site.delay, not_before: None };
        let arrival = Arrival { client: &client, scheme: Scheme::Https, kind, max_wait: HOUR };
        let Enqueued::Waits(waiter) = site.lane.enqueue(&arrival, now) else {
            panic!("it would wait for an hour")
        };
        site.waiting.insert(waiter, (worker, now));
        self.grant(at, now);
    }

    fn grant(&mut self, at: usize, now: Tick) {
        let mut granted = Vec::new();
        let site = &mut self.sites[at];
        while let Some(grant) = site.lane.grant(now) {
            let (worker, arrived) = site.waiting.remove(&grant.waiter).expect("it waited");
            site.note_turn(&client_of(worker));
            site.turns.push((grant.turn, arrived));
            granted.push((grant.start_at, Event::Start(at, worker, site.turns.len() - 1)));
        }
        granted.extend(site.lane.wakes_at(now).map(|tick| (tick.max(now + TICK), Event::Wake(at))));
        granted.into_iter().for_each(|(tick, event)| self.at(tick, event));
    }

    fn start(&mut self, at: usize, worker: usize, number: usize, now: Tick) {
        let site = &mut self.sites[at];
        let (turn, arrived) = site.turns[number];
        if let Err(later) = site.lane.start(turn, now) {
            return self.at(later, Event::Start(at, worker, number));
        }
        assert_eq!(site.lane.hold_at(now), None, "a start on hold");
        let mut earliest = arrived.max(site.held_until);
        if let Some(last) = site.last_start.replace(now) {
            assert!(now.since(last) >= site.delay, "{:?} after the last start", now.since(last));
            earliest = earliest.max(last + site.delay);
        }
        site.lost += now.since(earliest);
        site.starts += 1;
        let length = Duration::from_millis(20 + self.numbers.below(900));
        self.at(now + length, Event::Respond(at, worker, number));
        self.grant(at, now);
    }

    fn respond(&mut self, at: usize, worker: usize, number: usize, now: Tick) {
        let outcome = match self.numbers.below(1000) {
            0 => Outcome::RetryLater {
                status: 429,
                cause: Cause::RetryAfter,
                after: Duration::from_secs(5 + self.numbers.below(25)),
            },
            1 => Outcome::Overload { status: 503 },
            2..10 => Outcome::Failure { status: 500 },
            10..20 => Outcome::Ignored,
            _ => Outcome::Good,
        };
        let site = &mut self.sites[at];
        let (turn, _) = site.turns[number];
        site.lane.note(turn, outcome, now, 0.5);
        site.lane.end(turn);
        if let Some(hold) = site.lane.hold_at(now) {
            site.held_until = hold.until;
        }
        self.grant(at, now);
        self.at(now + TICK, Event::Arrive(worker));
    }
}

const TICK: Duration = Duration::from_micros(1);

#[test]
fn a_thousand_workers_use_what_delays_allow_and_share_it() {
    let sites = (0..ORIGINS).map(|at| Site::new(1 + at as u64 % 10)).collect();
    let mut world = World { sites, events: BinaryHeap::new(), numbers: Numbers(7), count: 0 };
    (0..WORKERS).for_each(|worker| world.at(Tick::default(), Event::Arrive(worker)));
    while let Some(Reverse((now, _, event))) = world.events.pop() {
        if now > Tick::default() + HOUR {
            break;
        }
        match event {
            Event::Arrive(worker) => world.arrive(worker, now),
            Event::Start(at, worker, number) => world.start(at, worker, number, now),
            Event::Respond(at, worker, number) => world.respond(at, worker, number, now),
            Event::Wake(at) => world.grant(at, now),
        }
    }
    let used: f64 = world.sites.iter().map(|it| (it.delay * it.starts).as_secs_f64()).sum();
    let lost: f64 = world.sites.iter().map(|it| it.lost.as_secs_f64()).sum();
    let starts: u32 = world.sites.iter().map(|it| it.starts).sum();
    println!(
        "{starts} starts use {used:.0} s of the lanes and leave {lost:.0} s in which one waited"
    );
    assert!(lost <= 0.01 * used, "{lost} beside {used}");
    assert!(starts > 50_000, "{starts}: too few to say something");
}
