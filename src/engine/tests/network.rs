//! Starts of proxies over a network that is slow at random, by clocks of their own, in virtual
//! time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;

const PROXIES: usize = 40;
const DELAY: Duration = ms(1000);
const HORIZON: Duration = seconds(120);
/// A mean round trip of 6 ms.
const SLACK: Duration = ms(54);

/// What happens next, in true time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A proxy sends a request; the engine has it later.
    Send {
        proxy: usize,
    },
    Decide {
        proxy: usize,
        sent: u64,
    },
    Receive {
        proxy: usize,
        sent: u64,
        slot: u64,
    },
    /// A request of the proxy starts, unless it is too late.
    Start {
        proxy: usize,
        until: u64,
    },
}

/// A proxy's clock: it began at another time, and differs in rate by so many millionths.
#[derive(Clone, Copy)]
struct OwnClock {
    offset: u64,
    rate: i64,
}

impl OwnClock {
    fn at(self, truth: u64) -> Duration {
        let drift = (truth as i64 / 1000 * self.rate / 1000) as i128;
        Duration::from_micros((i128::from(truth) + drift) as u64 + self.offset)
    }

    /// The true time at which this clock shows `own`, or a little later.
    fn truth(self, own: Duration) -> u64 {
        let own = (own.as_micros() as u64 - self.offset) as f64;
        (own / (1.0 + self.rate as f64 / 1e6)).ceil() as u64 + 1
    }
}

struct Network {
    three: Three,
    engines: Vec<MemoryEngine>,
    clocks: Vec<OwnClock>,
    random: TestRng,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// When each proxy's requests started.
    starts: Vec<(u64, usize)>,
    missed: usize,
}

impl Network {
    fn new(seed: u8) -> Self {
        let three = Three::new();
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let engine = |number| three.a.beside(Config::named(format!("proxy{number}")));
        let engines = (0..PROXIES).map(engine).collect();
        let clock = |_| OwnClock {
            offset: random.next_u64() % 1_000_000_000,
            rate: (random.next_u64() % 100) as i64 - 50,
        };
        let clocks = (0..PROXIES).map(clock).collect();
        let events = (0..PROXIES).map(|proxy| Reverse((proxy as u64, Event::Send { proxy })));
        let events = events.collect();
        Self { three, engines, clocks, random, events, starts: Vec::new(), missed: 0 }
    }

    /// One way over the network: mostly 3 ms, one in a hundred up to 300.
    fn way(&mut self) -> u64 {
        let long = if self.random.next_u64().is_multiple_of(100) { 300_000 } else { 4000 };
        1000 + self.random.next_u64() % long
    }

    fn run(&mut self, until: u64) {
        while let Some(Reverse((now, event))) = self.events.pop() {
            if now > until {
                return;
            }
            if let Some((after, event)) = self.handle(now, event) {
                self.events.push(Reverse((now + after, event)));
            }
        }
    }

    fn handle(&mut self, now: u64, event: Event) -> Option<(u64, Event)> {
        match event {
            Event::Send { proxy } => Some((self.way(), Event::Decide { proxy, sent: now })),
            Event::Decide { proxy, sent } => {
                self.three.clock.set(START + now);
                let request = SlotsRequest {
                    site_delay: DELAY,
                    slack: SLACK,
                    horizon: HORIZON,
                    ..self.three.request()
                };
                let reserved = super::now(self.engines[proxy].reserve_slots(request));
                let slot = reserved.slots.first()?.as_micros() as u64;
                Some((self.way(), Event::Receive { proxy, sent, slot }))
            }
            Event::Receive { proxy, sent, slot } => {
                let clock = self.clocks[proxy];
                let (sent, slot) = (clock.at(sent), Duration::from_micros(slot));
                let Some((begin, end)) = start_window(sent, clock.at(now), slot, SLACK) else {
                    self.missed += 1;
                    return Some((0, Event::Send { proxy }));
                };
                // The scheduler is late, too.
                let start = clock.truth(begin).max(now) + self.random.next_u64() % 5000;
                Some((start - now, Event::Start { proxy, until: end.as_micros() as u64 }))
            }
            Event::Start { proxy, until } => {
                if self.clocks[proxy].at(now).as_micros() as u64 <= until {
                    self.starts.push((now, proxy));
                } else {
                    self.missed += 1;
                }
                Some((0, Event::Send { proxy }))
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn e1_starts_are_a_delay_apart_whatever_network_and_clocks_do(seed in any::<u8>()) {
        let mut network = Network::new(seed);
        network.run(seconds(1800).as_micros() as u64);
        network.starts.sort_unstable();
        for pair in network.starts.windows(2) {
            let distance = Duration::from_micros(pair[1].0 - pair[0].0);
            prop_assert!(distance + ms(1) / 100 >= DELAY, "{:?} apart: {:?}", distance, pair);
        }
        // Of 1,707 that the delay and the slack leave room for.
        prop_assert!(network.starts.len() > 1622, "{} starts", network.starts.len());
        let slots = network.starts.len() + network.missed;
        prop_assert!(20 * network.missed <= slots, "{} of {} missed", network.missed, slots);
        let counts: Vec<_> = (0..PROXIES)
            .map(|proxy| network.starts.iter().filter(|start| start.1 == proxy).count())
            .collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        prop_assert!(most - least <= 6, "{counts:?}");
    }
}
