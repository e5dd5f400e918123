//! The scenes about when requests go, by the clock of the sites.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use super::stage::{self, CRAWLER, Origin, Reply, Stage};

/// How exactly a site on this machine observes a distance.
const ACCURACY: Duration = Duration::from_millis(20);
/// Characters of the ruler for a second.
const RULER_SECOND: usize = 16;

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
