//! Proxies at one site with a delay.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::proxy::{Cut, Next, Proxy};
use super::{Agenda, Chance, OwnClock, SECOND, Truth, now, seconds};
use crate::engine::{Config, Engine, ManualEngineClock, MemoryEngine};

/// By the engine's clock.
const START: u64 = 1_800_000_000_000_000;
/// No two starts of proxies that do not see each other are closer than the delay less this part of it.
const MARGIN: f64 = 0.25;
/// The most that the clock of a proxy differs in rate, in millionths, where proxies are cut off.
const RATE: i64 = 200;

struct Crowd {
    clock: Arc<ManualEngineClock>,
    first: MemoryEngine,
    delay: Duration,
    /// What the engine's clock shows beyond the true time.
    ahead: i64,
    proxies: Vec<Proxy>,
    agenda: Agenda<(usize, Next)>,
    chance: Chance,
    starts: Vec<(Truth, usize)>,
    truth: Truth,
}

impl Crowd {
    /// Proxies without heartbeats, which all see the engine.
    fn new(count: usize, delay: Duration, seed: u8) -> Self {
        let chance = Chance::new(seed);
        let clock = ManualEngineClock::starting_at(START);
        let first = MemoryEngine::new(Config::named("first"), Arc::clone(&clock) as _);
        let (agenda, proxies) = (Agenda::new(), Vec::new());
        let (starts, truth) = (Vec::new(), 0);
        let mut crowd =
            Self { clock, first, delay, ahead: 0, proxies, agenda, chance, starts, truth };
        for _ in 0..count {
            let own = OwnClock::new(&mut crowd.chance);
            let at = crowd.chance.below(SECOND);
            crowd.add(own, at);
        }
        crowd
    }

    /// Proxies with heartbeats, which have come one after the other.
    fn of_members(count: usize, delay: Duration, seed: u8) -> Self {
        let mut crowd = Self::new(0, delay, seed);
        (0..count).for_each(|_| crowd.join());
        crowd
    }

    fn add(&mut self, clock: OwnClock, at: Truth) -> usize {
        let number = self.proxies.len();
        let config = Config::named(number.to_string());
        self.proxies.push(Proxy::new(&self.first, config, self.delay, clock));
        self.agenda.add(at, (number, Next::Grant));
        number
    }

    fn join(&mut self) {
        let own = OwnClock::with_rate(&mut self.chance, RATE);
        let at = self.truth + 10 * self.chance.below(SECOND / 10);
        let number = self.add(own, at + SECOND);
        self.agenda.add(at, (number, Next::Beat));
        self.agenda.add(at + SECOND, (number, Next::Tell));
    }

    fn set_clock(&self, truth: Truth) {
        self.clock.set((START + truth).saturating_add_signed(self.ahead));
    }

    fn run(&mut self, until: Truth) {
        while let Some((at, (number, next))) = self.agenda.next_before(until) {
            self.set_clock(at);
            let proxy = &mut self.proxies[number];
            let Some((then, next, has_started)) = proxy.step(next, at, &mut self.chance) else {
                continue;
            };
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

    fn starts(&self, span: &std::ops::Range<Truth>) -> Vec<(Truth, usize)> {
        self.starts.iter().filter(|(at, _)| span.contains(at)).copied().collect()
    }

    /// What may happen to some proxy: it is cut off in one direction or both, or no more; it is killed,
    /// ends in order, or another comes.
    fn disturb(&mut self) {
        let number = self.chance.below(self.proxies.len() as u64) as usize;
        let live = self.proxies.iter().filter(|proxy| !proxy.has_ended).count();
        let truth = self.truth;
        let kind = self.chance.below(12);
        let proxy = &mut self.proxies[number];
        match kind {
            0..=2 => proxy.cut = Cut { requests: true, responses: true },
            3 => proxy.cut = Cut { requests: true, responses: false },
            4 => proxy.cut = Cut { requests: false, responses: true },
            5..=8 => proxy.cut = Cut::default(),
            9 if live > 1 => proxy.has_ended = true,
            10 if live > 1 && !proxy.has_ended && !proxy.cut.requests => {
                proxy.see(truth);
                now(proxy.engine.leave()).expect("it is there");
                proxy.has_ended = true;
            }
            _ => self.join(),
        }
    }
}

/// E1.
fn are_apart(what: &str, starts: &[(Truth, usize)], least: Duration) -> Result<(), TestCaseError> {
    for pair in starts.windows(2) {
        let distance = seconds(pair[1].0 - pair[0].0);
        prop_assert!(
            distance + Duration::from_micros(10) >= least,
            "{what}: {distance:?} {pair:?}"
        );
    }
    Ok(())
}

/// In any span of so many delays there are no more starts than the pace allows, and so many more at the
/// edges.
fn keep_the_pace(
    what: &str,
    starts: &[(Truth, usize)],
    delay: Duration,
) -> Result<(), TestCaseError> {
    const MANY: usize = 20;
    for many in starts.windows(MANY + 3) {
        let took = seconds(many[MANY + 2].0 - many[0].0);
        prop_assert!(took >= delay * MANY as u32, "{what}: {} in {took:?}", many.len());
    }
    Ok(())
}

/// No proxy is more than its slot ahead of another.
fn are_fair(starts: &[(Truth, usize)], proxies: usize) -> Result<(), TestCaseError> {
    let mut counts = vec![0; proxies];
    starts.iter().for_each(|(_, proxy)| counts[*proxy] += 1);
    let (least, most) = (counts.iter().min().expect("many"), counts.iter().max().expect("many"));
    prop_assert!(most - least <= 2, "from {least} to {most} starts");
    Ok(())
}

const MANY: usize = 1000;
const SHORT: Duration = Duration::from_millis(300);
const DELAY: Duration = Duration::from_secs(1);

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn a_thousand_proxies_keep_one_pace_and_take_turns(seed in any::<u8>()) {
        let mut crowd = Crowd::new(MANY, SHORT, seed);
        let span = crowd.run_for(2400 * SECOND);
        let starts = crowd.starts(&span);
        are_apart("all well", &starts, SHORT)?;
        are_fair(&starts, MANY)?;
        let reserved: usize = crowd.proxies.iter().map(|proxy| proxy.reserved).sum();
        let used: usize = crowd.proxies.iter().map(|proxy| proxy.used).sum();
        // Those ahead are neither used nor lost.
        prop_assert!(100 * used >= 95 * (reserved - MANY), "{used} of {reserved} slots");
        // The delay and the slot's length leave room for so many.
        prop_assert!(starts.len() > 4500, "{} starts", starts.len());
    }

    #[test]
    fn an_engine_whose_clock_goes_back_costs_time_and_no_distance(seed in any::<u8>()) {
        let mut crowd = Crowd::new(MANY, SHORT, seed);
        let before = crowd.run_for(500 * SECOND);
        crowd.ahead = -[30, 3600][usize::from(seed % 2)] * SECOND as i64;
        let after = crowd.run_for(2000 * SECOND);
        are_apart("clock back", &crowd.starts(&(before.start..after.end)), SHORT)?;
        let last = after.end - 500 * SECOND..after.end;
        prop_assert!(crowd.starts(&last).len() > 900, "{}", crowd.starts(&last).len());
    }

    #[test]
    fn lost_data_costs_twice_the_pace_until_the_loss_is_seen(seed in any::<u8>()) {
        let mut crowd = Crowd::of_members(8, SHORT, seed);
        crowd.run_for(60 * SECOND);
        crowd.first.lose();
        let begin = crowd.truth;
        let after = crowd.run_for(120 * SECOND);
        // Two heartbeats.
        let seen = begin + SECOND;
        let meanwhile = crowd.starts(&(begin..seen)).len();
        prop_assert!(meanwhile <= 2 * 4 + 1, "{meanwhile} starts");
        are_apart("once it is seen", &crowd.starts(&(seen..after.end)), SHORT.mul_f64(1.0 - MARGIN))?;
        let last = after.end - 60 * SECOND..after.end;
        prop_assert!(crowd.starts(&last).len() > 100, "{}", crowd.starts(&last).len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..super::cases() })]

    /// E7, whatever the partition.
    #[test]
    fn no_two_starts_are_close_whatever_is_cut_off_killed_or_joined(
        seed in any::<u8>(),
        count in prop::sample::select(vec![1, 2, 3, 4, 5, 8, 13, 40]),
        // Shorter and longer than it takes until all know that one is missing.
        delay in prop::sample::select(vec![1, 15]).prop_map(Duration::from_secs),
    ) {
        let mut crowd = Crowd::of_members(count, delay, seed);
        crowd.run_for(30 * SECOND);
        // Nothing is cut off for ten minutes.
        for _ in 0..40 {
            crowd.proxies.iter_mut().for_each(|proxy| proxy.has_pauses = true);
            crowd.disturb();
            let length = crowd.chance.below(14 * SECOND);
            crowd.run_for(length);
        }
        for proxy in &mut crowd.proxies {
            (proxy.cut, proxy.has_pauses) = (Cut::default(), false);
        }
        let healed = crowd.truth;
        crowd.run_for(900 * SECOND);
        let all = crowd.starts.clone();
        are_apart("any partition", &all, delay.mul_f64(1.0 - MARGIN))?;
        keep_the_pace("any partition", &all, delay)?;
        let last = crowd.starts(&(crowd.truth - 150 * SECOND..crowd.truth)).len() as f64;
        // Slots are reserved far ahead while few cells are free: with a long delay they are minutes away,
        // and what is reserved is not reserved again nearer.
        let least = if delay == DELAY { 0.6 * 150.0 } else { 0.0 };
        prop_assert!(last >= least, "{last} starts, healed at {:?}", seconds(healed));
    }

    /// E7: with all of them cut off each has its part.
    #[test]
    fn without_the_engine_the_proxies_keep_the_pace_for_an_hour(
        seed in any::<u8>(), count in prop::sample::select(vec![1_usize, 2, 3, 8, 40]),
    ) {
        let mut crowd = Crowd::of_members(count, DELAY, seed);
        crowd.run_for(30 * SECOND);
        for proxy in &mut crowd.proxies {
            proxy.cut = Cut { requests: true, responses: true };
        }
        let away = crowd.run_for(3600 * SECOND);
        let young = away.start..away.start + 600 * SECOND;
        are_apart("away", &crowd.starts(&young), DELAY.mul_f64(1.0 - MARGIN))?;
        keep_the_pace("away", &crowd.starts(&away), DELAY)?;
        // Of cells of 1.2 s.
        let cells = 3500.0 / 1.2 * count as f64 / count.next_power_of_two() as f64;
        let starts = crowd.starts(&away).len();
        prop_assert!(starts as f64 >= 0.95 * cells, "{starts} starts of {cells}");
    }

    /// E7 and its end: those with the engine leave the cells of those without free.
    #[test]
    fn a_partition_costs_at_most_the_part_of_those_that_are_missing(
        seed in any::<u8>(), (count, away) in prop::sample::select(vec![(2, 1), (3, 1), (3, 2), (8, 3)]),
    ) {
        let mut crowd = Crowd::of_members(count, DELAY, seed);
        crowd.run_for(30 * SECOND);
        for proxy in &mut crowd.proxies[..away] {
            proxy.cut = Cut { requests: true, responses: true };
        }
        let parted = crowd.run_for(590 * SECOND);
        let all = crowd.starts(&parted);
        are_apart("parted", &all, DELAY.mul_f64(1.0 - MARGIN))?;
        keep_the_pace("parted", &all, DELAY)?;
        let (without, with): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, it)| *it < away);
        let width = count.next_power_of_two() as f64;
        let cells = 570.0 / 1.2;
        prop_assert!(without.len() as f64 >= 0.9 * cells * away as f64 / width, "{}", without.len());
        let free = (width - away as f64) / width;
        prop_assert!(with.len() as f64 >= 0.85 * cells * free, "{} of {}", with.len(), cells * free);
        let later = crowd.run_for(600 * SECOND);
        let starts = crowd.starts(&later).len() as f64;
        prop_assert!(starts <= 600.0 * (1.0 + away as f64 / width) + 5.0, "{starts} starts");
    }
}

#[test]
fn a_thousand_proxies_of_which_half_are_cut_off_keep_the_pace() {
    let mut crowd = Crowd::of_members(MANY, DELAY, 7);
    crowd.run_for(20 * SECOND);
    for proxy in &mut crowd.proxies[..MANY / 2] {
        proxy.cut = Cut { requests: true, responses: true };
    }
    crowd.run_for(40 * SECOND);
    are_apart("half of a thousand", &crowd.starts, DELAY.mul_f64(1.0 - MARGIN)).unwrap();
    assert!(crowd.starts.len() > 25, "{}", crowd.starts.len());
}
