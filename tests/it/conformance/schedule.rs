//! A lane in virtual time: requests arrive, are granted turns, start, end or leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use courtesy::pace::hold::{Cause, Hold, Outcome};
use courtesy::pace::lane::{Arrival, Config, Enqueued, Kind, Lane, TurnId, WaiterId};
use courtesy::pace::tick::Tick;
use courtesy::types::ClientKey;
use courtesy::types::origin::Scheme;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// The lane of a case; times in milliseconds.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LaneCase {
    pub delay_ms: u64,
    pub concurrency: Option<usize>,
    pub max_wait_ms: Option<u64>,
    pub hold_until_ms: Option<u64>,
    #[serde(skip)]
    pub own_delay_ms: u64,
    #[serde(skip)]
    pub reloads: Vec<Reload>,
}

/// Other settings of the lane, from a time on.
#[derive(Clone, Debug)]
pub struct Reload {
    pub at: u64,
    pub own_delay_ms: u64,
    pub concurrency: usize,
}

/// A request of a case.
#[derive(Clone, Debug)]
pub struct Call {
    pub at: u64,
    pub client: String,
    /// How long it takes.
    pub length: u64,
    /// When its client leaves, if it still waits.
    pub leaves_after: Option<u64>,
    pub group: String,
    pub outcome: Outcome,
}

/// What became of each call, and the holds as (begin, end).
struct Story {
    states: Vec<Option<State>>,
    holds: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End(TurnOf),
    Start(TurnOf),
    Arrive(usize),
    Leave(usize),
    Reload(usize),
}

/// The index of a call.
type TurnOf = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting(WaiterId),
    Granted(TurnId),
    Started(u64, TurnId),
    Refused,
    Left,
}

/// What became of each call: the time of its start, "refused" or "left".
pub fn run(case: &LaneCase, calls: &[Call]) -> Vec<Value> {
    simulate(case, calls).states.into_iter().map(printed).collect()
}

fn printed(state: Option<State>) -> Value {
    match state {
        Some(State::Started(at, _)) => json!(at),
        Some(State::Refused) => json!("refused"),
        Some(State::Left) => json!("left"),
        other => json!(format!("{other:?}")),
    }
}

fn simulate(case: &LaneCase, calls: &[Call]) -> Story {
    let config = Config {
        delay: Duration::from_millis(case.own_delay_ms),
        concurrency: case.concurrency.unwrap_or(8),
        backoff_min: Duration::from_secs(10),
    };
    let mut lane = Lane::new(config, false);
    if let Some(until) = case.hold_until_ms {
        lane.set_hold(Hold { until: tick(until), status: 429, cause: Cause::RetryAfter }, tick(0));
    }
    let mut states: Vec<Option<State>> = vec![None; calls.len()];
    let (mut by_waiter, mut holds) = (BTreeMap::new(), Vec::new());
    let mut events: BTreeSet<(u64, Event)> =
        calls.iter().enumerate().map(|(call, it)| (it.at, Event::Arrive(call))).collect();
    events.extend(case.reloads.iter().enumerate().map(|(at, it)| (it.at, Event::Reload(at))));
    let mut now = 0;
    while let Some(next) = next_moment(&lane, &events, now) {
        now = next.max(now);
        if let Some((at, event)) = events.first().copied().filter(|(at, _)| *at <= now) {
            events.remove(&(at, event));
            match event {
                Event::Arrive(call) => {
                    let it = &calls[call];
                    let client = ClientKey::User(it.client.as_str().into());
                    let max_wait = case.max_wait_ms.map_or(Duration::MAX, Duration::from_millis);
                    let delay = Duration::from_millis(case.delay_ms);
                    let kind = Kind::Page { group: &it.group, delay, not_before: None };
                    let arrival =
                        Arrival { client: &client, scheme: Scheme::Https, kind, max_wait };
                    states[call] = Some(match lane.enqueue(&arrival, tick(now)) {
                        Enqueued::Waits(waiter) => {
                            by_waiter.insert(format!("{waiter:?}"), call);
                            if let Some(leaves_after) = it.leaves_after {
                                events.insert((now + leaves_after, Event::Leave(call)));
                            }
                            State::Waiting(waiter)
                        }
                        Enqueued::TooLong { .. } => State::Refused,
                    });
                }
                Event::Leave(call) => match states[call] {
                    Some(State::Waiting(waiter)) => {
                        let client = ClientKey::User(calls[call].client.as_str().into());
                        lane.leave(&client, waiter);
                        states[call] = Some(State::Left);
                    }
                    Some(State::Granted(turn)) => {
                        lane.end(turn);
                        states[call] = Some(State::Left);
                    }
                    _ => {}
                },
                Event::Reload(reload) => {
                    let Reload { own_delay_ms, concurrency, .. } = case.reloads[reload];
                    let delay = Duration::from_millis(own_delay_ms);
                    lane.change(Config { delay, concurrency, ..config });
                }
                Event::Start(call) => {
                    if let Some(State::Granted(turn)) = states[call] {
                        if let Err(start) = lane.start(turn, tick(now)) {
                            events.insert((start.micros().div_ceil(1000), Event::Start(call)));
                        } else {
                            states[call] = Some(State::Started(now, turn));
                            events.insert((now + calls[call].length, Event::End(call)));
                        }
                    }
                }
                Event::End(call) => {
                    if let Some(State::Started(_, turn)) = states[call] {
                        lane.note(turn, calls[call].outcome, tick(now), 0.5);
                        lane.end(turn);
                        // Of all clients: after failures one may rest alone.
                        if let Some(hold) = lane.hold_for_all(tick(now)) {
                            holds.push((now, hold.until.micros().div_ceil(1000)));
                        }
                    }
                }
            }
        }
        while let Some(grant) = lane.grant(tick(now)) {
            let call = by_waiter[&format!("{:?}", grant.waiter)];
            states[call] = Some(State::Granted(grant.turn));
            let start = grant.start_at.micros().div_ceil(1000);
            events.insert((start.max(now), Event::Start(call)));
        }
    }
    assert_eq!(lane.waiting(), 0, "a request was forgotten");
    assert!(lane.is_idle(tick(u64::MAX / 2000)), "something is left: {lane:?}");
    Story { states, holds }
}

fn tick(millis: u64) -> Tick {
    Tick::from_micros(millis * 1000)
}

/// The time of the next event, or of the next turn.
fn next_moment(lane: &Lane, events: &BTreeSet<(u64, Event)>, now: u64) -> Option<u64> {
    let event = events.first().map(|(at, _)| *at);
    let wake = lane.wakes_at(tick(now)).map(|at| at.micros().div_ceil(1000));
    match (event, wake) {
        (Some(event), Some(wake)) => Some(event.min(wake)),
        (event, wake) => event.or(wake),
    }
}

fn call() -> impl Strategy<Value = Call> {
    let leaves_after = prop_oneof![3 => Just(None), 1 => (0..4_000_u64).prop_map(Some)];
    let outcome = prop_oneof![
        12 => Just(Outcome::Good),
        2 => Just(Outcome::Failure { status: 502 }),
        1 => Just(Outcome::Ignored),
        1 => Just(Outcome::Overload { status: 429 }),
        1 => (1..20_u64).prop_map(|seconds| Outcome::RetryLater {
            status: 503,
            cause: Cause::RetryAfter,
            after: Duration::from_secs(seconds),
        }),
    ];
    (0..5_000_u64, "[a-d]", 0..3_000_u64, leaves_after, "[xy]", outcome).prop_map(
        |(at, client, length, leaves_after, group, outcome)| Call {
            at,
            client,
            length,
            leaves_after,
            group,
            outcome,
        },
    )
}

fn reload() -> impl Strategy<Value = Reload> {
    (0..8_000_u64, prop_oneof![Just(0), 0..800_u64], 1..6_usize)
        .prop_map(|(at, own_delay_ms, concurrency)| Reload { at, own_delay_ms, concurrency })
}

fn starts(states: &[Option<State>], calls: &[Call], group: Option<&str>) -> Vec<u64> {
    let of_group = |call: &Call| group.is_none_or(|group| call.group == group);
    let started = |(state, call): (&Option<State>, &Call)| match state {
        Some(State::Started(at, _)) if of_group(call) => Some(*at),
        _ => None,
    };
    let mut starts: Vec<_> = states.iter().zip(calls).filter_map(started).collect();
    starts.sort_unstable();
    starts
}

#[test]
fn after_a_hold_twice_as_many_go_with_each_good_response() {
    let call = |number: usize| Call {
        at: 0,
        client: number.to_string(),
        length: 100,
        leaves_after: None,
        group: "*".into(),
        outcome: Outcome::Good,
    };
    let case = LaneCase { hold_until_ms: Some(1000), ..LaneCase::default() };
    let states = simulate(&case, &(0..20).map(call).collect::<Vec<_>>()).states;
    let at = |time: u64| {
        states.iter().filter(|it| matches!(it, Some(State::Started(at, _)) if *at == time)).count()
    };
    assert_eq!([1000, 1100, 1200, 1300].map(at), [1, 2, 8, 8]);
}

proptest! {
    #[test]
    fn starts_are_a_delay_apart_and_no_request_is_forgotten(
        calls in prop::collection::vec(call(), 1..40),
        delay_ms in 0..1_500_u64,
        own_delay_ms in prop_oneof![Just(0), 0..800_u64],
        concurrency in 1..6_usize,
        hold_until_ms in prop_oneof![Just(None), (0..6_000_u64).prop_map(Some)],
        reloads in prop::collection::vec(reload(), 0..3),
    ) {
        let (own_least, places_most) = reloads.iter().fold((own_delay_ms, concurrency), |(own, places), it| {
            (own.min(it.own_delay_ms), places.max(it.concurrency))
        });
        let case = LaneCase { delay_ms, concurrency: Some(concurrency), max_wait_ms: None, hold_until_ms, own_delay_ms, reloads };
        let Story { states, holds } = simulate(&case, &calls);
        for (state, call) in states.iter().zip(&calls) {
            let is_done = match state {
                Some(State::Started(at, _)) => *at >= call.at && *at >= hold_until_ms.unwrap_or(0),
                Some(State::Left) => call.leaves_after.is_some(),
                _ => false,
            };
            prop_assert!(is_done, "{:?} of {:?}", state, call);
        }
        for group in ["x", "y"] {
            let starts = starts(&states, &calls, Some(group));
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= delay_ms), "{:?}", starts);
        }
        let all = starts(&states, &calls, None);
        for (begin, end) in holds {
            prop_assert!(!all.iter().any(|at| begin < *at && *at < end), "{:?} in {} to {}", all, begin, end);
        }
        prop_assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= own_least), "{:?}", all);
        for (state, call) in states.iter().zip(&calls) {
            let Some(State::Started(at, _)) = state else { continue };
            let under_way = states.iter().zip(&calls).filter(|(other, it)| {
                matches!(other, Some(State::Started(begun, _)) if *begun <= *at && *at < *begun + it.length)
            });
            prop_assert!(under_way.count() <= places_most, "at {} of {:?}", at, call);
        }
    }

    /// A client with many requests delays another by one turn at most, for each of its own.
    #[test]
    fn an_impatient_client_does_not_delay_a_polite_one(many in 1..60_usize, polite in 1..6_usize) {
        let of = |client: &str| Call { at: 0, client: client.into(), length: 1, leaves_after: None, group: "x".into(), outcome: Outcome::Good };
        let mut calls = vec![of("a"); many];
        calls.extend(vec![of("b"); polite]);
        let case = LaneCase { delay_ms: 1_000, ..LaneCase::default() };
        let states = simulate(&case, &calls).states;
        let last = states[many..].iter().map(|state| match state { Some(State::Started(at, _)) => *at, _ => u64::MAX }).max();
        prop_assert!(last.unwrap() <= 2 * polite as u64 * 1_000, "{:?}", last);
    }
}
