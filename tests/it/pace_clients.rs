//! A polite client beside ones that are not, at one origin.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::admin::metrics;
use crate::testkit::parties::{Client, Origin, Proxy, Script, answer, request};
use crate::testkit::spacing::{LATENESS, assert_spaced};

/// Longer than a client on a busy machine takes from a response to its next request.
const DELAY: Duration = Duration::from_millis(300);
/// Requests of the polite client, each after the response to the one before.
const POLITE: usize = 6;
/// Requests of the hostile one, all at once.
const HOSTILE: usize = 120;
/// Requests that may wait at the origin; an eighth is kept from each client.
const WAITING_MAX: usize = 64;

/// All of 127.0.0.0/8 are this machine, and each address is a client of its own.
fn client(number: u8, proxy: &Proxy) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 0, 0, number), proxy.address())
}

/// Asks for `path` again and again, and leaves each time after the next of `stays`.
fn leave_again_and_again(
    (number, proxy): (u8, &Proxy),
    url: &str,
    stays: &[u64],
    is_over: &AtomicBool,
) {
    for stay in stays.iter().cycle() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let mut client = client(number, proxy);
        let _ = client.try_send(request("GET", url, ""));
        let left_at = monotonic() + Duration::from_millis(*stay);
        while monotonic() < left_at {
            thread::park_timeout(left_at.saturating_duration_since(monotonic()));
        }
        client.reset();
    }
}

#[test]
fn p2_a_polite_client_has_its_share_beside_three_that_are_not() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 0.3\n");
    let proxy = Proxy::with(|settings| settings.pace.max_waiting_per_origin = WAITING_MAX);
    let is_over = AtomicBool::new(false);
    assert_eq!(client(9, &proxy).get(&origin.url("/first")).status(), 200);
    let mut crowd: Vec<_> = (0..HOSTILE).map(|_| client(2, &proxy)).collect();
    for hostile in &mut crowd {
        hostile.ask("GET", &origin.url("/hostile"), "");
    }
    let waiting = |proxy: &Proxy| metrics(proxy)["courtesy_pace_waiting"] as usize;
    let took = thread::scope(|scope| {
        let (proxy, is_over) = (&proxy, &is_over);
        let urls = [origin.url("/impatient"), origin.url("/vanishing")];
        let [impatient, vanishing] = urls;
        // Leaves before its turn; and with it, granted for half a delay before its start.
        scope.spawn(move || leave_again_and_again((3, proxy), &impatient, &[5, 50, 90], is_over));
        scope.spawn(move || {
            leave_again_and_again((4, proxy), &vanishing, &[560, 220, 860], is_over)
        });
        let begun = monotonic();
        let mut polite = client(5, proxy);
        for number in 0..POLITE {
            assert_eq!(polite.get(&origin.url("/polite")).status(), 200, "request {number}");
            assert!(waiting(proxy) <= WAITING_MAX);
        }
        is_over.store(true, Ordering::SeqCst);
        begun.elapsed()
    });
    let log = origin.log();
    let paths: Vec<_> = log.requests.iter().map(|request| request.path()).collect();
    let polite = paths.iter().position(|path| *path == "/polite").expect("it came");
    let last = paths.iter().rposition(|path| *path == "/polite").expect("it came");
    for other in ["/hostile", "/impatient", "/vanishing"] {
        let count = paths[polite..=last].iter().filter(|path| **path == other).count();
        assert!(count <= POLITE + 2, "{count} of {other} beside {POLITE}");
    }
    // Four clients in turn, and a little for the machine.
    assert!(took <= DELAY * (4 * POLITE as u32) * 5 / 4 + 4 * LATENESS, "{took:?}");
    let arrivals: Vec<_> = log.requests[1..].iter().map(|request| request.at).collect();
    assert_spaced(log.requests[0].at, &arrivals, DELAY);
    let full = metrics(&proxy)["courtesy_pace_refusals_total{reason=\"full\"}"] as usize;
    assert!(full >= HOSTILE - WAITING_MAX, "{full} had no room");
}

/// (name, places, whether the origin has been held before, uploads of each of two clients, an
/// octet of which comes so often)
#[test]
fn p8_uploads_that_their_clients_hold_up_leave_the_site_to_others() {
    let often = Some(Duration::from_millis(200));
    for (name, concurrency, has_rested, uploads, pause) in [
        ("after a hold, silent", 8, true, [1, 0], None),
        ("after a hold, dripping", 8, true, [1, 1], often),
        ("one place", 1, false, [1, 0], often),
        ("few places, of two clients", 4, false, [3, 3], None),
        ("many uploads", 8, false, [12, 12], often),
    ] {
        let busy = Script::default().send(answer(429, "Retry-After: 1\r\n", ""));
        let upload = Script::default().leave_body().hold();
        let origin = Origin::start().on("/busy", busy).on("/upload", upload);
        let proxy = Proxy::with(|settings| settings.pace.concurrency = concurrency);
        if has_rested {
            assert_eq!(proxy.get(&origin.url("/busy")).status(), 429, "{name}");
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let upload = |number: u8| {
                let mut client = client(number, &proxy);
                client.ask("POST", &origin.url("/upload"), "Content-Length: 100000\r\n");
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        pause.iter().for_each(|_| drop(client.try_send("a")));
                        thread::sleep(pause.unwrap_or(Duration::from_millis(50)));
                    }
                });
            };
            (0..uploads[0]).for_each(|_| upload(1));
            (0..uploads[1]).for_each(|_| upload(2));
            let count = uploads[0] + uploads[1];
            origin.wait_until("all uploads are there", |log| {
                log.requests.iter().filter(|request| request.path() == "/upload").count() == count
            });
            assert_eq!(client(3, &proxy).get(&origin.url("/page")).status(), 200, "{name}");
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
