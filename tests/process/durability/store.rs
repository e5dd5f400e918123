//! A store that cannot be used costs what it knew, never an answer: nothing is allowed that would
//! have been denied, and the log says what is wrong.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;

use crate::testkit::processes::{Place, RULES, Site};

/// A proxy on a store that something has happened to. It denies by the rules, after one more fetch,
/// and what it logs is given.
#[track_caller]
fn served_after(happened: impl FnOnce(&Place)) -> (Place, Site, String) {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    serve.stop();
    // All of it is in one file then, as a copy would have it.
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    Connection::open(place.store()).unwrap().query_row(checkpoint, [], |_| Ok(())).unwrap();
    happened(&place);
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(serve.get(&site.url("/open")).status, 200);
    assert_eq!(site.fetches(), 2, "{}", serve.said());
    let said = serve.stop();
    assert!(said.contains("/state"), "nothing is said: {said}");
    (place, site, said)
}

/// Once more: what was begun in place of the damaged store holds.
#[track_caller]
fn assert_remembered(place: &Place, site: &Site) {
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(site.fetches(), 2, "it was forgotten again: {}", serve.said());
    serve.stop();
}

/// The damaged stores that were moved aside.
fn set_aside(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.state_dir()).expect("a state directory").flatten();
    let is_aside = |path: &PathBuf| path.to_string_lossy().contains("state.damaged-");
    entries.map(|entry| entry.path()).filter(is_aside).collect()
}

#[test]
fn a_store_of_garbage_is_set_aside() {
    let (place, site, _) =
        served_after(|place| fs::write(place.store(), "garbage".repeat(100_000)).unwrap());
    assert_eq!(set_aside(&place).len(), 1);
    assert_remembered(&place, &site);
}

#[test]
fn a_store_that_was_cut_short_is_set_aside() {
    let (place, site, _) = served_after(|place| {
        let bytes = fs::read(place.store()).unwrap();
        fs::write(place.store(), &bytes[..bytes.len() / 2]).unwrap();
    });
    assert_remembered(&place, &site);
}

#[test]
fn a_store_with_changed_bytes_is_not_believed() {
    let (place, site, _) = served_after(|place| {
        let mut bytes = fs::read(place.store()).unwrap();
        bytes.iter_mut().step_by(61).for_each(|byte| *byte ^= 0x55);
        fs::write(place.store(), bytes).unwrap();
    });
    assert_remembered(&place, &site);
}

/// Rules that somebody wrote into the file are not rules of the site.
#[test]
fn a_store_with_other_rules_in_it_is_not_believed() {
    let (place, site, _) = served_after(|place| {
        let mut bytes = fs::read(place.store()).unwrap();
        let places: Vec<_> = memchr::memmem::find_iter(&bytes, "Disallow: /private/").collect();
        assert!(!places.is_empty(), "the rules are not in the file as they are");
        for at in places {
            bytes[at..at + 19].copy_from_slice(b"Disallow: /opened!/");
        }
        fs::write(place.store(), bytes).unwrap();
    });
    assert_remembered(&place, &site);
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let version = |place: &Place| {
        let database = Connection::open(place.store()).unwrap();
        database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap()
    };
    let (place, _, said) = served_after(|place| {
        let database = Connection::open(place.store()).unwrap();
        database.pragma_update(None, "user_version", 1_000_000).unwrap();
    });
    assert!(said.contains("newer"), "{said}");
    assert_eq!(set_aside(&place), Vec::<PathBuf>::new());
    assert_eq!(version(&place), 1_000_000);
}
