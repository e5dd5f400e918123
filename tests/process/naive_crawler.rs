//! A crawler of 64 threads without any pace of its own, through the program to a site that asks for
//! one. `COURTESY_TEST_CRAWL_DELAY_MS=1000` has the delay of a whole second, and the longer rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::testkit::parties::{Origin, Script, answer, ok};
use crate::testkit::processes::{Crawler, Place, scale};
use crate::testkit::spacing::{RESOLUTION, assert_origin_spaced};

const THREADS: usize = 64;
const PAGES: usize = 100;
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

#[test]
fn a_crawler_without_a_pace_gets_a_whole_site_at_that_of_the_site() {
    let origin = site();
    assert_eq!(crawl(&origin), 0);
    assert_origin_spaced(&origin, PAGES, delay());
}

#[test]
fn a_crawler_without_a_pace_starts_nothing_while_the_site_rests() {
    let rest = if delay() >= Duration::from_secs(1) { 3 } else { 1 };
    let busy = answer(429, &format!("Retry-After: {rest}\r\n"), "enough");
    let origin = site().on("/50", Script::default().send(busy)).then("/50", ok("now"));
    assert_eq!(crawl(&origin), 1);
    // Each page, and the one that came twice.
    assert_origin_spaced(&origin, PAGES + 1, delay());
    let log = origin.log();
    let busy = log.requests.iter().position(|it| it.path() == "/50").expect("it came");
    // The origin notes a request before it answers it.
    let after = log.requests[busy + 1].at - log.requests[busy].at;
    assert!(after + RESOLUTION >= Duration::from_secs(rest), "{after:?} after the 429");
}
