//! A log that other programs move away while it is written: nothing is lost, nothing is there twice.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::testkit::processes::{Crawler, Log, Place, RULES, Site, scale, until};

const CLIENTS: usize = 8;

/// Denials between two rotations, at the least.
const DENIALS: usize = 50;

/// As logrotate does it without `copytruncate`, which loses by its nature what is written between the
/// two.
#[test]
fn f15_a_log_that_is_moved_away_under_load_loses_and_doubles_nothing() {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let serve = place.serve();
    let moved = place.path().join("moved");
    fs::create_dir(&moved).expect("a directory that can be written to");
    let file = place.audit_dir().join("denials.jsonl");
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let received: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut crawler = Crawler::new(serve.address());
                let (answered, over) = (&answered, &over);
                let url = site.url(&format!("/private/{client}"));
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let answer =
                            crawler.get(&format!("{url}/{}", ids.len())).expect("an answer");
                        ids.push(answer.record.expect("a record"));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    ids
                })
            })
            .collect();
        for number in 0..scale("COURTESY_TEST_ROTATIONS", 20) {
            let enough = answered.load(Ordering::SeqCst) + DENIALS;
            until("there is load", || answered.load(Ordering::SeqCst) >= enough);
            fs::rename(&file, moved.join(format!("denials-{number:06}.jsonl")))
                .expect("a log to be moved");
            serve.signal("HUP");
            until("there is another file", || file.exists());
        }
        over.store(true, Ordering::SeqCst);
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    serve.stop();

    let mut log = Log::read(&moved);
    log.lines.extend(place.log().lines);
    log.assert_whole();
    let records = log.records();
    let lost = received.iter().filter(|id| !records.contains_key(id.as_str())).count();
    assert_eq!((lost, records.len()), (0, received.len()));
    println!("{} records in {} files", records.len(), log.segments.len() + 1);
}
