//! When requests reach their origins while names resolve slowly, by the origins' own clock.

use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::faults::world::names::{Names, name};
use crate::faults::world::{Everywhere, Proxy, inside};
use crate::testkit::spacing::{self, LATENESS};

const DELAY: Duration = Duration::from_millis(500);
const PUBLIC: &str = "8.8.8.8";

/// Eight crawlers request pages of `hosts` at the same time.
#[track_caller]
fn assert_spaced(settings: &str, hosts: &[String]) {
    let _names = Names::start();
    let everywhere = Everywhere::start();
    let proxy = Proxy::start(settings, everywhere.ca());
    let proxy = &proxy;
    let begun = monotonic();
    thread::scope(|crawlers| {
        for number in 0..8 {
            let host = &hosts[number % hosts.len()];
            crawlers.spawn(move || {
                let response = proxy.get(&format!("http://{host}/{number}"));
                assert_eq!(response.status(), 200, "{number}");
            });
        }
    });
    let pages = everywhere.pages();
    assert_eq!(pages.len(), 8);
    spacing::assert_spaced(begun, &pages, DELAY);
    let length = pages[7] - pages[0];
    assert!(length < 2 * DELAY * 7 + LATENESS, "{length:?}");
}

#[test]
fn p1_a_slow_name_lets_no_request_start_early() {
    inside(|| {
        let host = name(&["slow"], &[PUBLIC]);
        assert_spaced("[pace]\ndelay = \"500ms\"", &[host]);
    });
}

/// A turn at an address is taken after the name has been resolved, so each name may come late to it.
#[test]
fn p1_slow_names_of_one_address_let_no_request_start_early() {
    inside(|| {
        let hosts: Vec<_> = (0..8)
            .map(|number| {
                let labels = [format!("n{number}"), "slow".to_owned()];
                let labels: Vec<_> = labels.iter().map(String::as_str).collect();
                name(&labels[..1 + number % 2], &[PUBLIC])
            })
            .collect();
        assert_spaced("[pace]\naddress_delay = \"500ms\"", &hosts);
    });
}
