//! How much room the file takes.

use super::super::disk::Offline;
use super::*;

/// What no compression makes smaller.
pub(super) fn noise(seed: usize, bytes: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("# ");
    for block in 0..bytes / 64 {
        let _ = write!(
            text,
            "{}",
            crate::types::sanitize::sha256_hex(format!("{seed} {block}").as_bytes())
        );
    }
    text
}

#[tokio::test]
async fn the_file_stays_within_its_bound_and_the_oldest_go() {
    let home = Home::new();
    let size_max = 8 << 20;
    let house =
        home.house_of(size_max, (0..1500).map(|number| Some(file(&noise(number, 6000)))).collect());
    let disk = house.store.disk().expect("a disk");
    for number in 0..1500 {
        house.ask(&format!("{number}.example"), &rfc9309()).await;
        if number % 300 == 299 {
            assert!(disk.flush(TIMEOUT));
            let health = house.store.health();
            assert!(health.file_bytes <= size_max + size_max / 100, "{health:?}");
        }
    }
    let health = house.store.health();
    assert!(health.evicted > 500 && health.entries > 500, "{health:?}");
    house.store.close();
    let offline = Offline::open(&home.file()).expect("a store");
    for (number, is_there) in [(0, false), (1499, true), (1400, true)] {
        let report = offline.get(&origin(&format!("{number}.example"))).expect("it can be read");
        assert_eq!(report.is_some(), is_there, "{number}");
    }
}

#[tokio::test]
async fn ten_thousand_origins_with_the_same_files_keep_each_once() {
    let home = Home::new();
    let house = home.house((0..10_000).map(|number| Some(file(&noise(number % 5, 640)))).collect());
    for number in 0..10_000 {
        house.ask(&format!("{number}.example"), &rfc9309()).await;
        if number % 1000 == 999 {
            assert!(house.store.disk().expect("a disk").flush(TIMEOUT));
        }
    }
    house.store.close();
    let offline = Offline::open(&home.file()).expect("a store");
    let stats = offline.stats().expect("it can be read");
    assert_eq!((stats.entries, stats.blobs), (10_000, 5));
    let mut exported = 0;
    let broken = offline.export(|report| {
        exported += usize::from(report.persisted.good.is_some());
        Ok(())
    });
    assert_eq!((exported, broken.expect("it can be read").expect("it was taken")), (10_000, 0));
}

#[tokio::test]
async fn a_file_goes_with_the_last_origin_that_has_it() {
    let home = Home::new();
    let house = home.house(vec![Some(file("# one")), Some(file("# one")), Some(file("# two"))]);
    for host in ["a.example", "b.example", "c.example"] {
        house.ask(host, &rfc9309()).await;
    }
    let house = house.restart(vec![]);
    house.store.forget(&origin("a.example")).await;
    house.store.forget(&origin("c.example")).await;
    house.store.close();
    let mut offline = Offline::open(&home.file()).expect("a store");
    let stats = offline.stats().expect("it can be read");
    assert_eq!((stats.entries, stats.blobs), (1, 1));
    assert!(offline.forget(&origin("b.example")).expect("it can be written"));
    let stats = offline.stats().expect("it can be read");
    assert_eq!((stats.entries, stats.blobs, stats.bytes), (0, 0, 0));
    let (before, after) = offline.compact().expect("it can be written");
    assert!(after <= before);
}
