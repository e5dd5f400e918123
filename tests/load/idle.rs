//! Clients that are there and want nothing.

use crate::gauge::Gauge;
use crate::ordinary::{Histogram, raise_descriptors};
use crate::site::Site;
use crate::testkit::parties::Client;
use crate::testkit::processes::{Place, scale, until};
use crate::turn::Turn;

/// What one may cost, and all of 10,000 with everything else (safety row L1).
const BYTES_EACH: usize = 10 << 10;
const BYTES_IN_ALL: usize = 200 << 20;

/// Every second one has asked for something before.
#[test]
fn l1_idle_clients_cost_little_disturb_nobody_and_are_let_go() {
    let _turn = Turn::wait();
    let count = scale("COURTESY_TEST_IDLE", 1000);
    raise_descriptors();
    let site = Site::plain();
    let places = count + 100;
    // Time to arrive, and to be looked at.
    let idle = 10 + count / 200;
    let place = Place::new(&format!(
        "[clients]\nmax_connections = {places}\nmax_per_client = {places}\n[limits]\nidle_timeout = \"{idle}s\""
    ));
    let serve = place.serve();
    let alone = Histogram::of(&serve, &site);
    let before = Gauge::of(&serve);
    let url = site.url(1, 1, "/open");
    let mut crowd: Vec<_> = (0..count)
        .map(|number| {
            let mut client = Client::connect(serve.address());
            if number.is_multiple_of(2) {
                assert_eq!(client.get(&url).status(), 200);
            }
            client
        })
        .collect();
    until("all are inside", || serve.metric("courtesy_connections") >= count);
    let beside = Histogram::of(&serve, &site);
    let after = Gauge::of(&serve);
    assert!(
        serve.metric("courtesy_connections") >= count,
        "some left before they had been looked at"
    );
    let each = after.resident.saturating_sub(before.resident) / count;
    println!("{count} idle clients: {} MiB in all, {} KiB each", after.resident >> 20, each >> 10);
    beside.assert_near(alone);
    assert!(each <= BYTES_EACH, "{each} bytes each");
    assert!(after.resident <= BYTES_IN_ALL, "{} bytes in all", after.resident);

    until("they are let go", || serve.metric("courtesy_connections") == 0);
    crowd.iter_mut().for_each(Client::assert_closed);
    assert_eq!(serve.metric("courtesy_panics_total"), 0);
    serve.stop();
}
