//! A log whose files are closed and compressed while it is written: nothing is lost, nothing is there
//! twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::testkit::processes::{Crawler, Place, RULES, Site, scale, until};

const CLIENTS: usize = 8;

#[test]
fn f15_a_log_that_is_rotated_under_load_loses_and_doubles_nothing() {
    let site = Site::with_rules(RULES);
    let place = Place::new("[audit]\nrotate_size = \"16KiB\"\n");
    let serve = place.serve();
    let closed = || serve.metric("courtesy_audit_segments_closed_total");
    let over = AtomicBool::new(false);
    let received: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut crawler = Crawler::new(serve.address());
                let over = &over;
                let url = site.url(&format!("/private/{client}"));
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let answer =
                            crawler.get(&format!("{url}/{}", ids.len())).expect("an answer");
                        ids.push(answer.record.expect("a record"));
                    }
                    ids
                })
            })
            .collect();
        let rotations = scale("COURTESY_TEST_ROTATIONS", 20);
        until("it is rotated often enough", || closed() >= rotations);
        over.store(true, Ordering::SeqCst);
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    serve.stop();

    let log = place.log();
    log.assert_whole();
    let records = log.records();
    let lost = received.iter().filter(|id| !records.contains_key(id.as_str())).count();
    assert_eq!((lost, records.len()), (0, received.len()));
    println!("{} records in {} files", records.len(), log.segments.len());
}
