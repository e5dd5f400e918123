//! Eight proxies, two hundred origins, one engine: what comes to the origins keeps the promises of
//! the shared engine (E1 to E8), whatever happens to that.

mod arrivals;
mod world;

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use crate::testkit::processes::until;
use arrivals::{Arrival, Span, are_a_delay_apart, are_at_most_twice_the_pace, most_at_once};
use world::{Crawlers, World, origins, paced, run_until};

const PROXIES: usize = 8;
/// Origins with a delay, and without.
const PACED: u8 = 40;
const UNPACED: u8 = 160;
/// Between two starts at an origin with one.
const DELAY: Duration = Duration::from_millis(250);
/// An origin without a delay, which takes this time for a page.
const SLOW: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 0);
const SLOW_TIME: Duration = Duration::from_millis(200);
/// Another one, which asks to be left alone.
const HELD: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);
/// `pace.concurrency`.
const PLACES: usize = 8;
/// Time between two marks of a proxy at an origin, and what a mark may take.
const MARKS: Duration = Duration::from_millis(15_000 + 1500);
/// Long enough for starts of several proxies with the engine.
const STEADY: Duration = Duration::from_millis(1300);
/// Long enough for several of each in cells of its own: the others have to know that it is missing
/// (4.75 s), and there are eight cells of 0.3 s, whose beginnings a busy machine may miss.
const AWAY: Duration = Duration::from_secs(14);
/// A start that was decided before may take so long to come.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

#[test]
#[ignore = "nightly"]
fn eight_proxies_keep_one_pace_whatever_happens_to_their_engine() {
    let mut world = World::start();
    world.is_known_to_all();
    let begin = monotonic();
    assert_eq!(world.request_all(), vec![200; PROXIES * origins().count()]);
    world.keeps_the_pace("all at once", begin, Duration::ZERO);
    world.has_fetched_once("all at once");
    // In reverse, because they have to end before the sites do.
    let mut crawlers = Crawlers::default();
    (0..PACED).for_each(|number| world.crawl(&mut crawlers, paced(number), 1));
    world.crawl(&mut crawlers, SLOW, 3);
    world.crawl(&mut crawlers, HELD, 1);
    let busy = monotonic();
    world.obeys_holds();
    world.survives_what_loses_no_contact();
    run_until(busy + MARKS + SLOW_TIME);
    let most = || most_at_once(&world.at(SLOW, Span::since(busy + MARKS)), SLOW_TIME);
    until("several requests are under way", || most() >= 2);
    assert!(most() <= PLACES.max(PROXIES), "E5: {} under way", most());
    world.survives_what_loses_contact();
    world.survives_a_flush();
    world.has_fetched_once("at the end");
    assert_eq!(world.seen.denied.load(Ordering::SeqCst), 0, "E8: what is disallowed was requested");
    drop(crawlers);
}

impl World {
    fn at(&self, site: Ipv4Addr, span: Span) -> Vec<Arrival> {
        self.seen.arrivals.at(site, span)
    }

    /// E1 at all origins with a delay, since `begin` and for `time`, or longer until something has
    /// come to each.
    #[track_caller]
    fn keeps_the_pace(&self, what: &str, begin: Instant, time: Duration) {
        run_until(begin + time);
        let came = |site| self.at(site, Span::since(begin)).len() > 1;
        until(&format!("{what}, all are requested"), || (0..PACED).map(paced).all(came));
        for site in (0..PACED).map(paced) {
            are_a_delay_apart(&format!("E1, {what}, {site}"), &self.at(site, Span::since(begin)));
        }
    }

    /// E2 and E3: each origin was asked once for its robots.txt, whatever has happened since.
    #[track_caller]
    fn has_fetched_once(&self, what: &str) {
        let not_once: Vec<_> = origins()
            .map(|site| (site, self.site.fetches_at(site)))
            .filter(|(_, fetches)| *fetches != 1)
            .collect();
        assert!(not_once.is_empty(), "E2, {what}: {not_once:?}");
    }

    /// E8: each proxy denies what is disallowed.
    #[track_caller]
    fn denies(&self, what: &str) {
        for proxy in 0..PROXIES {
            assert_eq!(self.get(proxy, paced(1), "/private/"), 403, "E8, {what}");
        }
    }

    /// E4.
    fn obeys_holds(&self) {
        let refused = self.refuse(HELD, "Retry-After: 19\r\n");
        let rest = Duration::from_secs(6);
        let first = self.refuse(paced(0), "Retry-After: 6\r\n");
        run_until(first.at + rest);
        let held = self.at(paced(0), Span::since(first.at + Duration::from_micros(1)));
        for proxy in 0..PROXIES {
            // Another one's last starts before it hears of it: one on its way, and its next slot.
            let most = if proxy == first.proxy { 0 } else { 2 };
            let starts = held.iter().filter(|it| it.proxy == proxy).count();
            assert!(starts <= most, "E4, proxy {proxy}: {starts} starts");
        }
        let after = Span { from: refused.at + MARKS, until: refused.at + Duration::from_secs(19) };
        run_until(after.until);
        let held = self.at(HELD, after);
        assert!(held.is_empty(), "E4: {} starts at an origin that is held", held.len());
        let again = || self.at(paced(0), Span::since(first.at + rest)).len();
        until("it is requested again", || again() > 1);
    }

    /// The engine is slow, or has to load its scripts again: the pace is kept as before.
    fn survives_what_loses_no_contact(&self) {
        let slow = |millis| {
            let delay = Duration::from_millis(millis);
            self.relays.iter().for_each(|relay| relay.set_delay(delay));
        };
        let begin = monotonic();
        self.server.command(&["SCRIPT", "FLUSH"]);
        self.keeps_the_pace("scripts flushed", begin, STEADY);
        let begin = monotonic();
        slow(60);
        self.denies("60 ms");
        self.keeps_the_pace("60 ms", begin, 2 * STEADY);
        slow(0);
    }

    fn survives_what_loses_contact(&mut self) {
        self.is_away("some are cut off", 5..PROXIES, |world, is_cut| {
            world.relays[5..].iter().for_each(|relay| relay.set_cut(is_cut));
        });
        self.is_away("all are cut off", 0..PROXIES, |world, is_cut| {
            world.relays.iter().for_each(|relay| relay.set_cut(is_cut));
            if is_cut {
                world.fetches_for_itself();
            }
        });
        self.is_away("a replica", 0..PROXIES, |world, is_replica| {
            let words = if is_replica { ["127.0.0.1", "1"] } else { ["NO", "ONE"] };
            world.server.command(&["REPLICAOF", words[0], words[1]]);
        });
        self.is_away("out of memory", 0..PROXIES, |world, is_full| {
            let memory = if is_full { "1" } else { "0" };
            world.server.command(&["CONFIG", "SET", "maxmemory", memory]);
        });
        self.is_away("killed, and empty again", 0..PROXIES, |world, is_killed| {
            if is_killed { world.server.kill() } else { world.server.start_again(&[]) }
        });
    }

    /// Away for some proxies, and back.
    #[track_caller]
    fn is_away(
        &mut self,
        what: &str,
        proxies: std::ops::Range<usize>,
        set_away: impl Fn(&mut Self, bool),
    ) {
        let begin = monotonic();
        set_away(self, true);
        self.is_up(proxies.clone(), false);
        let away = monotonic();
        self.denies(what);
        run_until(away + AWAY);
        let away = Span::since(away);
        set_away(self, false);
        self.is_up(0..PROXIES, true);
        let back = monotonic() + ON_ITS_WAY;
        for site in (1..PACED).map(paced) {
            let what = &format!("E7, {what}, {site}");
            are_a_delay_apart(what, &self.at(site, Span { from: begin, until: back }));
        }
        // A busy machine misses cells, but not all of them.
        let is_own = |proxy, site| self.at(site, away).iter().any(|it| it.proxy == proxy);
        for proxy in proxies {
            let has_started = (1..PACED).map(paced).any(|site| is_own(proxy, site));
            assert!(has_started, "E7, {what}: proxy {proxy} has started nothing");
        }
        self.keeps_the_pace(&format!("after {what}"), back, STEADY);
    }

    /// E2: while the engine is away, each proxy fetches for itself, once.
    #[track_caller]
    fn fetches_for_itself(&self) {
        self.is_up(0..PROXIES, false);
        let new = Ipv4Addr::new(127, 3, 0, 1);
        for proxy in (0..PROXIES).chain(0..PROXIES) {
            assert_eq!(self.get(proxy, new, &format!("/{proxy}/new")), 200);
        }
        assert_eq!(self.site.fetches_at(new), PROXIES as u32, "E2, away");
    }

    /// E6.
    fn survives_a_flush(&self) {
        let before = self.epochs();
        let begin = monotonic();
        self.server.command(&["FLUSHALL"]);
        self.denies("flushed");
        let is_seen = || before.iter().zip(self.epochs()).all(|(before, now)| *before != now);
        until("each has seen the loss", is_seen);
        let seen: Instant = monotonic() + ON_ITS_WAY;
        // The slots that were given up pass unused.
        for site in (0..PACED).map(paced) {
            // The slots that were reserved before are used, until their proxies hear of the loss.
            let meanwhile = self.at(site, Span { from: begin, until: seen });
            are_at_most_twice_the_pace(&format!("E6, {site}"), &meanwhile);
        }
        self.keeps_the_pace("after a flush", seen, 3 * STEADY);
    }
}
