//! The engine in memory and the scripts on a server give the same responses, and hold the same.

use std::collections::BTreeMap;

use bytes::Bytes;
use courtesy::engine::{
    EngineClock, HoldCause, HoldLength, HoldRequest, LeaseToken, LogHead, LookupOutcome,
    LookupRequest, ManualEngineClock, MemoryEngine, Micros, PublishRequest, SlotsRequest,
};
use courtesy::types::timestamp::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use super::*;
use crate::testkit::processes::Reply;

const START: Micros = 1_800_000_000_000_000;

/// One operation of one of the proxies at one of the origins.
#[derive(Clone, Debug)]
enum Step {
    Lookup {
        have: Have,
        may_fetch: bool,
        is_used: bool,
    },
    Publish {
        token: Have,
        value: Vec<u8>,
    },
    RenewLease(Have),
    ReleaseLease(Have),
    ReserveSlots {
        group: &'static str,
        own: u64,
        asked: u64,
        slack: u64,
        horizon: u64,
        count: u8,
        left: u64,
    },
    SetHold(HoldLength, u16, HoldCause),
    ResetBackoff,
    EndHold,
    AnnouncePresence,
    Heartbeat,
    /// Operations fail: the proxy says that it is alone.
    Alone,
    Leave,
    TakePlace(u64),
    LeavePlace(u64),
    Head(u64),
    File(u8),
    Lose,
    /// The clock is moved by so many microseconds, also back.
    Time(i64),
}

/// A token that one of the steps before has seen, or another one.
#[derive(Clone, Copy, Debug)]
enum Have {
    Seen(usize),
    Nothing,
    Far,
}

fn have() -> impl Strategy<Value = Have> {
    let seen = (0_usize..4).prop_map(Have::Seen);
    prop_oneof![8 => seen, 2 => Just(Have::Nothing), 1 => Just(Have::Far)]
}

fn reserve_slots() -> impl Strategy<Value = Step> {
    let millis = |max: u64| (0..max).prop_map(|length| length * 1000);
    // Half of all delays are none.
    let delay = || prop_oneof![Just(0), millis(20_000)];
    let group = prop::sample::select(&["", "examplebot", "otherbot"][..]);
    let lengths = (delay(), delay(), 40_000_u64..200_000, millis(150_000), millis(3000));
    (group, lengths, 0_u8..5).prop_map(|(group, lengths, count)| {
        let (own, asked, slack, horizon, left) = lengths;
        Step::ReserveSlots { group, own, asked, slack, horizon, count, left }
    })
}

fn hold() -> impl Strategy<Value = Step> {
    let length = prop_oneof![
        (0_u64..5_000_000).prop_map(|millis| HoldLength::For(Duration::from_millis(millis))),
        (1_u64..60, 1_u64..600, 0_u16..1200).prop_map(|(first, max, jitter)| {
            let (first, max) = (Duration::from_secs(first), Duration::from_secs(max));
            HoldLength::BackOff { first, max, jitter }
        }),
    ];
    let causes = vec![HoldCause::RetryAfter, HoldCause::RateLimit, HoldCause::BackOff];
    let statuses = prop::sample::select(&[429, 503][..]);
    (length, statuses, prop::sample::select(causes))
        .prop_map(|(length, status, cause)| Step::SetHold(length, status, cause))
}

fn lookup() -> impl Strategy<Value = Step> {
    (have(), any::<bool>(), any::<bool>()).prop_map(|(have, may_fetch, is_used)| Step::Lookup {
        have,
        may_fetch,
        is_used,
    })
}

fn publish() -> impl Strategy<Value = Step> {
    (have(), prop::collection::vec(any::<u8>(), 0..50))
        .prop_map(|(token, value)| Step::Publish { token, value })
}

/// Mostly a few seconds, seldom minutes, seldom an hour back, seldom a day.
fn time() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => 0_i64..1_000_000,
        8 => 0_i64..20_000_000,
        2 => 0_i64..200_000_000,
        1 => -3_700_000_000_i64..0,
        1 => 0_i64..100_000_000_000,
    ]
    .prop_map(Step::Time)
}

fn steps() -> impl Strategy<Value = Vec<(usize, usize, Step)>> {
    let step = prop_oneof![
        4 => lookup(),
        3 => publish(),
        1 => have().prop_map(Step::RenewLease),
        1 => have().prop_map(Step::ReleaseLease),
        6 => reserve_slots(),
        2 => hold(),
        1 => Just(Step::ResetBackoff),
        1 => Just(Step::EndHold),
        2 => Just(Step::AnnouncePresence),
        8 => Just(Step::Heartbeat),
        1 => Just(Step::Alone),
        1 => Just(Step::Leave),
        3 => (0_u64..3).prop_map(Step::TakePlace),
        1 => (0_u64..3).prop_map(Step::LeavePlace),
        1 => any::<u64>().prop_map(Step::Head),
        1 => any::<u8>().prop_map(Step::File),
        1 => Just(Step::Lose),
        6 => time(),
    ];
    prop::collection::vec((0_usize..3, 0_usize..2, step), 1..60)
}

/// Three proxies on each of the engines.
struct Both {
    server: RedisServer,
    clock: Arc<ManualEngineClock>,
    redis: Vec<RedisEngine>,
    sites: [Origin; 2],
}

impl Both {
    fn new() -> Self {
        let server = RedisServer::start(&[]);
        let clock = ManualEngineClock::starting_at(START);
        let config = || RedisConfig { clock: Some(Arc::clone(&clock) as _), ..on(&server) };
        let redis = names().map(|name| reached(name, config())).collect();
        Self { server, clock, redis, sites: [site("one.example"), site("other.example:8443")] }
    }

    /// New proxies on an empty server, and the same in memory.
    fn anew(&mut self) -> Vec<MemoryEngine> {
        self.clock.set(START);
        self.server.command(&["FLUSHALL"]);
        let config = RedisConfig { clock: Some(Arc::clone(&self.clock) as _), ..on(&self.server) };
        let first = MemoryEngine::new(Config::named("a"), Arc::clone(&self.clock) as _);
        first.lose();
        let memory: Vec<_> = names().map(|name| first.beside(Config::named(name))).collect();
        self.redis = names().map(|name| reached(name, config.clone())).collect();
        // As each has at its start, in the same order.
        self.server.command(&["FLUSHALL"]);
        for (memory, redis) in memory.iter().zip(&self.redis) {
            assert_eq!(get(memory.heartbeat()), get(redis.heartbeat()));
        }
        memory
    }

    /// What the server holds of an origin, as [`MemoryEngine::dump`] has it.
    fn dump(&self, origin: &Origin) -> BTreeMap<(&'static str, String), String> {
        let key = |name: &str| format!("courtesy:1:{{{origin}}}:{name}");
        let mut dump = BTreeMap::new();
        if let Reply::Text(known) = self.server.command(&["GET", &key("known")]) {
            let token =
                known.chars().skip(1).take(8).fold(0, |token, byte| token << 8 | byte as u64);
            dump.insert(("known", "token".to_owned()), token.to_string());
        }
        if let Reply::Text(lease) = self.server.command(&["GET", &key("lease")]) {
            dump.insert(("lease", String::new()), lease);
        }
        for pair in self.server.command(&["HGETALL", &key("pace")]).texts().chunks(2) {
            dump.insert(("pace", pair[0].to_owned()), pair[1].to_owned());
        }
        let presence = self.server.command(&["ZRANGE", &key("presence"), "0", "-1", "WITHSCORES"]);
        for pair in presence.texts().chunks(2) {
            dump.insert(("presence", pair[0].to_owned()), pair[1].to_owned());
        }
        dump
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    ["a", "b", "c"].into_iter()
}

/// Does a step of a proxy, and tells in words what came of it. Tokens that were seen are added to
/// `seen`.
fn act(engine: &dyn Engine, origin: &Origin, step: &Step, seen: &mut Vec<LeaseToken>) -> String {
    let token = |have: Have| match have {
        Have::Seen(back) => seen.iter().rev().nth(back).copied().unwrap_or_default(),
        Have::Nothing => LeaseToken::default(),
        Have::Far => LeaseToken(START * 2),
    };
    match step {
        Step::Lookup { have, may_fetch, is_used } => {
            let (have, may_fetch, is_used) = (token(*have), *may_fetch, *is_used);
            let response = get(engine.lookup(LookupRequest { origin, have, may_fetch, is_used }));
            if let LookupOutcome::Newer { token, .. } | LookupOutcome::Lease(token) =
                &response.outcome
            {
                seen.push(*token);
            }
            format!("{response:?}")
        }
        Step::Publish { token: have, value } => {
            format!(
                "{:?}",
                get(engine.publish(PublishRequest { origin, token: token(*have), value }))
            )
        }
        Step::RenewLease(have) => format!("{:?}", get(engine.renew_lease(origin, token(*have)))),
        Step::ReleaseLease(have) => {
            format!("{:?}", get(engine.release_lease(origin, token(*have))))
        }
        Step::Lose | Step::Time(_) => String::new(),
        other => act_without_token(engine, origin, other),
    }
}

fn act_without_token(engine: &dyn Engine, origin: &Origin, step: &Step) -> String {
    match step {
        Step::ReserveSlots { .. } => {
            format!("{:?}", wait(engine.reserve_slots(slots_request_of(origin, step))))
        }
        Step::SetHold(length, status, cause) => {
            let (length, status, cause) = (*length, *status, *cause);
            format!("{:?}", get(engine.set_hold(HoldRequest { origin, length, status, cause })))
        }
        Step::ResetBackoff => format!("{:?}", get(engine.reset_backoff(origin))),
        Step::EndHold => format!("{:?}", get(engine.end_hold(origin))),
        Step::AnnouncePresence => format!("{:?}", get(engine.announce_presence(origin))),
        Step::Heartbeat => format!("{:?}", get(engine.heartbeat())),
        Step::Alone => {
            let second = Duration::from_secs(1);
            format!("{:?}", engine.away_start(second, Duration::ZERO, 3 * second))
        }
        Step::Leave => format!("{:?}", get(engine.leave())),
        Step::TakePlace(id) => format!("{:?}", get(engine.take_place(origin, *id, 3))),
        Step::LeavePlace(id) => format!("{:?}", get(engine.leave_place(origin, *id))),
        Step::Head(number) => {
            let time = Timestamp::from_millis(7);
            engine.set_head(LogHead {
                log: None,
                contradicts: false,
                number: *number,
                hash: [1; 32],
                time,
            });
            format!("{:?} {:?}", get(engine.heartbeat()), get(engine.heads()))
        }
        Step::File(byte) => {
            let content = Bytes::from(vec![*byte; usize::from(*byte)]);
            let digest = sha256(&content);
            let before = get(engine.get_file(digest));
            get(engine.put_file(digest, content));
            format!("{before:?} {:?}", get(engine.get_file(digest)))
        }
        other => panic!("{other:?}"),
    }
}

fn slots_request_of<'a>(origin: &'a Origin, step: &Step) -> SlotsRequest<'a> {
    let Step::ReserveSlots { group, own, asked, slack, horizon, count, left } = step else {
        panic!("{step:?}")
    };
    let micros = Duration::from_micros;
    SlotsRequest {
        origin,
        group,
        lane_delay: micros(*own),
        site_delay: micros(*asked),
        cell_delay: micros(*asked),
        slack: micros(*slack),
        horizon: micros(*horizon),
        count: *count,
        left: micros(*left),
        missed: None,
    }
}

fn sha256(content: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(content).into()
}

fn check(both: &mut Both, steps: &[(usize, usize, Step)]) -> Result<(), TestCaseError> {
    let memory = both.anew();
    let (mut by_memory, mut by_redis) = (Vec::new(), Vec::new());
    for (index, (proxy, origin, step)) in steps.iter().enumerate() {
        let origin = &both.sites[*origin];
        match step {
            Step::Lose => {
                memory[0].lose();
                both.server.command(&["FLUSHALL"]);
            }
            Step::Time(by) => both.clock.set(both.clock.now().saturating_add_signed(*by)),
            _ => {}
        }
        let one = act(&memory[*proxy], origin, step, &mut by_memory);
        let other = act(&both.redis[*proxy], origin, step, &mut by_redis);
        prop_assert_eq!(one, other, "step {}: {:?}", index, step);
        prop_assert_eq!(memory[0].dump(origin), both.dump(origin), "step {}: {:?}", index, step);
    }
    Ok(())
}

#[test]
fn the_scripts_and_the_engine_in_memory_give_the_same_responses() {
    let mut both = Both::new();
    let mut runner = TestRunner::new(Cases { failure_persistence: None, ..Cases::with_cases(150) });
    let both = std::cell::RefCell::new(&mut both);
    runner.run(&steps(), |steps| check(&mut both.borrow_mut(), &steps)).unwrap();
}
