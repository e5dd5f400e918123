//! Two proxies that share an engine, as one site sees them.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::crawler;
use super::origin::{Origin, Reply};
use super::pace::{ACCURACY, RULER_SECOND};
use super::stage::{CRAWLER, Stage};
use crate::cli::ephemeral_proxy::EphemeralProxy;
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::{Roots, Settings};
use crate::engine::{Config, Engine, MemoryEngine, SystemEngineClock};
use crate::runtime::clock::SystemClock;

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
pub fn play(stage: &mut Stage<impl Write>) -> io::Result<()> {
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
                    scope.spawn(move || crawler::get(proxy, &site.url(&path), CRAWLER))
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
