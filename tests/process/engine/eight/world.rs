//! The sites, the server, and the proxies, each behind a relay of its own; and the crawlers.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use super::arrivals::{Arrival, Arrivals};
use super::{PACED, PROXIES, UNPACED};
use crate::testkit::processes::{
    Crawler, Page, Place, RedisServer, Relay, Robots, Serve, Site, until,
};

/// Enough for a crawler.
const STACK: usize = 256 << 10;
/// Origins that all proxies request at the same moment. With more of them a busy machine takes longer
/// for a fetch than its lease lasts (3 s), and another proxy rightly fetches again.
const AT_ONCE: usize = 20;
/// After a refusal a crawler comes back.
const PAUSE: Duration = Duration::from_millis(20);

/// The origins. Those of 127.1.0.0/16 ask for a delay.
pub fn paced(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, 0, number)
}

pub fn unpaced(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 2, 0, number)
}

pub fn origins() -> impl Iterator<Item = Ipv4Addr> {
    (0..PACED).map(paced).chain((0..UNPACED).map(unpaced))
}

/// What the sites have seen, and what they are to say.
#[derive(Default)]
pub struct Seen {
    pub arrivals: Arrivals,
    /// Requests for what is disallowed.
    pub denied: AtomicUsize,
    /// The next page of this origin is refused with these headers.
    refuse: Mutex<Option<(Ipv4Addr, &'static str)>>,
    refused: Mutex<Option<Arrival>>,
}

impl Seen {
    fn page(&self, site: Ipv4Addr, path: &str) -> Page {
        if path.starts_with("/private/") {
            self.denied.fetch_add(1, Ordering::SeqCst);
            return Page::FOUND;
        }
        let arrival = self.arrivals.note(site, path);
        let mut refuse = self.refuse.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, headers)) = refuse.take_if(|(refused, _)| *refused == site) {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(arrival);
            return Page { status: 429, headers, ..Page::FOUND };
        }
        let is_slow = site == super::SLOW || site == super::HELD;
        Page { after: if is_slow { super::SLOW_TIME } else { Duration::ZERO }, ..Page::FOUND }
    }
}

pub struct World {
    pub seen: Arc<Seen>,
    pub site: Arc<Site>,
    pub server: RedisServer,
    pub relays: Vec<Relay>,
    proxies: Vec<(Serve, Place)>,
}

impl World {
    pub fn start() -> Self {
        let seen = Arc::<Seen>::default();
        let pages = Arc::clone(&seen);
        let site = Site::with_pages(robots, move |site, path| pages.page(site, path));
        let server = RedisServer::start(&[]);
        let relay = |_| Relay::to(&server.socket());
        let relays: Vec<_> = (0..PROXIES).map(relay).collect();
        let proxies = relays.iter().map(|relay| {
            // A busy machine takes its time: no operation is given up for that, since each proxy
            // would then fetch for itself.
            let settings = super::super::settings(&relay.socket());
            let place = Place::new(&settings.replace("timeout = \"5s\"", "timeout = \"10s\""));
            (place.serve(), place)
        });
        let proxies = proxies.collect();
        Self { seen, site: Arc::new(site), server, relays, proxies }
    }

    /// Waits until the engine is up for these proxies, or away.
    #[track_caller]
    pub fn is_up(&self, proxies: impl Iterator<Item = usize> + Clone, is_up: bool) {
        let of = |proxy: usize| self.proxies[proxy].0.metric("courtesy_engine_up");
        let what = if is_up { "all reach the engine" } else { "all miss the engine" };
        until(what, || proxies.clone().all(|proxy| of(proxy) == usize::from(is_up)));
    }

    /// Waits until each knows how many there are.
    #[track_caller]
    pub fn is_known_to_all(&self) {
        let members = |proxy: &Serve| proxy.metric("courtesy_engine_members");
        until("each knows of all", || self.proxies.iter().all(|it| members(&it.0) == PROXIES));
    }

    /// When the data of the engine began, as each has heard.
    pub fn epochs(&self) -> Vec<String> {
        let name = "courtesy_engine_epoch_timestamp_seconds";
        let epoch = |(proxy, _): &(Serve, Place)| {
            let metrics = proxy.admin("/metrics").body;
            metrics.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
        };
        self.proxies.iter().map(epoch).collect()
    }

    /// The status of what a proxy responds for a path of an origin.
    #[track_caller]
    pub fn get(&self, proxy: usize, site: Ipv4Addr, path: &str) -> u16 {
        self.proxies[proxy].0.get(&self.site.url_at(site, path)).status
    }

    /// Every origin is requested through every proxy, of some origins all at once; the statuses.
    pub fn request_all(&self) -> Vec<u16> {
        let origins: Vec<_> = origins().collect();
        origins.chunks(AT_ONCE).flat_map(|some| self.request_at_once(some)).collect()
    }

    fn request_at_once(&self, origins: &[Ipv4Addr]) -> Vec<u16> {
        thread::scope(|scope| {
            let request = |(proxy, site)| {
                let builder = thread::Builder::new().stack_size(STACK);
                let run = move || self.get(proxy, site, &format!("/{proxy}/first"));
                builder.spawn_scoped(scope, run).expect("a thread")
            };
            let each =
                origins.iter().flat_map(|site| (0..PROXIES).map(move |proxy| (proxy, *site)));
            let threads: Vec<_> = each.map(request).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    /// Crawlers of this origin, so many through each proxy.
    pub fn crawl(&self, crawlers: &mut Crawlers, site: Ipv4Addr, each: usize) {
        for (proxy, (serve, _)) in self.proxies.iter().enumerate() {
            let url = self.site.url_at(site, &format!("/{proxy}/page"));
            (0..each).for_each(|_| crawlers.start(Crawler::new(serve.address()), url.clone()));
        }
    }

    /// The origin refuses its next request for a page with these headers; that request.
    #[track_caller]
    pub fn refuse(&self, site: Ipv4Addr, headers: &'static str) -> Arrival {
        let seen = &self.seen;
        *seen.refuse.lock().unwrap_or_else(PoisonError::into_inner) = Some((site, headers));
        let mut refused = None;
        until("a request is refused", || {
            refused = seen.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            refused.is_some()
        });
        refused.expect("it was refused")
    }
}

fn robots(site: Ipv4Addr) -> Robots {
    let [_, kind, ..] = site.octets();
    let delay = if kind == 1 {
        format!("Crawl-delay: {}\n", super::DELAY.as_secs_f64())
    } else {
        String::new()
    };
    Robots::File(format!("User-agent: *\nDisallow: /private/\n{delay}"))
}

/// Lets the crawlers go on until then.
pub fn run_until(end: Instant) {
    until("time passes", || monotonic() >= end);
}

/// Threads that request one page again and again, until this is dropped.
#[derive(Default)]
pub struct Crawlers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crawlers {
    fn start(&mut self, mut crawler: Crawler, url: String) {
        let is_over = Arc::clone(&self.is_over);
        let run = move || {
            while !is_over.load(Ordering::SeqCst) {
                if crawler.get(&url).map_or(0, |answer| answer.status) != 200 {
                    thread::park_timeout(PAUSE);
                }
            }
        };
        let builder = thread::Builder::new().stack_size(STACK);
        self.threads.push(builder.spawn(run).expect("a thread"));
    }
}

impl Drop for Crawlers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
