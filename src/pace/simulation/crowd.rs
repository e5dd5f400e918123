//! A thousand proxies at one site with a delay.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::proxy::{Next, Proxy};
use super::{Agenda, Chance, OwnClock, SECOND, Truth, now, seconds};
use crate::engine::{Config, Engine, ManualEngineClock, MemoryEngine};

const PROXIES: usize = 1000;
const DELAY: Duration = Duration::from_millis(300);
/// By the engine's clock.
const START: u64 = 1_800_000_000_000_000;
/// As the clocks of the proxies may differ in rate.
const DRIFT: f64 = 1e-4;
/// The time of a beat of each.
const BEAT: Truth = 5 * SECOND;

struct Crowd {
    clock: Arc<ManualEngineClock>,
    /// What the engine's clock shows beyond the true time.
    ahead: i64,
    proxies: Vec<Proxy>,
    agenda: Agenda<(usize, Next)>,
    chance: Chance,
    starts: Vec<(Truth, usize)>,
    truth: Truth,
}

impl Crowd {
    fn new(seed: u8) -> Self {
        let mut chance = Chance::new(seed);
        let clock = ManualEngineClock::starting_at(START);
        let first = MemoryEngine::new(Config::named("first"), Arc::clone(&clock) as _);
        let proxies: Vec<_> = (0..PROXIES)
            .map(|number| {
                let engine = first.beside(Config {
                    members_before: PROXIES,
                    ..Config::named(number.to_string())
                });
                Proxy::new(engine, OwnClock::new(&mut chance))
            })
            .collect();
        let mut agenda = Agenda::new();
        (0..PROXIES).for_each(|proxy| agenda.add(chance.below(SECOND), (proxy, Next::Grant)));
        let (starts, truth) = (Vec::new(), 0);
        Self { clock, ahead: 0, proxies, agenda, chance, starts, truth }
    }

    /// All beat, in the time that they take for one. Beats that say nothing new are left out.
    fn beat(&mut self) {
        for number in 0..PROXIES {
            self.run(self.truth + BEAT / PROXIES as u64);
            self.set_clock(self.truth);
            now(self.proxies[number].engine.heartbeat()).expect("it is there");
        }
    }

    fn set_clock(&self, truth: Truth) {
        self.clock.set((START + truth).saturating_add_signed(self.ahead));
    }

    fn run(&mut self, until: Truth) {
        while let Some((at, (number, next))) = self.agenda.next_before(until) {
            self.set_clock(at);
            let proxy = &mut self.proxies[number];
            let (then, next, has_started) = proxy.step(next, at, DELAY, &mut self.chance);
            if has_started {
                self.starts.push((at, number));
            }
            self.agenda.add(then, (number, next));
        }
        self.truth = until;
    }

    fn run_for(&mut self, length: Truth) -> std::ops::Range<Truth> {
        let begin = self.truth;
        self.run(begin + length);
        begin..self.truth
    }

    /// The engine is away for these, or comes back.
    fn set_away(&self, proxies: std::ops::Range<usize>, is_away: bool) {
        self.proxies[proxies].iter().for_each(|proxy| proxy.engine.set_away(is_away));
    }

    fn starts(&self, span: &std::ops::Range<Truth>) -> Vec<(Truth, usize)> {
        self.starts.iter().filter(|(at, _)| span.contains(at)).copied().collect()
    }
}

/// E1.
fn are_a_delay_apart(what: &str, starts: &[(Truth, usize)]) -> Result<(), TestCaseError> {
    for pair in starts.windows(2) {
        let distance = seconds(pair[1].0 - pair[0].0);
        prop_assert!(distance + Duration::from_micros(10) >= DELAY, "E1, {what}: {pair:?}");
    }
    Ok(())
}

/// E7: each keeps its part, so that all together keep the pace.
fn are_parts(what: &str, starts: &[(Truth, usize)]) -> Result<(), TestCaseError> {
    let least = (DELAY * PROXIES as u32).mul_f64(1.0 - DRIFT);
    let mut last = vec![None; PROXIES];
    for (at, proxy) in starts {
        if let Some(before) = last[*proxy].replace(*at) {
            let distance = seconds(at - before);
            prop_assert!(distance >= least, "E7, {what}, proxy {proxy}: {distance:?}");
        }
    }
    Ok(())
}

/// So many delays have at most twice so many starts, and two at the edges.
fn are_at_most_twice(what: &str, starts: &[(Truth, usize)]) -> Result<(), TestCaseError> {
    const MANY: usize = 20;
    for many in starts.windows(2 * MANY + 3) {
        let took = seconds(many[2 * MANY + 2].0 - many[0].0);
        prop_assert!(took >= DELAY * MANY as u32, "{what}: {} in {took:?}", many.len());
    }
    Ok(())
}

/// No proxy is more than its slot ahead of another.
fn are_fair(starts: &[(Truth, usize)]) -> Result<(), TestCaseError> {
    let mut counts = vec![0; PROXIES];
    starts.iter().for_each(|(_, proxy)| counts[*proxy] += 1);
    let (least, most) = (counts.iter().min().expect("many"), counts.iter().max().expect("many"));
    prop_assert!(most - least <= 2, "from {least} to {most} starts");
    Ok(())
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn a_thousand_proxies_keep_one_pace_and_take_turns(seed in any::<u8>()) {
        let mut crowd = Crowd::new(seed);
        let span = crowd.run_for(2400 * SECOND);
        let starts = crowd.starts(&span);
        are_a_delay_apart("all well", &starts)?;
        are_fair(&starts)?;
        let reserved: usize = crowd.proxies.iter().map(|proxy| proxy.reserved).sum();
        let used: usize = crowd.proxies.iter().map(|proxy| proxy.used).sum();
        // Those ahead are neither used nor lost.
        prop_assert!(100 * used >= 95 * (reserved - PROXIES), "{used} of {reserved} slots");
        // The delay and the slot's length leave room for so many.
        prop_assert!(starts.len() > 4500, "{} starts", starts.len());
    }

    #[test]
    fn an_engine_whose_clock_goes_back_costs_time_and_no_distance(seed in any::<u8>()) {
        let mut crowd = Crowd::new(seed);
        let before = crowd.run_for(500 * SECOND);
        crowd.ahead = -[30, 3600][usize::from(seed % 2)] * SECOND as i64;
        let after = crowd.run_for(2000 * SECOND);
        are_a_delay_apart("clock back", &crowd.starts(&(before.start..after.end)))?;
        let last = after.end - 500 * SECOND..after.end;
        prop_assert!(crowd.starts(&last).len() > 900, "{}", crowd.starts(&last).len());
    }

    #[test]
    fn proxies_without_the_engine_take_their_part(seed in any::<u8>()) {
        let mut crowd = Crowd::new(seed);
        let well = crowd.run_for(800 * SECOND);
        crowd.set_away(0..PROXIES / 2, true);
        let parted = crowd.run_for(900 * SECOND);
        let (with, without): (Vec<_>, Vec<_>) =
            crowd.starts(&parted).into_iter().partition(|(_, proxy)| *proxy >= PROXIES / 2);
        are_a_delay_apart("a partition", &with)?;
        are_parts("a partition", &without)?;
        crowd.set_away(PROXIES / 2..PROXIES, true);
        let away = crowd.run_for(900 * SECOND);
        are_parts("away", &crowd.starts(&away))?;
        crowd.set_away(0..PROXIES, false);
        // Who may start at this moment does.
        crowd.run_for(SECOND);
        let back = crowd.run_for(1000 * SECOND);
        are_a_delay_apart("back again", &crowd.starts(&back))?;
        prop_assert!(crowd.starts(&back).len() > 1500, "{}", crowd.starts(&back).len());
        are_at_most_twice("all the time", &crowd.starts(&(well.start..back.end)))?;
    }

    #[test]
    fn lost_data_costs_twice_the_pace_until_the_loss_is_seen(seed in any::<u8>()) {
        let mut crowd = Crowd::new(seed);
        crowd.beat();
        crowd.run_for(600 * SECOND);
        crowd.proxies[0].engine.lose();
        let begin = crowd.truth;
        crowd.beat();
        let seen = crowd.truth;
        let after = crowd.run_for(1500 * SECOND);
        are_at_most_twice("until it is seen", &crowd.starts(&(begin..seen)))?;
        let meanwhile = crowd.starts(&(begin..seen)).len() as u64;
        let pace = BEAT / DELAY.as_micros() as u64;
        prop_assert!(meanwhile <= 2 * (pace + 1), "{meanwhile} starts");
        are_a_delay_apart("once it is seen", &crowd.starts(&after))?;
        let last = after.end - 500 * SECOND..after.end;
        prop_assert!(crowd.starts(&last).len() > 900, "{}", crowd.starts(&last).len());
    }
}
