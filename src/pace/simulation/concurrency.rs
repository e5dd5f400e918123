//! Requests under way at a site without a delay, whose concurrency the proxies there share.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{Agenda, Chance, OwnClock, SECOND, Truth, now, site};
use crate::engine::{Config, Engine, ManualEngineClock, MemoryEngine};
use crate::pace::lane::{Arrival, Config as LaneConfig, Enqueued, Kind, Lane, Share, TurnId};
use crate::types::ClientKey;
use crate::types::origin::Scheme;

const START: u64 = 1_800_000_000_000_000;
/// `pace.concurrency`.
const PLACES: usize = 8;
/// The longest request.
const LONGEST: Truth = 3 * SECOND;
/// Time between two announcements of a proxy (T).
const MARKS: Truth = 15 * SECOND;
/// Requests of each proxy that wait or are under way.
const REQUESTS: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Next {
    /// The proxy announces itself; the response comes later.
    Announce(usize),
    Announced(usize, u32),
    /// A request is over, and another comes.
    End(usize, TurnId),
}

struct Proxies {
    clock: Arc<ManualEngineClock>,
    all: Vec<(MemoryEngine, OwnClock, Lane)>,
    agenda: Agenda<Next>,
    chance: Chance,
    under_way: usize,
    /// The most at one time, once all have been here for long enough.
    most: usize,
}

impl Proxies {
    fn new(count: usize, seed: u8) -> Self {
        let mut chance = Chance::new(seed);
        let clock = ManualEngineClock::starting_at(START);
        let first = MemoryEngine::new(Config::named("first"), Arc::clone(&clock) as _);
        let config = LaneConfig { concurrency: PLACES, ..crate::pace::Config::off().lane };
        let proxy = |number: usize| {
            let engine = first.beside(Config::named(number.to_string()));
            (engine, OwnClock::new(&mut chance), Lane::new(config, false))
        };
        let all = (0..count).map(proxy).collect();
        let agenda = Agenda::new();
        Self { clock, all, agenda, chance, under_way: 0, most: 0 }
    }

    /// Runs until then; what is under way counts from `since` on.
    fn run(&mut self, since: Truth, until: Truth) {
        for proxy in 0..self.all.len() {
            // They come one after the other, in ten seconds.
            self.agenda.add(self.chance.below(10 * SECOND), Next::Announce(proxy));
        }
        while let Some((at, next)) = self.agenda.next_before(until) {
            self.step(at, next);
            if at >= since {
                self.most = self.most.max(self.under_way);
            }
        }
    }

    fn step(&mut self, at: Truth, next: Next) {
        match next {
            Next::Announce(proxy) => {
                self.clock.set(START + at);
                let presence =
                    now(self.all[proxy].0.announce_presence(&site())).expect("it is there");
                let proxies = u32::try_from(presence.proxies).expect("a thousand");
                self.agenda.add(at + self.chance.way(), Next::Announced(proxy, proxies));
                self.agenda.add(at + MARKS, Next::Announce(proxy));
            }
            Next::Announced(proxy, proxies) => {
                self.all[proxy].2.set_share(Share { proxies, ..Share::ALONE });
                self.fill(proxy, at);
            }
            Next::End(proxy, turn) => {
                self.under_way -= 1;
                self.all[proxy].2.end(turn);
                self.fill(proxy, at);
            }
        }
    }

    /// The proxy has always requests that wait, and starts those that may.
    fn fill(&mut self, proxy: usize, at: Truth) {
        let (_, clock, lane) = &mut self.all[proxy];
        let own = clock.at(at);
        let kind = Kind::Page { group: "*", delay: Duration::ZERO, not_before: None };
        let arrival = Arrival {
            client: &ClientKey::Proxy,
            scheme: Scheme::Https,
            kind,
            max_wait: Duration::from_secs(1000),
        };
        while lane.waiting() < REQUESTS {
            assert!(matches!(lane.enqueue(&arrival, own), Enqueued::Waits(_)));
        }
        while let Some(grant) = lane.grant(own) {
            lane.start(grant.turn, own).expect("it has no delay");
            self.under_way += 1;
            let length = self.chance.below(LONGEST - SECOND / 10) + SECOND / 10;
            self.agenda.add(at + length, Next::End(proxy, grant.turn));
        }
    }
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn proxies_at_a_site_share_its_places(seed in any::<u8>()) {
        for count in [1, 3, 8, 50, 1000] {
            let mut proxies = Proxies::new(count, seed);
            // The last has come, all have heard of it, and what was under way before is over.
            let shared = 10 * SECOND + MARKS + SECOND + LONGEST;
            proxies.run(shared, shared + 30 * SECOND);
            let most = PLACES.max(count);
            prop_assert!(proxies.most <= most, "E5, {count}: {} under way", proxies.most);
            // An eighth is reserved from each client, and parts are whole numbers.
            prop_assert!(2 * proxies.most > most, "{count}: {} under way", proxies.most);
        }
    }
}
