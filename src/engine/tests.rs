//! Leases, slots, holds and presence, as several proxies see them over one engine in memory.

mod holds;
mod leases;
mod network;
mod slots;
mod together;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::types::origin::{Origin, Scheme};

/// The time at which the tests begin.
const START: Micros = 1_800_000_000_000_000;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A response that must be there at once.
#[track_caller]
fn now<T>(mut pending: Pending<T>) -> T {
    match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.expect("the engine is there"),
        Poll::Pending => panic!("an engine in memory does not wait"),
    }
}

/// Proxies `a`, `b` and `c` on one engine.
struct Three {
    clock: Arc<ManualEngineClock>,
    a: MemoryEngine,
    b: MemoryEngine,
    c: MemoryEngine,
    site: Origin,
}

impl Three {
    fn new() -> Self {
        let clock = ManualEngineClock::starting_at(START);
        let a = MemoryEngine::new(Config::named("a"), Arc::clone(&clock) as _);
        let (b, c) = (a.beside(Config::named("b")), a.beside(Config::named("c")));
        let site = Origin::from_authority(Scheme::Https, "example.com").unwrap();
        Self { clock, a, b, c, site }
    }

    /// The heartbeats of these, for so long.
    fn beat_for(&self, length: Duration, engines: &[&MemoryEngine]) {
        for _ in 0..length.as_millis() / 500 {
            self.clock.advance(ms(500));
            engines.iter().for_each(|engine| drop(now(engine.heartbeat())));
        }
    }

    fn lookup(&self, engine: &MemoryEngine, have: LeaseToken) -> LookupOutcome {
        let request = LookupRequest { origin: &self.site, have, may_fetch: true, is_used: false };
        now(engine.lookup(request)).outcome
    }

    fn publish(&self, engine: &MemoryEngine, token: LeaseToken, value: &[u8]) -> PublishOutcome {
        now(engine.publish(PublishRequest { origin: &self.site, token, value }))
    }

    /// For a group with an asked delay of ten seconds.
    fn reserve_slots(&self, engine: &MemoryEngine, count: u8) -> ReservedSlots {
        now(engine.reserve_slots(SlotsRequest { count, ..self.request() }))
    }

    fn request(&self) -> SlotsRequest<'_> {
        SlotsRequest {
            origin: &self.site,
            group: "examplebot",
            lane_delay: Duration::ZERO,
            site_delay: seconds(10),
            cell_delay: seconds(10),
            slack: ms(100),
            horizon: seconds(120),
            count: 1,
            left: Duration::ZERO,
            missed: None,
        }
    }
}

/// The lease that was given.
#[track_caller]
fn lease(known: LookupOutcome) -> LeaseToken {
    let LookupOutcome::Lease(token) = known else { panic!("{known:?}") };
    token
}
