//! Killed under load, again and again: what a client was told is in the log, and the log holds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::testkit::processes::{Crawler, Place, RULES, Serve, Site, scale, until};

/// Clients that ask at one time.
const CLIENTS: usize = 32;

/// Denials that are answered at the least before each kill.
const DENIALS: usize = 1000;

/// How long the load lasts at the least: several batches of whatever is written now and then.
const LOAD: Duration = Duration::from_secs(1);

/// Files so small that some are being closed and compressed at every moment.
const SETTINGS: &str = "[audit]\nrotate_size = \"256KiB\"";

#[test]
fn f13_every_received_denial_has_its_record_after_kills() {
    let site = Site::with_rules(RULES);
    let place = Place::new(SETTINGS);
    let mut received = Vec::new();
    for round in 0..scale("COURTESY_TEST_KILLS", 3) {
        received.extend(killed_under_load(place.serve(), &site, round));
    }
    // The next start sets aside what was torn; its end leaves nothing half done.
    let serve = place.serve();
    received.extend(serve.get(&site.url("/private/last")).record);
    until("every closed file is compressed", || place.closed_segments("jsonl").is_empty());
    serve.stop();

    assert_eq!(site.pages(), 0, "a page that is disallowed was asked for");
    assert_eq!(site.fetches(), 1, "the file was asked for again after a restart");
    let log = place.log();
    log.assert_whole();
    let records = log.records();
    let lost: Vec<_> = received.iter().filter(|id| !records.contains_key(id.as_str())).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), received.len());
    assert!(log.segments.len() > 3, "{:?}", log.segments);
    let verified = place.verified();
    println!(
        "{} received, {} recorded in {} files\n{verified}",
        received.len(),
        records.len(),
        log.segments.len()
    );
}

/// The ids of the denials that clients received until the proxy was killed while they asked.
fn killed_under_load(serve: Serve, site: &Site, round: usize) -> Vec<String> {
    let answered = AtomicUsize::new(0);
    let begun = monotonic();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut crawler = Crawler::new(serve.address());
                let (answered, url) = (&answered, site.url(&format!("/private/{round}/{client}")));
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    // No answer: the proxy is gone.
                    while let Ok(answer) = crawler.get(&format!("{url}/{}", ids.len())) {
                        assert_eq!(answer.status, 403, "{answer:?}");
                        ids.push(answer.record.expect("a record"));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    ids
                })
            })
            .collect();
        // Not always at the same place of whatever goes round.
        let enough = DENIALS + 137 * round;
        until("there is load", || {
            answered.load(Ordering::SeqCst) >= enough && begun.elapsed() >= LOAD
        });
        let rate = answered.load(Ordering::SeqCst) as f64 / begun.elapsed().as_secs_f64();
        println!("kill {}: {rate:.0} denials a second", round + 1);
        serve.kill();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    })
}
