//! Killed and restarted between two requests to an origin that asks for a delay, or for rest.

use std::time::Duration;

use crate::testkit::parties::{Origin, Script, answer, until};
use crate::testkit::processes::{Place, scale};

const DELAY: Duration = Duration::from_secs(2);
const ACCURACY: Duration = Duration::from_millis(20);

#[test]
fn p5_no_request_starts_early_after_a_kill_or_with_another_date() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 2\n");
    let place = Place::new("");
    let kills = scale("COURTESY_TEST_KILLS", 3);
    for round in 0..kills {
        let serve = place.serve_at(["+0", "-3d", "+2d"][round % 3]);
        assert_eq!(serve.get(&origin.url(&format!("/{round}"))).status, 200);
        serve.kill();
    }
    // A start in order between two ends in order, at a clock that was set back.
    for date in ["-1d", "-2d"] {
        let serve = place.serve_at(date);
        assert_eq!(serve.get(&origin.url("/orderly")).status, 200);
        serve.stop();
    }
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.len(), kills + 2);
    let gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= DELAY - ACCURACY), "{gaps:?}");
}

#[test]
fn a_long_rest_outlives_a_kill() {
    let busy = answer(503, "Retry-After: 40\r\n", "");
    let origin = Origin::start().on("/busy", Script::default().send(busy));
    let place = Place::new("[pace]\nmax_wait = \"1s\"");
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/busy")).status, 503);
    until("it is written", || serve.metric("courtesy_pace_store_writes_total") == 1);
    serve.kill();
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/a")).status, 503);
    assert_eq!(origin.arrivals().len(), 1);
}
