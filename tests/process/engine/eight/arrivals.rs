//! When requests came to the sites, and what is promised of that.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use super::{DELAY, PROXIES};

/// So much later than it was decided a request is seen at most, because the threads of the proxy and
/// of the site have to wait for a processor.
const LATE: Duration = Duration::from_millis(110);

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Instant,
    /// The proxy that sent it.
    pub proxy: usize,
}

/// Those at all sites.
#[derive(Default)]
pub struct Arrivals(Mutex<HashMap<Ipv4Addr, Vec<Arrival>>>);

/// A part of the test.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Instant,
    pub until: Instant,
}

impl Span {
    /// The time since `from`.
    pub fn since(from: Instant) -> Self {
        Self { from, until: monotonic() }
    }
}

impl Arrivals {
    /// Notes a request for a path, which names the proxy that it is sent to: `/3/page`.
    pub fn note(&self, site: Ipv4Addr, path: &str) -> Arrival {
        let proxy = path.split('/').nth(1).and_then(|number| number.parse().ok());
        let arrival = Arrival { at: monotonic(), proxy: proxy.expect("the number of a proxy") };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(site).or_default().push(arrival);
        arrival
    }

    pub fn at(&self, site: Ipv4Addr, span: Span) -> Vec<Arrival> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = |arrival: &&Arrival| span.from <= arrival.at && arrival.at < span.until;
        all.get(&site).into_iter().flatten().filter(within).copied().collect()
    }
}

/// E1: these are a delay apart.
#[track_caller]
pub fn are_a_delay_apart(what: &str, arrivals: &[Arrival]) {
    let is_good = distances(arrivals).all(|distance| distance + LATE >= DELAY);
    assert!(is_good, "{what}: {}", shown(arrivals));
}

/// E7: those of each proxy are as many delays apart as there are proxies.
#[track_caller]
pub fn are_parts_of_the_pace(what: &str, arrivals: &[Arrival]) {
    for proxy in 0..PROXIES {
        let own: Vec<_> = arrivals.iter().filter(|it| it.proxy == proxy).copied().collect();
        let least = DELAY * PROXIES as u32;
        let is_good = distances(&own).all(|distance| distance + LATE >= least);
        assert!(is_good, "{what}, proxy {proxy}: {}", shown(&own));
    }
}

/// E7: in the time of as many delays as there are proxies, these are at most twice so many.
#[track_caller]
pub fn are_at_most_twice_the_pace(what: &str, arrivals: &[Arrival]) {
    for many in arrivals.windows(2 * PROXIES + 1) {
        let took = many[2 * PROXIES].at - many[0].at;
        assert!(took + LATE >= DELAY * PROXIES as u32, "{what}: {}", shown(many));
    }
}

/// The most that were under way at one time, where each takes so long.
pub fn most_at_once(arrivals: &[Arrival], length: Duration) -> usize {
    let under_way = |last: &Arrival| {
        arrivals.iter().filter(|it| it.at <= last.at && last.at < it.at + length).count()
    };
    arrivals.iter().map(under_way).max().unwrap_or_default()
}

fn distances(arrivals: &[Arrival]) -> impl Iterator<Item = Duration> {
    arrivals.windows(2).map(|pair| pair[1].at - pair[0].at)
}

/// Proxies and milliseconds since the first.
fn shown(arrivals: &[Arrival]) -> String {
    let first = arrivals.first().map(|arrival| arrival.at);
    let shown = arrivals.iter().map(|Arrival { at, proxy }| {
        let since = first.map_or(Duration::ZERO, |first| *at - first);
        format!("{proxy}@{}", since.as_millis())
    });
    shown.collect::<Vec<_>>().join(" ")
}
