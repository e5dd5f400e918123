//! A site with a delay, a server, proxies behind a relay each, and nine crawlers over them; and when
//! requests came to the site.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;

use crate::testkit::processes::{
    Crawler, Page, Place, RedisServer, Relay, Robots, Serve, Site, until,
};
use crate::testkit::spacing::{Watch, assert_sums};

/// What the site asks for.
const DELAY: Duration = Duration::from_secs(1);
/// No two starts are closer, whatever happens.
const LEAST: Duration = Duration::from_millis(900);
const CRAWLERS: usize = 9;
/// After a refusal a crawler comes back.
const PAUSE: Duration = Duration::from_millis(50);

/// A request that came to the site.
#[derive(Clone, Debug)]
pub struct Start {
    pub at: Instant,
    pub proxy: usize,
    path: String,
    /// Why it had waited (`Courtesy-Waited`), once that was said.
    waited: Option<String>,
    is_answered: bool,
}

impl Start {
    /// Whether it began in a cell of its proxy, without the engine.
    pub fn is_share(&self) -> bool {
        self.waited.as_ref().is_some_and(|waited| waited.contains("by=share"))
    }

    /// Whether the engine gave its slot.
    pub fn is_slot(&self) -> bool {
        self.is_answered && !self.is_share()
    }
}

type Starts = Arc<Mutex<Vec<Start>>>;

/// What the proxies of a world have in common.
pub struct Settings {
    pub proxies: usize,
    /// Of the engine; without it, each proxy has a relay to the socket of the server.
    pub url: Option<&'static str>,
    pub engine: String,
}

pub struct World {
    pub server: RedisServer,
    pub relays: Vec<Relay>,
    pub proxies: Vec<Option<Serve>>,
    /// They go after their proxies.
    _places: Vec<Place>,
    site: Site,
    /// Of the site that is crawled.
    pub address: Ipv4Addr,
    starts: Starts,
    crawlers: Vec<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    watch: Watch,
    begun: Instant,
}

impl World {
    /// Proxies that have not heard of each other yet, before a server.
    #[track_caller]
    pub fn before(server: RedisServer, Settings { proxies, url, engine }: &Settings) -> Self {
        let starts = Starts::default();
        let noted = Arc::clone(&starts);
        let robots = format!("User-agent: *\nCrawl-delay: {}\n", DELAY.as_secs());
        let site = Site::with_pages(
            move |_| Robots::File(robots.clone()),
            move |_, path| {
                let at = monotonic();
                let proxy = path.split('/').nth(1).and_then(|number| number.parse().ok());
                let proxy = proxy.expect("the number of a proxy");
                let start =
                    Start { at, proxy, path: path.to_owned(), waited: None, is_answered: false };
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(start);
                Page::FOUND
            },
        );
        let relays =
            (0..if url.is_some() { 0 } else { *proxies }).map(|_| Relay::to(&server.socket()));
        let relays: Vec<_> = relays.collect();
        let places = (0..*proxies).map(|proxy| {
            let url = match url {
                Some(url) => (*url).to_owned(),
                None => format!("redis+unix://{}", relays[proxy].socket().display()),
            };
            Place::new(&format!("[engine]\nurl = \"{url}\"\n{engine}"))
        });
        let places: Vec<_> = places.collect();
        Self {
            proxies: places.iter().map(|place| Some(place.serve())).collect(),
            server,
            relays,
            _places: places,
            site,
            address: Ipv4Addr::LOCALHOST,
            starts,
            crawlers: Vec::new(),
            is_over: Arc::default(),
            watch: Watch::start(),
            begun: monotonic(),
        }
    }

    /// The same with a server, once each proxy knows of all, and has started something.
    #[track_caller]
    pub fn steady(server: RedisServer, settings: &Settings) -> Self {
        let mut world = Self::before(server, settings);
        world.becomes_steady();
        world
    }

    /// The URL of a path of the site.
    pub fn url(&self, path: &str) -> String {
        self.site.url_at(self.address, path)
    }

    /// Waits until each proxy knows of all, lets crawlers begin, and waits until each has started
    /// something.
    #[track_caller]
    pub fn becomes_steady(&mut self) {
        let (members, count) = ("courtesy_engine_members", self.proxies.len());
        until("each knows of all", || self.running().all(|proxy| proxy.metric(members) == count));
        self.crawl();
        self.until_each("has a slot", self.begun, Start::is_slot);
    }

    pub fn running(&self) -> impl Iterator<Item = &Serve> {
        self.proxies.iter().flatten()
    }

    /// Nine crawlers begin, as many at each proxy as there is room for.
    pub fn crawl(&mut self) {
        let addresses: Vec<_> = self.running().map(Serve::address).collect();
        for number in 0..CRAWLERS {
            let proxy = number % addresses.len();
            let url = self.url(&format!("/{proxy}/{number}"));
            let (starts, is_over) = (Arc::clone(&self.starts), Arc::clone(&self.is_over));
            let address = addresses[proxy];
            self.crawlers.push(thread::spawn(move || crawl(address, &url, &starts, &is_over)));
        }
    }

    pub fn get(&self, proxy: usize) -> u16 {
        let serve = self.proxies[proxy].as_ref().expect("it runs");
        serve.get(&self.url(&format!("/{proxy}/once"))).status
    }

    /// The starts since then that are known to be of this kind, in their order.
    pub fn starts(&self, since: Instant, kind: impl Fn(&Start) -> bool) -> Vec<Start> {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.iter().filter(|it| it.at >= since && kind(it)).cloned().collect()
    }

    /// Waits until each running proxy has started something of this kind since then.
    #[track_caller]
    pub fn until_each(&self, what: &str, since: Instant, kind: impl Fn(&Start) -> bool) {
        let running: Vec<_> =
            (0..self.proxies.len()).filter(|proxy| self.proxies[*proxy].is_some()).collect();
        self.until_all_of(&running, what, since, kind);
    }

    #[track_caller]
    pub fn until_all_of(
        &self,
        proxies: &[usize],
        what: &str,
        since: Instant,
        kind: impl Fn(&Start) -> bool,
    ) {
        until(&format!("each {what}"), || {
            let starts = self.starts(since, &kind);
            proxies.iter().all(|proxy| starts.iter().any(|start| start.proxy == *proxy))
        });
    }

    /// How many slots each proxy has used.
    pub fn slots_used(&self) -> Vec<usize> {
        let used = |proxy: &Serve| proxy.metric("courtesy_engine_slots_total{end=\"used\"}");
        self.proxies.iter().map(|proxy| proxy.as_ref().map_or(0, used)).collect()
    }

    /// Waits until `count` of these proxies have used a slot, which had used so many `before`.
    #[track_caller]
    pub fn until_slots(&self, proxies: &[usize], count: usize, before: &[usize]) {
        let (mut starts, mut with_slot) = (0, 0);
        until("starts have slots", || {
            let now = self.starts(self.begun, |_| true).len();
            if std::mem::replace(&mut starts, now) != now {
                let used = self.slots_used();
                with_slot = proxies.iter().filter(|it| used[**it] > before[**it]).count();
            }
            with_slot >= count
        });
    }

    /// Waits until each proxy knows that the cells of so many proxies are left free.
    #[track_caller]
    pub fn until_missing(&self, count: usize) {
        let missing = |proxy: &Serve| proxy.metric("courtesy_engine_missing");
        until("the others are there", || self.running().all(|proxy| missing(proxy) == count));
    }

    /// Asserts of all starts that no two were close, and that they never were more than the pace.
    #[track_caller]
    pub fn keeps_the_pace(&self) {
        let starts = self.starts(self.begun, |_| true);
        let instants: Vec<_> = starts.iter().map(|start| start.at).collect();
        println!("{}", self.shown(&starts));
        let least = instants.windows(2).map(|pair| pair[1] - pair[0]).min();
        println!("{} starts, {least:?} apart at least", starts.len());
        self.watch.assert_apart(&instants, LEAST, || self.shown(&starts));
        assert_sums(&instants, DELAY, || self.shown(&starts));
    }

    /// Milliseconds since the begin, the proxy, and `s` for a slot, `c` for a cell.
    fn shown(&self, starts: &[Start]) -> String {
        let shown = starts.iter().map(|start| {
            let kind = if start.is_share() {
                "c"
            } else if start.is_answered {
                "s"
            } else {
                "?"
            };
            format!("{}:{}{kind}", (start.at - self.begun).as_millis(), start.proxy)
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// Lets the crawlers go on until what began `since` has lasted so long.
    pub fn lasts(&self, since: Instant, time: Duration) {
        until("time passes", || since.elapsed() >= time);
    }

    /// Says what happens, and when.
    pub fn note(&self, what: &str) -> Instant {
        let now = monotonic();
        println!("{} {what}", (now - self.begun).as_millis());
        now
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // What waits there ends with them.
        self.proxies.clear();
        for crawler in self.crawlers.drain(..) {
            let _ = crawler.join();
        }
    }
}

/// Requests pages of a site one after another, and notes of each that came there what it waited for.
fn crawl(proxy: SocketAddr, url: &str, starts: &Starts, is_over: &AtomicBool) {
    let mut crawler = Crawler::new(proxy);
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let url = format!("{url}/{number}");
        match crawler.get(&url) {
            Ok(answer) if answer.status == 200 => {
                let mut starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
                let start = starts.iter_mut().rev().find(|start| url.ends_with(&start.path));
                if let Some(start) = start {
                    (start.waited, start.is_answered) = (answer.waited, true);
                }
            }
            // Its proxy has ended, and another program may have the port next.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            _ => thread::park_timeout(PAUSE),
        }
    }
}
