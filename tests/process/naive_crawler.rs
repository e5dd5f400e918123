//! A crawler of 64 threads without any pace of its own, through the program to a site that asks for
//! one. `COURTESY_TEST_CRAWL_DELAY_MS=1000` has the delay of a whole second, and the longer rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::testkit::parties::{Origin, Script, answer, ok};
use crate::testkit::processes::{Crawler, Place, scale};

const THREADS: usize = 64;
const PAGES: usize = 100;
/// How exactly the origin can observe a distance.
const ACCURACY: Duration = Duration::from_millis(20);
/// By how much a whole crawl may take longer than its delays.
const SLACK: Duration = Duration::from_secs(2);
/// A thread waits for all the others.
const PATIENCE: Duration = Duration::from_secs(180);

fn delay() -> Duration {
    Duration::from_millis(scale("COURTESY_TEST_CRAWL_DELAY_MS", 100) as u64)
}

/// A site that asks for the delay.
fn site() -> Origin {
    Origin::with_robots(&format!("User-agent: *\nCrawl-delay: {}\n", delay().as_secs_f64()))
}

/// Fetches all pages, each until it comes. Returns how often the site itself answered 429.
fn crawl(origin: &Origin) -> usize {
    let place = Place::new("");
    let serve = place.serve();
    let (next, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fetch_pages = || {
        let mut crawler = Crawler::waiting(serve.address(), PATIENCE);
        loop {
            let page = next.fetch_add(1, Ordering::SeqCst);
            if page >= PAGES {
                return;
            }
            loop {
                let answer = crawler.get(&origin.url(&format!("/{page}"))).expect("an answer");
                if (answer.status, answer.body.as_str()) != (429, "enough") {
                    assert_eq!(answer.status, 200, "a refusal: {}", answer.body);
                    break;
                }
                busy.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(fetch_pages))));
    assert_eq!(serve.metric("courtesy_pace_waiting"), 0);
    serve.stop();
    busy.into_inner()
}

/// The distances of the arrivals, each checked against the delay.
fn gaps(origin: &Origin) -> Vec<Duration> {
    let arrivals = origin.arrivals();
    let gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, length): (_, Duration) = (gaps.iter().min(), gaps.iter().sum());
    println!("{} arrivals in {length:?}, the least {least:?} apart", arrivals.len());
    assert!(gaps.iter().all(|gap| *gap >= delay() - ACCURACY), "{gaps:?}");
    gaps
}

#[test]
fn a_crawler_without_a_pace_gets_a_whole_site_at_that_of_the_site() {
    let origin = site();
    assert_eq!(crawl(&origin), 0);
    let gaps = gaps(&origin);
    assert_eq!(gaps.len(), PAGES - 1);
    let (length, delays) = (gaps.iter().sum::<Duration>(), delay() * (PAGES - 1) as u32);
    assert!(length >= delays - ACCURACY && length <= delays + SLACK, "{length:?}");
    // Evenly: the first half takes as long as the second.
    let half: Duration = gaps[..PAGES / 2].iter().sum();
    assert!(half <= delays / 2 + SLACK, "{half:?} of {length:?}");
}

#[test]
fn a_crawler_without_a_pace_starts_nothing_while_the_site_rests() {
    let rest = if delay() >= Duration::from_secs(1) { 3 } else { 1 };
    let busy = answer(429, &format!("Retry-After: {rest}\r\n"), "enough");
    let origin = site().on("/50", Script::default().send(busy)).then("/50", ok("now"));
    assert_eq!(crawl(&origin), 1);
    let rest = Duration::from_secs(rest);
    let gaps = gaps(&origin);
    assert_eq!(gaps.len(), PAGES, "each page, and the one that came twice");
    let at = origin.log().requests.iter().position(|it| it.path() == "/50").expect("it came");
    // The first request was for the robots.txt.
    assert!(gaps[at - 1] >= rest - ACCURACY, "{:?} after the 429", gaps[at - 1]);
    let length: Duration = gaps.iter().sum();
    assert!(length <= delay() * (PAGES - 1) as u32 + rest + SLACK, "{length:?}");
}
