//! When requests came to the sites, and what is promised of that.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use super::{DELAY, PROXIES};
use crate::testkit::spacing::{LATENESS, assert_sums};

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

/// E1, E7: these are a delay apart.
#[track_caller]
pub fn are_a_delay_apart(what: &str, arrivals: &[Arrival]) {
    assert_are_apart(what, arrivals, DELAY);
}

/// E6: in the time of as many delays as there are proxies, these are at most twice so many.
#[track_caller]
pub fn are_at_most_twice_the_pace(what: &str, arrivals: &[Arrival]) {
    for many in arrivals.windows(2 * PROXIES + 1) {
        let took = many[2 * PROXIES].at - many[0].at;
        assert!(took + LATENESS >= DELAY * PROXIES as u32, "{what}: {}", shown(many));
    }
}

/// The most that were under way at one time, where each takes so long.
pub fn most_at_once(arrivals: &[Arrival], length: Duration) -> usize {
    let under_way = |last: &Arrival| {
        arrivals.iter().filter(|it| it.at <= last.at && last.at < it.at + length).count()
    };
    arrivals.iter().map(under_way).max().unwrap_or_default()
}

#[track_caller]
fn assert_are_apart(what: &str, arrivals: &[Arrival], delay: Duration) {
    let instants: Vec<_> = arrivals.iter().map(|it| it.at).collect();
    assert_sums(&instants, delay, || format!("{what}: {}", shown(arrivals)));
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
