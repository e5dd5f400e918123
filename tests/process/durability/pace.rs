//! Killed and restarted between two requests to an origin that asks for a delay, or that is held.

use std::time::Duration;

use crate::testkit::parties::{Origin, Script, answer, until};
use crate::testkit::processes::{Place, scale};
use crate::testkit::spacing::{LATENESS, assert_origin_spaced};

const DELAY: Duration = Duration::from_secs(2);

fn asking() -> Origin {
    Origin::with_robots("User-agent: *\nCrawl-delay: 2\n")
}

/// Asserts that so many requests came, a delay apart; the longest distance.
#[track_caller]
fn assert_spaced(origin: &Origin, count: usize) -> Duration {
    assert_origin_spaced(origin, count, DELAY);
    let arrivals = origin.arrivals();
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[test]
fn p5_no_request_starts_early_after_a_kill_or_with_another_date() {
    let (origin, place) = (asking(), Place::new(""));
    let kills = scale("COURTESY_TEST_KILLS", 3);
    for round in 0..kills {
        let serve = place.serve_at(["+0", "-3d", "+2d"][round % 3]);
        assert_eq!(serve.get(&origin.url(&format!("/{round}"))).status, 200);
        serve.kill();
    }
    assert_spaced(&origin, kills);
}

#[test]
fn p5_an_end_in_order_keeps_the_delay_at_any_date() {
    let (origin, place) = (asking(), Place::new(""));
    let dates = ["+0", "-1d", "+2d", "-3d", "+0"];
    for date in dates {
        let serve = place.serve_at(date);
        assert_eq!(serve.get(&origin.url("/")).status, 200);
        serve.stop();
    }
    let longest = assert_spaced(&origin, dates.len());
    assert!(
        longest < 3 * DELAY + 4 * LATENESS,
        "nothing is lost for longer than its bound: {longest:?}"
    );
}

#[test]
fn p5_a_start_after_a_kill_does_not_make_the_next_one_early() {
    let (origin, place) = (asking(), Place::new(""));
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/first")).status, 200);
    serve.kill();
    // It has nothing to do with the origin, and ends in order.
    place.serve().stop();
    assert_eq!(place.serve().get(&origin.url("/second")).status, 200);
    assert_spaced(&origin, 2);
}

#[test]
fn p5_a_damaged_store_costs_time_and_no_early_start() {
    let (origin, place) = (asking(), Place::new(""));
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/first")).status, 200);
    serve.stop();
    std::fs::write(place.store(), "not a database, but a letter").expect("a file");
    assert_eq!(place.serve().get(&origin.url("/second")).status, 200);
    assert_spaced(&origin, 2);
}

#[test]
fn a_long_rest_outlives_a_kill() {
    let busy = answer(503, "Retry-After: 40\r\n", "");
    let origin = Origin::start().on("/busy", Script::default().send(busy));
    let place = Place::new("[pace]\nmax_wait = \"1s\"");
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/busy")).status, 503);
    until("it is written", || place.holds() == 1);
    serve.kill();
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/a")).status, 503);
    assert_eq!(origin.arrivals().len(), 1);
}
