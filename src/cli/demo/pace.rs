//! The scenes about when requests go, by the clock of the sites.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::stage::{self, CRAWLER, Origin, Reply, Stage};
use crate::cli::ephemeral_proxy::EphemeralProxy;
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::{Roots, Settings};
use crate::engine::{Config, Engine, MemoryEngine, SystemEngineClock};
use crate::runtime::clock::SystemClock;

/// How exactly a site on this machine observes a distance.
pub(super) const ACCURACY: Duration = Duration::from_millis(20);
/// Characters of the ruler for a second.
pub(super) const RULER_SECOND: usize = 16;

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64) DemoBrowser/1.0";

/// Crawl-delay: requests are held until their time has come.
pub fn asks_for_time(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "A site that asks for time",
        "Three crawlers ask for two pages each, all at once. Each request is held until its time \
         has come; none is refused.",
    )?;
    let robots = "User-agent: *\nCrawl-delay: 0.5\n";
    let slow = stage.site("calm.example", Reply::rules(robots))?;
    let statuses = at_once(stage, &slow, 6);
    let is_served = statuses.iter().filter(|status| **status == 200).count();
    let result = format!("{is_served} of 6 requests");
    stage.report.check(is_served == 6, "pages for", &result, &[])?;
    check_distances(stage, &slow, Duration::from_millis(500))
}

/// 429 with Retry-After: the origin is left alone.
pub fn has_had_enough(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "A site that has had enough",
        "It answers 429 with Retry-After: 2. The crawler does not know what that means, and goes \
         on at once; the proxy does.",
    )?;
    let tired = stage.site("tired.example", Reply::new("404 Not Found", ""))?;
    let enough = Reply::new("429 Too Many Requests", "enough\n").with("Retry-After", "2");
    tired.answers("/first", enough);
    let answer = stage.get(&tired, "/first", CRAWLER)?;
    let status = answer.status.to_string();
    stage.report.check(answer.status == 429, "the crawler sees the site's answer", &status, &[])?;
    let statuses = at_once(stage, &tired, 2);
    let is_served = statuses.iter().all(|status| *status == 200);
    let pages = show_arrivals(stage, &tired)?;
    let rest = pages.get(1).map_or(Duration::ZERO, |second| *second - pages[0]);
    let is_long = rest + ACCURACY >= Duration::from_secs(2);
    let result = format!("{:.2} s later", rest.as_secs_f64());
    stage.report.check(is_served && is_long, "the next request reaches the site", &result, &[])
}

/// Requests that a browser makes for a document have no delay.
pub fn page_with_pictures(stage: &mut Stage<impl Write>) -> io::Result<()> {
    const PICTURES: usize = 12;
    stage.report.scene(
        "A page with pictures",
        "What a browser loads for a page goes with it; the next page has its own time.",
    )?;
    let robots = "User-agent: *\nCrawl-delay: 1\n";
    let gallery = stage.site("gallery.example", Reply::rules(robots))?;
    let page = Reply::new("200 OK", "<!doctype html>\n");
    gallery.answers("/", page.with("Content-Type", "text/html"));
    let ask = |path: &str, dest: &str| {
        let field = format!("Sec-Fetch-Dest: {dest}\r\n");
        stage::get_with(stage.proxy, &gallery.url(path), BROWSER, &field)
    };
    ask("/", "document")?;
    for number in 0..PICTURES {
        ask(&format!("/{number}.jpg"), "image")?;
    }
    ask("/next", "document")?;
    let pages = show_arrivals(stage, &gallery)?;
    let [pictures, next] = [PICTURES, PICTURES + 1].map(|index| pages[index] - pages[0]);
    let is_quick = pictures < Duration::from_secs(1);
    let result = format!("{:.2} s", pictures.as_secs_f64());
    stage.report.check(is_quick, "a page and its twelve pictures take", &result, &[])?;
    let is_late = next + ACCURACY >= Duration::from_secs(1);
    let result = format!("{:.2} s later", next.as_secs_f64());
    stage.report.check(is_late, "the next page reaches the site", &result, &[])
}

/// The statuses of `count` requests that are made at once.
fn at_once(stage: &Stage<impl Write>, origin: &Origin, count: usize) -> Vec<u16> {
    let proxy = stage.proxy;
    let visit = |number: usize| {
        stage::get(proxy, &origin.url(&format!("/page/{number}")), CRAWLER)
            .map_or(0, |answer| answer.status)
    };
    thread::scope(|scope| {
        let visits: Vec<_> = (0..count).map(|number| scope.spawn(move || visit(number))).collect();
        visits.into_iter().filter_map(|visit| visit.join().ok()).collect()
    })
}

/// Shows the arrivals at `origin` on a ruler, and checks that they are `delay` apart.
fn check_distances(
    stage: &mut Stage<impl Write>,
    origin: &Origin,
    delay: Duration,
) -> io::Result<()> {
    let arrivals = show_arrivals(stage, origin)?;
    let gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let least = gaps.iter().min().copied().unwrap_or_default();
    let holds = least + ACCURACY >= delay;
    let result = format!("{:.3} s", least.as_secs_f64());
    stage.report.check(holds, "the least distance of two arrivals", &result, &[])
}

/// Shows the arrivals at `origin` on a ruler.
fn show_arrivals(stage: &mut Stage<impl Write>, origin: &Origin) -> io::Result<Vec<Instant>> {
    let arrivals = origin.arrivals();
    let mut ruler = String::new();
    for arrival in &arrivals {
        let place = (*arrival - arrivals[0]).as_secs_f64() * RULER_SECOND as f64;
        let blanks = (place.round() as usize).saturating_sub(ruler.chars().count());
        ruler.extend(std::iter::repeat_n('·', blanks));
        ruler.push('▲');
    }
    let seconds = arrivals.last().map_or(0.0, |last| (*last - arrivals[0]).as_secs_f64());
    stage.report.show(&[format!("{ruler}  {seconds:.2} s")])?;
    Ok(arrivals)
}

/// What the site asks for between two requests.
const DELAY: Duration = Duration::from_millis(500);
/// Requests that each proxy gets at once.
const REQUESTS: usize = 2;
/// The paths that each of the proxies is asked for begin so.
const NAMES: [&str; 2] = ["one", "two"];

/// The proxies, and their handles on the engine.
struct Pair {
    engines: [Arc<MemoryEngine>; 2],
    proxies: Vec<EphemeralProxy>,
    // The proxies end before their directory goes.
    _dir: TemporaryDir,
}

/// One fetch and one pace, a share of the pace each while the engine is away, and one pace again.
pub fn play_cluster(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "Two proxies, one site",
        "Two proxies share an engine: here in memory, elsewhere a Redis or Valkey server. The site \
         asks for half a second between two requests, whichever proxy sends them. Then the engine \
         is taken away, and given back.",
    )?;
    let pair = Pair::start()?;
    let site = stage.site("shared.example", Reply::rules("User-agent: *\nCrawl-delay: 0.5\n"))?;

    let arrivals = pair.ask(stage, &site, "both")?;
    let fetches = site.asked("/robots.txt");
    let word = if fetches == 1 { "once".to_owned() } else { format!("{fetches} times") };
    stage.report.check(fetches == 1, "robots.txt was asked for, by both together", &word, &[])?;
    check_least(
        stage,
        "the least distance of two arrivals, of whichever proxy",
        &all(&arrivals),
        DELAY,
    )?;

    stage.report.say("Without the engine each proxy takes its half of the pace.")?;
    pair.set_away(true);
    let arrivals = pair.ask(stage, &site, "apart")?;
    for (name, of_proxy) in NAMES.iter().zip(&arrivals) {
        let what = format!("the engine is away: the least distance of two of proxy {name}");
        check_least(stage, &what, of_proxy, 2 * DELAY)?;
    }

    stage.report.say("The engine is back: the pace is one again.")?;
    pair.set_away(false);
    let arrivals = pair.ask(stage, &site, "again")?;
    check_least(
        stage,
        "the least distance of two arrivals, of whichever proxy",
        &all(&arrivals),
        DELAY,
    )
}

impl Pair {
    fn start() -> io::Result<Self> {
        let clock = Arc::new(SystemEngineClock::new(Arc::new(SystemClock)));
        let first = MemoryEngine::new(Config::named(NAMES[0]), clock);
        let second = first.beside(Config::named(NAMES[1]));
        let engines = [first, second].map(Arc::new);
        let dir = TemporaryDir::new(Purpose::SecondDemo)?;
        let proxies = NAMES.iter().zip(&engines).map(|(name, engine)| {
            let dir = dir.path().join(name);
            let mut settings =
                Settings { state_dir: dir.clone(), workers: Some(1), ..Settings::default() };
            settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")];
            settings.tls.roots = Roots::Bundled;
            let engine = Arc::clone(engine) as Arc<dyn Engine>;
            EphemeralProxy::start_with(settings, &dir.join("audit"), Some(engine))
                .map_err(|failure| io::Error::other(failure.error))
        });
        let pair = Self { proxies: proxies.collect::<io::Result<_>>()?, engines, _dir: dir };
        pair.heartbeat();
        Ok(pair)
    }

    /// Each learns of the other; a server's engine sends its heartbeats by itself.
    fn heartbeat(&self) {
        let twice = self.engines.iter().chain(&self.engines);
        // One in memory responds at once, if it is there.
        twice.for_each(|engine| drop(engine.heartbeat()));
    }

    fn set_away(&self, is_away: bool) {
        self.engines.iter().for_each(|engine| engine.set_away(is_away));
    }

    /// Requests pages of both proxies at once, and shows when the site gets them, for each proxy.
    fn ask(
        &self,
        stage: &mut Stage<impl Write>,
        site: &Origin,
        round: &str,
    ) -> io::Result<[Vec<Instant>; 2]> {
        let path = |name: &str, number: usize| format!("/{name}/{round}/{number}");
        let served = thread::scope(|scope| {
            let visits = NAMES.iter().zip(&self.proxies).flat_map(|(name, proxy)| {
                (0..REQUESTS).map(move |number| (proxy.address, path(name, number)))
            });
            let visits: Vec<_> = visits
                .map(|(proxy, path)| {
                    scope.spawn(move || stage::get(proxy, &site.url(&path), CRAWLER))
                })
                .collect();
            let answers = visits.into_iter().filter_map(|visit| visit.join().ok()?.ok());
            answers.filter(|answer| answer.status == 200).count()
        });
        let count = NAMES.len() * REQUESTS;
        let result = format!("{served} of {count} requests");
        stage.report.check(served == count, "pages for", &result, &[])?;
        let arrivals = NAMES.map(|name| site.arrivals_below(&format!("/{name}/{round}/")));
        stage.report.show(&ruler(&arrivals))?;
        Ok(arrivals)
    }
}

/// The arrivals of both, in order.
fn all(arrivals: &[Vec<Instant>; 2]) -> Vec<Instant> {
    let mut all = arrivals.concat();
    all.sort();
    all
}

/// A line for each proxy, on one scale.
fn ruler(arrivals: &[Vec<Instant>; 2]) -> Vec<String> {
    let Some(first) = arrivals.iter().flatten().min().copied() else { return Vec::new() };
    let line = |(name, of_proxy): (&&str, &Vec<Instant>)| {
        let mut line = String::new();
        for arrival in of_proxy {
            let place = (*arrival - first).as_secs_f64() * RULER_SECOND as f64;
            let blanks = (place.round() as usize).saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n('·', blanks));
            line.push('▲');
        }
        format!("{name}  {line}")
    };
    NAMES.iter().zip(arrivals).map(line).collect()
}

fn check_least(
    stage: &mut Stage<impl Write>,
    what: &str,
    arrivals: &[Instant],
    delay: Duration,
) -> io::Result<()> {
    let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps.min().unwrap_or_default();
    let result = format!("{:.3} s", least.as_secs_f64());
    stage.report.check(least + ACCURACY >= delay, what, &result, &[])
}
